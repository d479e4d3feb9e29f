"""Measures recall on LoCoMo without a model: `LOCOMO=folder python -m tests.benchmarks.locomo`. Runs Milvus Lite.

`--store exact` keeps the episodes in this process instead, with the same formulas: many times faster.

`folder` holds two files of JSON lines, one object each, made from the data of https://github.com/snap-research/locomo
(CC BY-NC 4.0, for evaluation only; it is not shipped here):

    locomo_turns.jsonl      conversation, session, turn, turn_id, datetime, speaker, text, caption (or none)
    locomo_questions.jsonl  qid, conversation, question, category_name, evidence (turn ids), evidence_sessions

Each conversation is a user. At turn level each turn is an episode, at session level each session; questions without
evidence, and adversarial ones, are left out. Every strategy searches the episodes alone, with `min_score` 0 and
`top_k` 20 where it is not said otherwise. docs/evaluation.md explains the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import logging
import math
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from jiuwen_memory import (
    EPISODE_COLLECTION,
    APIEmbedding,
    Embedding,
    EmbeddingConfig,
    Episode,
    GraphConfig,
    GraphMemory,
    GraphStoreFactory,
    LocalEmbedding,
    SearchConfig,
)
from jiuwen_memory.memory_core.graph.graph_memory.commit import embedding_key
from jiuwen_memory.memory_core.graph.graph_memory.searching.strategies import STRATEGIES
from jiuwen_memory.testing import FakeEmbedder
from tests.benchmarks.exact_store import ExactStore
from tests.benchmarks.report import surroundings

FOLDER_VARIABLE: Final = "LOCOMO"
TOP_K: Final = 20
CUTS: Final = (1, 3, 5, 10, 20)
RESAMPLES: Final = 2000
SEED: Final = 1
BATCH: Final = 500
BACKENDS: Final = {"lite": "milvus", "exact": "exact"}
BASELINES: Final = {"lexical": "BM25 alone", "semantic": "dense alone"}


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation."""

    conversation: str
    session: int
    number: int
    turn_id: str
    said: datetime
    speaker: str
    text: str


@dataclass(frozen=True)
class Question:
    """A question and the ids of the turns, or of the sessions, that hold its answer."""

    qid: str
    conversation: str
    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True)
class Outcome:
    """What one strategy found for one question: its scores by measure, and the milliseconds it took."""

    question: Question
    measures: Mapping[str, float]
    found: int
    strangers: int
    milliseconds: float


