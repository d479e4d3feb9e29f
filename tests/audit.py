"""Says what pip-audit found about the releases in `constraints.txt`, so that "not looked up" never reads as "nothing".

python -m tests.audit FILE      FILE holds the output of `pip-audit --format json`; `make audit` runs both.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel, Field


class Weakness(BaseModel):
    """A known weakness of a release."""

    id: str
    fix_versions: list[str] = Field(default_factory=list)


class Looked(BaseModel):
    """A release, and what is known about it; with a `skip_reason` nothing was asked or answered."""

    name: str
    version: str = ""
    vulns: list[Weakness] = Field(default_factory=list)
    skip_reason: str | None = None


class Audit(BaseModel):
    """What pip-audit writes."""

    dependencies: list[Looked]


def verdict(written: str) -> tuple[bool, str]:
    """Return whether every release was looked up and none is weak, and the words for it."""
    releases = Audit.model_validate_json(written).dependencies
    skipped = [each for each in releases if each.skip_reason]
    lines = [
        f"{each.name} {each.version}: {weakness.id}, mended in {', '.join(weakness.fix_versions) or 'no release yet'}"
        for each in releases
        for weakness in each.vulns
    ]
    weak = len(lines)
    lines.append(f"make audit: {len(releases) - len(skipped)} of {len(releases)} releases looked up, {weak} weaknesses")
    if skipped:
        lines += [
            f"{len(skipped)} were not looked up, the first because: {skipped[0].skip_reason}",
            "That says nothing about them. The registry here may not answer questions about releases (a mirror does "
            "not): run it where pypi.org is reached, or where api.osv.dev is: make audit SERVICE=osv",
        ]
    return not weak and not skipped and bool(releases), "\n".join(lines)


def main(file: str) -> None:
    """Print the verdict; the exit status tells whether it is good."""
    found = Path(file)
    if not found.exists():
        sys.exit("make audit: pip-audit answered nothing, so nothing was looked up; what it says stands above.")
    is_good, words = verdict(found.read_text())
    print(words)
    sys.exit(not is_good)


if __name__ == "__main__":
    main(*sys.argv[1:])
