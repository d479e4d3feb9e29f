"""Measures a real model against the truth of the life.

python -m tests.life live --url http://127.0.0.1:8081/v1 --model NAME   reads the episodes, then scores them
python -m tests.life score FILE                                         scores what an earlier run has kept
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from tests.life.chapters import CHAPTERS
from tests.life.live import Reading, read_life
from tests.life.score import score_graph


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the life, or only score what was kept of an earlier reading."""
    options = _parse(arguments)
    if options.action == "live":
        logging.getLogger("jiuwen_memory").setLevel(logging.ERROR)
        asyncio.run(read_life(Reading(options.url, options.model, options.episodes, options.file)))
    held = json.loads(options.file.read_text(encoding="utf-8"))
    print(f"{held['model']}, {held['episodes']} of {len(CHAPTERS)} episodes, {held['seconds']} s")
    for score in score_graph(held):
        print(score)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.life", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    live = actions.add_parser("live", help="read the episodes with a model, then score")
    live.add_argument("--url", required=True, help="an endpoint with OpenAI's protocol, such as http://host/v1")
    live.add_argument("--model", required=True, help="the model's name")
    live.add_argument("--episodes", type=int, default=len(CHAPTERS), help="how many episodes, from the first")
    live.add_argument("--file", type=Path, default=Path("life-live.json"), help="where the graph is kept")
    score = actions.add_parser("score", help="score what an earlier run has kept")
    score.add_argument("file", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
