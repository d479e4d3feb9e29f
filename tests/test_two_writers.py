from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.two_writers import run


@pytest.mark.slow
def test_two_processes_leave_the_graph_that_one_would_have_left(tmp_path: Path) -> None:
    one, two = run(tmp_path, adds=3)

    assert two == one
    assert len(two.episodes) == 6
    assert two.entities and two.facts
    assert two.problems == ()
