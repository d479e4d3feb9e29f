"""The quality floor: with scripted replies, the graph that comes out is the right one. Runs Milvus Lite on disk."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from jiuwen_memory import ENTITY_COLLECTION, RELATION_COLLECTION, Entity, EpisodeType, GraphMemory, Relation
from jiuwen_memory.foundation.timepoint import format_seconds
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
from jiuwen_memory.testing import FakeLLM, Script, by_name, same_as, verdicts
from tests.benchmarks.fakes import WordEmbedder
from tests.benchmarks.report import Line, judged
from tests.benchmarks.settings import Setting
from tests.benchmarks.worlds import make_memory

USER = "marta"
FIRST = datetime(2026, 5, 8, 9, 30, tzinfo=UTC)
SECOND = datetime(2026, 6, 1, 18, 0, tzinfo=UTC)
THIRD = datetime(2026, 7, 20, 12, 0, tzinfo=UTC)

TEXTS = (
    (FIRST, "I live in Turin and joined Solvane Robotics last Friday. I was at Medtrix from March 2021 to April 2026."),
    (SECOND, "I moved to Genoa yesterday. Solvane found me a flat. Medtrix Pumps sent its regards, Medtrix did not."),
    (THIRD, "I work for Solvane Robotics. The Medtrix Group built my first pump."),
)  # fmt: skip


def _fact(
    fact: str, source: str, target: str, since: str | None = None, until: str | None = None
) -> dict[str, str | None]:
    return {
        "fact": fact,
        "name": fact.split()[1],
        "source": source,
        "target": target,
        "valid_since": since,
        "valid_until": until,
    }


def _model() -> FakeLLM:
    def kinds(*names: str) -> dict[str, list[dict[str, str]]]:
        return {"entities": [{"name": name, "type": "Human" if name == "Marta" else "Entity"} for name in names]}

    facts = [
        [
            _fact("Marta lives in Turin.", "Marta", "Turin"),
            _fact("Marta works at Solvane Robotics.", "Marta", "Solvane Robotics", "last Friday"),
            _fact("Marta worked at Medtrix.", "Marta", "Medtrix", "March 2021", "April 2026"),
        ],
        [
            _fact("Marta lives in Genoa.", "Marta", "Genoa", "yesterday"),
            _fact("Solvane found Marta a flat.", "Solvane", "Marta"),
            _fact("Medtrix Pumps greeted Marta.", "Medtrix Pumps", "Marta"),
        ],
        [
            _fact("Marta is employed by Solvane Robotics.", "Marta", "Solvane Robotics"),
            _fact("Medtrix Group built the first pump of Marta.", "Medtrix Group", "Marta"),
        ],
    ]
    same = [{"Solvane": ["Solvane Robotics"]}, {"Medtrix Group": ["Medtrix (", "Medtrix Pumps ("]}]
    judged_facts = [
        verdicts(contradicts={"Marta lives in Genoa": ["Marta lives in Turin"]}),
        verdicts(same={"Marta is employed": ["Marta works at Solvane Robotics"]}),
    ]
    return FakeLLM(
        {
            "EntityExtraction": Script(
                [
                    kinds("Marta", "Turin", "Solvane Robotics", "Medtrix"),
                    kinds("Marta", "Genoa", "Solvane", "Medtrix Pumps", "Medtrix"),
                    kinds("Marta", "Solvane Robotics", "Medtrix Group"),
                ]
            ),
            "RelationExtraction": Script([{"relations": list[object](each)} for each in facts]),
            "EntityDuplication": Script([same_as(each) for each in same]),
            "RelationVerdicts": Script(judged_facts),
            "RelevantFacts": lambda prompt: {"relevant": list(prompt.lines())},
            "EntitySummaries": by_name({"Solvane": "A maker of robots.", "Medtrix": "A maker of pumps."}),
        }
    )


async def floor(setting: Setting) -> list[Line]:
    """(k) Three texts that name duplicates, dates, a change and a merge, and one of them again."""
    async with make_memory(str(setting.folder / "quality.db"), _model(), WordEmbedder()) as memory:
        updates = [await _add(memory, moment, text) for moment, text in TEXTS]
        repeated = await _add(memory, *TEXTS[0])
        entities = [each async for each in memory.objects(ENTITY_COLLECTION, USER) if isinstance(each, Entity)]
        relations = [each async for each in memory.objects(RELATION_COLLECTION, USER) if isinstance(each, Relation)]
    checks = dict(_checks(updates, repeated, entities, relations))
    wrong = [what for what, is_right in checks.items() if not is_right]
    measured = f"{len(checks) - len(wrong)} of {len(checks)} right" + (f"; wrong: {', '.join(wrong)}" if wrong else "")
    return [
        Line("k", "the graph of three scripted texts and a repeat", "all right", measured, judged(not wrong), checks)
    ]


async def _add(memory: GraphMemory, moment: datetime, text: str) -> GraphMemUpdate:
    messages = [{"role": "user", "name": "Marta", "content": text}]
    return await memory.add_memory(EpisodeType.CONVERSATION, USER, messages, reference_time=moment)


def _checks(
    updates: list[GraphMemUpdate], repeated: GraphMemUpdate, entities: list[Entity], relations: list[Relation]
) -> Iterator[tuple[str, bool]]:
    named = {each.name: each for each in entities}
    said = {each.content: each for each in relations}
    solvane, medtrix = named.get("Solvane Robotics"), named.get("Medtrix")
    yield "five entities", sorted(named) == ["Genoa", "Marta", "Medtrix", "Solvane Robotics", "Turin"]
    yield "seven facts", len(said) == len(relations) == 7
    yield "mentions counted", bool(solvane and solvane.mention_count == 3 and named["Marta"].mention_count == 3)
    yield "other name kept", bool(solvane and solvane.aliases == ["Solvane"])
    yield (
        "merged entity gone, on record",
        bool(medtrix and [each["name"] for each in medtrix.merged_from if isinstance(each, dict)] == ["Medtrix Pumps"]),
    )
    yield (
        "merged mentions added",
        bool(medtrix and medtrix.mention_count == 4 and medtrix.content == "A maker of pumps."),
    )
    moved = said.get("Medtrix Pumps greeted Marta.")
    yield "its fact moved", bool(moved and medtrix and moved.lhs == medtrix.uuid != moved.lhs_origin)
    turin, genoa = said.get("Marta lives in Turin."), said.get("Marta lives in Genoa.")
    yield "change noted", bool(turin and genoa and turin.superseded_by == [genoa.uuid] and not genoa.superseded_by)
    yield "old fact ends when the new begins", bool(turin and genoa and turin.valid_until == genoa.valid_since)
    yield "yesterday", _since(genoa) == "31 May 2026 day"
    work = said.get("Marta works at Solvane Robotics.")
    yield "last Friday", _since(work) == "1 May 2026 day"
    yield "repeated fact counted", bool(work and work.mention_count == 2 and len(work.episodes) == 2)
    past = said.get("Marta worked at Medtrix.")
    yield "months", _since(past) == "March 2021 month" and _until(past) == "April 2026 month"
    yield "unknown stays unknown", bool(turin and turin.valid_since is None)
    yield "repeat recognised", repeated.duplicate_of == updates[0].added_episode[0].uuid and repeated.is_empty
    yield (
        "no dead ends",
        {end for each in relations for end in (each.lhs, each.rhs)} <= {each.uuid for each in entities},
    )


def _since(relation: Relation | None) -> str:
    if relation is None or relation.valid_since is None or relation.precision_since is None:
        return ""
    written = format_seconds(relation.valid_since, relation.offset_since, relation.precision_since)
    return f"{written} {relation.precision_since}"


def _until(relation: Relation | None) -> str:
    if relation is None or relation.valid_until is None or relation.precision_until is None:
        return ""
    written = format_seconds(relation.valid_until, relation.offset_until, relation.precision_until)
    return f"{written} {relation.precision_until}"
