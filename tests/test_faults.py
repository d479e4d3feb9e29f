"""A small sample of what `make faults` does at length: kills, errors, cancellations and a soak, none inconsistent."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.faults.errors import run_errors
from tests.faults.kills import run_kills
from tests.faults.soak import run_soak
from tests.faults.world import Deed, without_log


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_the_graph_as_before_or_as_after(tmp_path: Path) -> None:
    figure = run_kills(tmp_path, moments=2, stride=20)

    assert "inconsistencies 0" in figure


@pytest.mark.slow
def test_an_error_or_a_cancellation_anywhere_in_an_add_is_made_good_by_adding_again() -> None:
    figure = run_errors(Path(), "memory", stride=17)

    assert "inconsistencies 0" in figure


@pytest.mark.slow
@pytest.mark.parametrize("deed", ["merge", "unmerge"])
def test_a_merge_or_its_end_that_is_killed_leaves_the_graph_as_before_or_as_after(tmp_path: Path, deed: Deed) -> None:
    figure = run_kills(tmp_path, deed=deed, moments=1, stride=12)

    assert "inconsistencies 0" in figure


@pytest.mark.slow
@pytest.mark.parametrize("deed", ["merge", "unmerge"])
def test_an_error_or_a_cancellation_anywhere_in_a_merge_or_its_end_is_made_good_by_doing_it_again(deed: Deed) -> None:
    figure = run_errors(Path(), "memory", deed=deed, stride=3)

    assert "inconsistencies 0" in figure


@pytest.mark.slow
def test_the_same_holds_on_disk(tmp_path: Path) -> None:
    figure = run_errors(tmp_path, "lite", stride=40)

    assert "inconsistencies 0" in figure


@pytest.mark.slow
def test_the_same_holds_over_a_server_of_its_own(tmp_path: Path) -> None:
    figure = run_errors(tmp_path, "server", stride=60)

    assert "inconsistencies 0" in figure


@pytest.mark.slow
def test_many_users_and_random_faults_lose_and_double_nothing(tmp_path: Path) -> None:
    figure = run_soak(tmp_path, operations=50, users=4, share=0.02)

    assert "lost 0, doubled 0" in figure


def test_the_log_is_kept_still_only_while_things_fail_on_purpose(caplog: pytest.LogCaptureFixture) -> None:
    with without_log():
        logging.getLogger("jiuwen_memory").warning("while")
    logging.getLogger("jiuwen_memory").warning("afterwards")

    assert caplog.messages == ["afterwards"]
