"""What `make audit` makes of pip-audit's output: only releases that were looked up, and are not weak, are good."""

from __future__ import annotations

import json

import pytest

from tests.audit import main, verdict

GOOD = {"name": "anyio", "version": "4.9.0", "vulns": []}
WEAK = {"name": "jinja2", "version": "3.0.0", "vulns": [{"id": "CVE-1", "fix_versions": ["3.1.6"], "aliases": []}]}
SKIPPED = {"name": "wrapt", "skip_reason": "Dependency not found on PyPI and could not be audited: wrapt (2.5.2)"}


def written(*releases: object) -> str:
    return json.dumps({"dependencies": releases, "fixes": []})


def test_releases_that_were_looked_up_and_are_not_weak_are_good() -> None:
    assert verdict(written(GOOD, GOOD)) == (True, "make audit: 2 of 2 releases looked up, 0 weaknesses")


def test_a_weakness_is_named_with_the_release_that_mends_it() -> None:
    is_good, words = verdict(written(GOOD, WEAK))

    assert not is_good
    assert "jinja2 3.0.0: CVE-1, mended in 3.1.6" in words


def test_a_release_that_was_not_looked_up_is_not_taken_for_good() -> None:
    is_good, words = verdict(written(GOOD, SKIPPED))

    assert not is_good
    assert "1 of 2 releases looked up" in words
    assert "wrapt (2.5.2)" in words and "pypi.org" in words and "SERVICE=osv" in words


def test_an_audit_of_nothing_is_not_taken_for_good() -> None:
    is_good, _ = verdict(written())

    assert not is_good


def test_without_an_answer_the_audit_fails_and_says_so() -> None:
    with pytest.raises(SystemExit, match="nothing was looked up"):
        main("no-such-file.json")