class KeptEmbedding:
    """An embedding model whose document vectors are kept in a folder, so that a second run embeds nothing."""

    def __init__(self, model: Embedding, folder: Path) -> None:
        self._model = model
        self.model_name = str(getattr(model, "model_name", type(model).__name__))
        self._path = folder / f"{hashlib.sha256(self.model_name.encode()).hexdigest()[:12]}.jsonl"
        self._kept: dict[str, list[float]] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                text, vector = json.loads(line)
                self._kept[text] = vector

    @property
    def dimension(self) -> int | None:
        """Length of each vector, once known."""
        return self._model.dimension

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        key = f"query: {text}"
        if key not in self._kept:
            self._keep({key: await self._model.embed_query(text)})
        return self._kept[key]

    async def embed_documents(self, texts: Sequence[str], batch_size: int | None = None) -> list[list[float]]:
        """Return a vector per text."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._kept]
        if missing:
            vectors = await self._model.embed_documents(missing, batch_size=batch_size)
            self._keep(dict(zip(missing, vectors, strict=True)))
        return [self._kept[text] for text in texts]

    def _keep(self, vectors: Mapping[str, list[float]]) -> None:
        self._kept |= vectors
        with self._path.open("a", encoding="utf-8") as file:
            for text, vector in vectors.items():
                file.write(json.dumps([text, [round(number, 6) for number in vector]], ensure_ascii=False) + "\n")


def read_turns(folder: Path) -> list[Turn]:
    """Return the turns, in order; what a photo shows is part of the text."""
    turns = []
    for row in _rows(folder / "locomo_turns.jsonl"):
        caption = f" [shares a photo: {row['caption']}]" if row.get("caption") else ""
        said = datetime.fromisoformat(row["datetime"]).replace(tzinfo=UTC) + timedelta(seconds=row["turn"])
        text = f"{row['speaker']}: {row['text']}{caption}"
        turns.append(Turn(row["conversation"], row["session"], row["turn"], row["turn_id"], said, row["speaker"], text))
    return turns


def read_questions(folder: Path, *, by_session: bool) -> list[Question]:
    """Return the questions that have evidence and are not adversarial."""
    questions = []
    for row in _rows(folder / "locomo_questions.jsonl"):
        evidence = frozenset(map(str, row["evidence_sessions"] if by_session else row["evidence"]))
        if evidence and row["category_name"] != "adversarial":
            questions.append(Question(row["qid"], row["conversation"], row["question"], row["category_name"], evidence))
    return questions


def as_episodes(turns: Sequence[Turn], *, by_session: bool) -> Iterator[tuple[str, Episode]]:
    """Yield each episode with the id that evidence calls it by."""
    groups: dict[tuple[str, str], list[Turn]] = defaultdict(list)
    for turn in turns:
        groups[turn.conversation, str(turn.session) if by_session else turn.turn_id].append(turn)
    for (conversation, name), group in groups.items():
        yield (
            name,
            Episode(
                user_id=conversation,
                content="\n".join(turn.text for turn in group),
                valid_since=int(group[0].said.timestamp()),
                session_id=f"{conversation}-{group[0].session}",
                speakers=list(dict.fromkeys(turn.speaker for turn in group)),
                language="en",
            ),
        )


async def measured(
    episodes: Sequence[tuple[str, Episode]],
    questions: Sequence[Question],
    *,
    embedder: Embedding,
    strategies: Mapping[str, SearchConfig],
    folder: Path,
    backend: str = "milvus",
    report: Callable[[Mapping[str, Sequence[Outcome]]], None] = lambda outcomes: None,
) -> dict[str, list[Outcome]]:
    """Return what each strategy found for each question, in a new store in this folder.

    `report` is called after each strategy with all that is known by then.
    """
    (probe,) = await embedder.embed_documents([episodes[0][1].content])
    uri = str(folder / "locomo.db")
    config = GraphConfig(uri=uri, backend=backend, embed_dim=len(probe), timeout=120.0)
    async with GraphMemory(config, language="en") as memory:
        memory.attach_embedder(embedder)
        await _fill(memory, [episode for _, episode in episodes], embedder)
        names = {episode.uuid: name for name, episode in episodes}
        outcomes: dict[str, list[Outcome]] = {}
        for name, settings in strategies.items():
            alike = next((other for other in outcomes if strategies[other] == settings), None)
            if alike is not None:
                outcomes[name] = outcomes[alike]
                continue
            memory.register_search_strategy(f"measured {name}", search_episode=settings)
            outcomes[name] = [await _outcome(memory, f"measured {name}", question, names) for question in questions]
            report(outcomes)
        return outcomes


async def _fill(memory: GraphMemory, episodes: Sequence[Episode], embedder: Embedding) -> None:
    vectors = await embedder.embed_documents([episode.content for episode in episodes], batch_size=32)
    model = str(getattr(embedder, "model_name", ""))
    rows = [
        episode.revise(content_embedding=vector, embedding_key=embedding_key(episode, model))
        for episode, vector in zip(episodes, vectors, strict=True)
    ]
    for start in range(0, len(rows), BATCH):
        await memory.db_backend.upsert(EPISODE_COLLECTION, rows[start : start + BATCH])
    await memory.db_backend.refresh()


async def _outcome(memory: GraphMemory, strategy: str, question: Question, names: Mapping[str, str]) -> Outcome:
    start = time.perf_counter()
    found = await memory.search(question.text, question.conversation, strategy, entity=False, relation=False)
    passed = (time.perf_counter() - start) * 1000
    hits = [each for _, each in found[EPISODE_COLLECTION]]
    order = [names[each.uuid] for each in hits]
    strangers = sum(each.user_id != question.conversation for each in hits)
    return Outcome(question, _measures(order, question.evidence), len(order), strangers, passed)


def _measures(order: Sequence[str], evidence: frozenset[str]) -> dict[str, float]:
    """Return recall at several cuts, the reciprocal rank of the first evidence, and nDCG at 10."""
    measures = {f"R@{cut}": len(evidence & set(order[:cut])) / len(evidence) for cut in CUTS}
    ranks = [rank for rank, name in enumerate(order, start=1) if name in evidence]
    measures["MRR"] = 1 / ranks[0] if ranks else 0.0
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(evidence), 10) + 1))
    measures["nDCG@10"] = sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10) / best
    return measures


def interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean difference of paired values and the 95 % interval of a bootstrap over them."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    if not differences:
        return 0.0, 0.0, 0.0
    chance = random.Random(SEED)
    means = sorted(sum(chance.choices(differences, k=len(differences))) / len(differences) for _ in range(RESAMPLES))
    mean = sum(differences) / len(differences)
    return mean, means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


def summary(outcomes: Mapping[str, Sequence[Outcome]], conversations: frozenset[str]) -> list[dict[str, Any]]:
    """Return a row per strategy over these conversations: measures, recall by category, and the gain over BM25."""
    rows: list[dict[str, Any]] = []
    reference = {each.question.qid: each for each in outcomes.get("lexical", ())}
    for name, all_of_them in outcomes.items():
        chosen = [each for each in all_of_them if each.question.conversation in conversations]
        if not chosen:
            continue
        row: dict[str, Any] = {"strategy": name, "questions": len(chosen)}
        for measure in chosen[0].measures:
            row[measure] = _mean([each.measures[measure] for each in chosen])
        row["empty"] = _mean([float(each.found == 0) for each in chosen])
        row["strangers"] = sum(each.strangers for each in chosen)
        row["milliseconds"] = sorted(each.milliseconds for each in chosen)[len(chosen) // 2]
        for category in sorted({each.question.category for each in chosen}):
            row[f"R@10 {category}"] = _mean(
                [each.measures["R@10"] for each in chosen if each.question.category == category]
            )
        if reference:
            pairs = [(each.measures["R@10"], reference[each.question.qid].measures["R@10"]) for each in chosen]
            row["over BM25"] = interval([a for a, _ in pairs], [b for _, b in pairs])
        rows.append(row)
    return rows


def print_rows(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print rows as a table."""
    print(f"\n{title}")
    columns = [name for name in rows[0] if name not in ("questions", "strangers", "over BM25", "R@1", "R@3")]
    is_compared = "over BM25" in rows[0]
    print("  ".join(name.ljust(12) for name in columns), " R@10 over BM25 [95 %]" if is_compared else "")
    for row in rows:
        values = [_written(name, row.get(name)) for name in columns]
        gain = " {:+.3f} [{:+.3f}, {:+.3f}]".format(*row["over BM25"]) if is_compared else ""
        print("  ".join(value.ljust(12) for value in values), gain)


