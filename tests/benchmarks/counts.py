"""Lines that are counts: model calls and rounds, prompt sizes, embedder calls. They do not depend on the machine."""

from __future__ import annotations

from itertools import count

from jiuwen_memory.memory_core.config.graph import Language
from jiuwen_memory.memory_core.graph.extraction.usage import Usage
from tests.benchmarks.fakes import MarkedModel
from tests.benchmarks.report import Line, judged
from tests.benchmarks.settings import Setting
from tests.benchmarks.texts import USER_ID, Case

CALLS_ON_EMPTY = 4
CALLS_ON_FILLED = 7
ROUNDS = 3
CHARACTERS = 12
EMBEDDER_CALLS = 4
CONTENT = 1000
HISTORY = 3
LABEL = "counts"

# Each number once: a text that was added before brings nothing new. Twins are merged once too (`texts.TWINS`).
_numbers = count()


async def model_calls(setting: Setting) -> list[Line]:
    """(a) Calls and rounds of an add, for every combination of entities and relations."""
    return [
        await _grid(setting, 0, budget=CALLS_ON_EMPTY),
        await _grid(setting, setting.small, budget=CALLS_ON_FILLED),
        await _grid(setting, setting.small, budget=CALLS_ON_FILLED, answered=True),
    ]


async def _grid(setting: Setting, size: int, *, budget: int, answered: bool = False) -> Line:
    usages: dict[str, Usage] = {}
    for entities in setting.counts:
        for facts in setting.counts:
            # Each add to an empty graph needs a graph of its own.
            async with setting.worlds.open(size, label=LABEL) as world:
                case = Case(next(_numbers), entities, facts, size, merges=bool(size) and entities > 1)
                usages[f"E={entities} R={facts}"] = (await world.add(case, answered=answered)).usage
    calls = max(usage.calls for usage in usages.values())
    rounds = max(usage.rounds for usage in usages.values())
    reasked = sum(usage.reasked for usage in usages.values())
    most = max(usages, key=lambda key: usages[key].calls)
    where = "an empty graph" if not size else f"a graph of {size}"
    return Line(
        "a",
        f"model calls / rounds, E, R in {setting.counts}, {where}{', with a silent assistant' if answered else ''}",
        f"<= {budget} / {ROUNDS}",
        f"{calls} / {rounds} at most ({most}), {reasked} re-asked",
        judged(calls <= budget and rounds <= ROUNDS),
        {
            key: {
                "calls": usage.calls,
                "rounds": usage.rounds,
                "reasked": usage.reasked,
                "questions": {name: each.calls for name, each in usage.questions.items()},
            }
            for key, usage in usages.items()
        },
    )


async def prompt_characters(setting: Setting) -> list[Line]:
    """(b) Characters of all prompts of an add per character of a conversation of 1,000, history included."""
    languages: tuple[Language, ...] = ("en", "cn")
    return [
        await _characters(setting, size, items, language)
        for language in languages
        for size in (0, setting.small)
        for items in (5, 10)
    ]


async def _characters(setting: Setting, size: int, items: int, language: Language) -> Line:
    model = MarkedModel(keeps_prompts=True)
    async with setting.worlds.open(size, label=LABEL, model=model, language=language) as world:
        for _ in range(HISTORY):
            await world.add(Case(next(_numbers), 2, 2, size, length=CONTENT))
        model.llm.prompts.clear()
        case = Case(next(_numbers), items, items, size, merges=bool(size), length=CONTENT)
        update = await world.add(case)
    parts = {prompt.question: len(prompt.text) for prompt in model.llm.prompts}
    ratio = sum(len(prompt.text) for prompt in model.llm.prompts) / CONTENT
    where = "no other graph" if not size else f"a graph of {size}"
    return Line(
        "b",
        f"prompt characters per content character, {CONTENT} characters, E = R = {items}, {where}, {language}",
        f"<= {CHARACTERS}",
        f"{ratio:.1f} in {update.usage.calls} calls",
        judged(ratio <= CHARACTERS),
        {"by question": parts, "schemas": sum(len(str(prompt.schema)) for prompt in model.llm.prompts)},
    )


async def embedder_calls(setting: Setting) -> list[Line]:
    """(c) Calls of the embedder's port, per add (at a hub too, which takes the most) and per search."""
    size = setting.small
    lines = []
    for degree in (10, size):
        async with setting.worlds.open(size, degree=degree, label=LABEL) as world:
            await world.add(Case(next(_numbers), 20, 20, size, merges=True))
            calls = world.embedder.calls
        lines.append(
            Line(
                "c",
                f"embedder calls per add, E = R = 20, a graph of {size}, speaker with {degree} relations",
                f"<= {EMBEDDER_CALLS}",
                str(calls),
                judged(calls <= EMBEDDER_CALLS),
                {"calls": calls, "texts": world.embedder.texts},
            )
        )
    async with setting.worlds.open(size, label=LABEL) as world:
        await world.memory.search("Where was it?", USER_ID)
        asked = world.embedder.calls
        await world.memory.search("Where was it?", USER_ID, query_embedding=world.embedder.vector("Where was it?"))
        given = world.embedder.calls - asked
    kept = judged((asked, given) == (1, 0))
    what = "embedder calls per search / with a query embedding"
    return [*lines, Line("c", what, "1 / 0", f"{asked} / {given}", kept, {"asked": asked, "given": given})]
