"""What docs/cli.md shows is what the terminal shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_recording import record, recorded, steady


@pytest.mark.slow
def test_the_recording_on_the_page_is_what_the_terminal_shows(tmp_path: Path) -> None:
    shown = record(tmp_path)

    assert steady(shown) == steady(recorded()), "record it anew: python -m tests.cli_recording"