def _written(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if name == "milliseconds" else f"{value:.3f}"
    return BASELINES.get(str(value), str(value))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def make_embedder(options: argparse.Namespace) -> Embedding:
    """Return the embedding model to measure with: in this process, behind an endpoint, or hashed characters."""
    if options.embedder == "local":
        return LocalEmbedding()
    if options.embedder == "fake":
        return FakeEmbedder()
    return APIEmbedding(EmbeddingConfig(model_name=options.embedder, base_url=options.url, api_key="none"))


def chosen_strategies(options: argparse.Namespace) -> dict[str, SearchConfig]:
    """Return the episode settings of each strategy, all with the same `top_k`, without threshold, best first.

    `default as it is` is the default with its own threshold and `top_k`, which shows how often it finds nothing.
    """
    names = options.strategies or list(STRATEGIES)
    changes = {"top_k": TOP_K, "min_score": 0.0, "order": "score", "bfs_depth": 0}
    settings = {name: STRATEGIES[name].episode.model_copy(update=changes) for name in names}
    return {**settings, "default as it is": STRATEGIES["default"].episode} if "default" in names else settings


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table for each group of conversations, keep the numbers."""
    options = _parse(arguments)
    logging.getLogger("jiuwen_memory").setLevel(logging.ERROR)
    found = {
        **surroundings(),
        "embedder": options.embedder,
        "store": options.store,
        "seed": str(SEED),
        "level": options.level,
    }
    print(", ".join(f"{name} {value}" for name, value in found.items()))
    GraphStoreFactory.register_backend("exact", ExactStore, force=True)
    by_session = options.level == "session"
    episodes = list(as_episodes(read_turns(options.data), by_session=by_session))
    questions = read_questions(options.data, by_session=by_session)
    with tempfile.TemporaryDirectory() as folder:
        keep = options.keep or Path(folder)
        keep.mkdir(parents=True, exist_ok=True)
        embedder = KeptEmbedding(make_embedder(options), keep)

        def report(outcomes: Mapping[str, Sequence[Outcome]]) -> None:
            latest = list(outcomes)[-1]
            kept = _mean([each.measures["R@10"] for each in outcomes[latest]])
            print(f"  {latest}: R@10 {kept:.3f}", flush=True)
            if options.json:
                _write(options.json, found, outcomes, options.chosen_on)

        outcomes = asyncio.run(
            measured(
                episodes,
                questions,
                embedder=embedder,
                strategies=chosen_strategies(options),
                folder=Path(folder),
                backend=BACKENDS[options.store],
                report=report,
            )
        )
    tables = _tables(outcomes, options.chosen_on)
    for title, rows in tables.items():
        print_rows(rows, f"{title}: {rows[0]['questions']} questions, {options.level} level, {options.embedder}")
    if options.json:
        _write(options.json, found, outcomes, options.chosen_on)


def _tables(outcomes: Mapping[str, Sequence[Outcome]], chosen_on: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows for all conversations, for those that settings were chosen on, and for the others."""
    everything = frozenset(each.question.conversation for found in outcomes.values() for each in found)
    chosen = frozenset(chosen_on) & everything
    groups = {"all conversations": everything}
    if chosen and chosen != everything:
        groups |= {
            f"conversations {', '.join(sorted(chosen))}, on which settings were chosen": chosen,
            f"conversations {', '.join(sorted(everything - chosen))}": everything - chosen,
        }
    return {title: summary(outcomes, group) for title, group in groups.items()}


def _write(
    path: Path, found: Mapping[str, str], outcomes: Mapping[str, Sequence[Outcome]], chosen_on: Sequence[str]
) -> None:
    """Keep the tables, and each question's recall at 10 for comparisons that are made later."""
    by_question = {
        name: {each.question.qid: each.measures["R@10"] for each in found_by} for name, found_by in outcomes.items()
    }
    content = {"surroundings": found, "tables": _tables(outcomes, chosen_on), "R@10 by question": by_question}
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.locomo", description=__doc__)
    given = os.environ.get(FOLDER_VARIABLE)
    parser.add_argument("--data", type=Path, default=Path(given) if given else None, help="folder of the two files")
    parser.add_argument("--embedder", default="local", help="`local`, a model's name behind --url, or `fake`")
    parser.add_argument("--url", default="http://127.0.0.1:8083/v1", help="OpenAI-compatible endpoint")
    parser.add_argument("--store", choices=list(BACKENDS), default="lite", help="where the episodes are kept")
    parser.add_argument("--level", choices=("turn", "session"), default="turn")
    parser.add_argument("--strategies", nargs="*", choices=list(STRATEGIES), help="default: all of them")
    parser.add_argument("--chosen-on", nargs="*", default=["26", "41"], help="conversations used for choosing")
    parser.add_argument("--keep", type=Path, help="folder in which vectors are kept for the next run")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args(arguments)
    if options.data is None:
        parser.error(f"give --data, or set {FOLDER_VARIABLE} to the folder that holds the data")
    return options


if __name__ == "__main__":
    main()
