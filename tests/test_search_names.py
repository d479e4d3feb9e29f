"""Names that are everywhere: what is embedded of a query that names them."""

from __future__ import annotations

import pytest

from jiuwen_memory import Entity, Episode, GraphMemory, MinMaxRankConfig, SearchConfig, WeightedRankConfig
from jiuwen_memory.foundation.store.graph.constants import GIST
from tests.conversation_support import episodes_found, remembering, tell, write

MEANING = SearchConfig(
    top_k=10,
    min_score=0.001,
    rank_config=WeightedRankConfig(name_dense=0, content_dense=1, content_sparse=0),
    common_names=0.2,
)
WORDS = MEANING.model_copy(update={"rank_config": MinMaxRankConfig(name_dense=0, content_dense=0, content_sparse=1)})


async def chatter(memory: GraphMemory, names: tuple[str, str]) -> None:
    """Let two people say 15 things each."""
    await tell(memory, [(names[number % 2], f"Remark number {number}.") for number in range(30)])


@pytest.mark.parametrize(
    ("query", "embedded"),
    [
        ("What is Ann's job?", "What is my job?"),
        ("When did Ann Lee go to Rome?", "When did I go to Rome?"),
        ("Where does Annabel live?", "Where does Annabel live?"),
        ("Who is Ann?", "Who is Ann?"),
    ],
)
async def test_a_name_that_is_everywhere_is_not_embedded(query: str, embedded: str) -> None:
    memory = remembering()
    await chatter(memory, ("Ann Lee", "Bo"))

    _, found = await episodes_found(memory, query, MEANING)

    assert found.diagnostics.embedded == (embedded,)


@pytest.mark.parametrize(
    ("query", "embedded"),
    [
        ("Where will Bo sail?", "Where will I sail?"),
        ("Will the harbour freeze?", "Will the harbour freeze?"),
        ("Where did Will sail?", "Where did I sail?"),
        ("Will's boat", "my boat"),
    ],
)
async def test_a_name_that_is_a_common_word_is_told_from_it(query: str, embedded: str) -> None:
    memory = remembering()
    await chatter(memory, ("Will Lee", "Bo"))

    _, found = await episodes_found(memory, query, MEANING)

    assert found.diagnostics.embedded == (embedded,)


async def test_a_chinese_name_that_is_everywhere_is_not_embedded_either() -> None:
    memory = remembering()
    await chatter(memory, ("王芳", "李雷"))

    _, found = await episodes_found(memory, "王芳的狗叫什么名字？", MEANING)

    assert found.diagnostics.embedded == ("我的狗叫什么名字？",)


@pytest.mark.parametrize(
    ("name", "query", "embedded"),
    [
        ("New York", "What new car did she see in New York?", "What new car did she see in ?"),
        ("New York", "What was new in new york's harbour?", "What was new in harbour?"),
        ("Tejo Bank", "Who left Tejo for a boat?", "Who left for a boat?"),
        ("人", "谁在学人工智能？", "谁在学人工智能？"),
    ],
)
async def test_a_word_that_a_name_shares_with_others_stays(name: str, query: str, embedded: str) -> None:
    memory = remembering()
    known = Entity(user_id="ann", name=name, content="It is known.")
    reports = [Episode(user_id="ann", content=f"Report {number}.", entities=[known.uuid]) for number in range(20)]
    await write(memory, [known, *reports])

    _, found = await episodes_found(memory, query, MEANING)

    assert found.diagnostics.embedded == (embedded,)


async def test_an_entity_that_is_everywhere_and_says_nothing_is_left_out_of_what_is_embedded() -> None:
    memory = remembering()
    tejo = Entity(user_id="ann", name="Tejo Bank", content="A bank.")
    reports = [Episode(user_id="ann", content=f"Report {number}.", entities=[tejo.uuid]) for number in range(20)]
    await write(memory, [tejo, *reports])

    _, found = await episodes_found(memory, "Which loans did Tejo Bank grant?", MEANING)

    assert found.diagnostics.embedded == ("Which loans did grant?",)


async def test_gists_do_not_count_among_the_episodes_that_a_name_is_in() -> None:
    memory = remembering()
    told = await tell(memory, [("Ann", f"Walk number {number}.") for number in range(20)])
    gists = [
        Episode(user_id="ann", obj_type=GIST, content=f"A gist, {number}.", parents=[told[number % 20].uuid])
        for number in range(100)
    ]
    await write(memory, gists)

    _, found = await episodes_found(memory, "Where did Ann walk?", MEANING)

    assert found.diagnostics.embedded == ("Where did I walk?",)


async def test_with_few_episodes_no_name_is_everywhere_and_the_words_keep_every_name() -> None:
    memory = remembering()
    await tell(memory, [("Ann", "I paint."), ("Bo", "I sail.")])

    _, found = await episodes_found(memory, "What does Bo do?", MEANING)
    named, _ = await episodes_found(memory, "What does Bo do?", WORDS)

    assert found.diagnostics.embedded == ("What does Bo do?",)
    assert named == ["Bo: I sail."]
