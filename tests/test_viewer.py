"""The viewer's page as it is written: what it holds, that it is one safe file, who may read it, what is refused."""

from __future__ import annotations

import json
import re
import stat
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from jiuwen_memory import ENTITY_COLLECTION, EPISODE_COLLECTION, RELATION_COLLECTION
from jiuwen_memory.errors import InvalidInputError, LanguageError
from jiuwen_memory.viewer import to_html
from jiuwen_memory.viewer.page import LIBRARIES
from tests.memory_support import taught
from tests.stores import entity, episode, relation
from tests.viewer_support import LEFT, NOW_WORKS, WORKED, told_life, wide_memory

STATIC = resources.files("jiuwen_memory.viewer").joinpath("static")
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def content_of(path: Path) -> Any:
    found = DATA.search(path.read_text(encoding="utf-8"))
    assert found
    return json.loads(found[1])


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def test_a_page_holds_entities_facts_with_their_dates_and_the_texts_behind_them(tmp_path: Path) -> None:
    mind = await told_life()

    page = await mind.memory.to_html(tmp_path / "deep" / "life.html", "ann", language="en")

    content = content_of(page.path)
    facts = {each["text"]: each for each in content["facts"]}
    names = {each["id"]: each["name"] for each in content["entities"]}
    assert (page.entities, page.facts, page.episodes) == (len(names), len(facts), 2)
    assert page.size == page.path.stat().st_size
    assert facts[WORKED]["by"] == [facts[NOW_WORKS]["id"]]
    assert facts[WORKED]["until"]["en"] == "March 2024"
    assert facts[NOW_WORKS]["since"]["cn"] == "2024年3月"
    assert names[facts[NOW_WORKS]["from"]] == "Mara"
    [quote] = [each for each in content["episodes"] if each["id"] in facts[NOW_WORKS]["episodes"]]
    assert quote["text"].startswith(LEFT)
    assert quote["session"] == "walk"
    [friend] = [each for each in content["entities"] if each.get("merged")]
    assert {friend["name"], *(each["name"] for each in friend["merged"])} == {"许文", "Wen Xu"}


async def test_the_slider_steps_to_each_moment_from_which_on_something_else_holds(tmp_path: Path) -> None:
    memory = wide_memory()
    await memory.db_backend.upsert(ENTITY_COLLECTION, [entity("A", uuid="a"), entity("B", uuid="b")])
    fact = relation("A knows B.", lhs="a", rhs="b", valid_since=1_000, valid_until=2_000)
    await memory.db_backend.upsert(RELATION_COLLECTION, [fact])

    page = await memory.to_html(tmp_path / "page.html", "ann")

    moments = [each["at"] for each in content_of(page.path)["moments"]]
    assert moments == [1_000, 2_001, content_of(page.path)["written"]["at"]]


async def test_a_fact_at_the_edges_of_the_calendar_is_drawn_with_its_dates(tmp_path: Path) -> None:
    memory = wide_memory()
    await memory.db_backend.upsert(ENTITY_COLLECTION, [entity("A", uuid="a"), entity("B", uuid="b")])
    first, last = -62135596800, 253402300799
    begins = {"valid_since": first, "offset_since": -480, "precision_since": "day"}
    ends = {"valid_until": last, "offset_until": 480, "precision_until": "year"}
    fact = relation("A knows B.", lhs="a", rhs="b").revise(**begins, **ends)
    await memory.db_backend.upsert(RELATION_COLLECTION, [fact])

    page = await memory.to_html(tmp_path / "page.html", "ann")

    content = content_of(page.path)
    [drawn] = content["facts"]
    assert (drawn["since"]["en"], drawn["until"]["cn"]) == ("1 January 1", "9999年")
    assert [each["en"] for each in content["moments"]][::2] == ["1 January 1", "31 December 9999"]


async def test_another_users_graph_is_not_on_the_page(tmp_path: Path) -> None:
    mind = await told_life()
    await mind.learn("Zora hides a key.", types={"Zora": "Human"}, user="ben")

    page = await mind.memory.to_html(tmp_path / "page.html", "ann")

    assert "Zora" not in page.path.read_text(encoding="utf-8")


async def test_a_source_leaves_only_what_was_learnt_from_there(tmp_path: Path) -> None:
    mind = await told_life()

    page = await mind.memory.to_html(tmp_path / "page.html", "ann", source="diary")

    assert {each["text"] for each in content_of(page.path)["facts"]} >= {WORKED}
    assert NOW_WORKS not in page.path.read_text(encoding="utf-8")


async def test_of_a_larger_graph_the_best_linked_are_kept_and_the_page_says_what_is_not_there(tmp_path: Path) -> None:
    memory = wide_memory()
    await memory.db_backend.upsert(ENTITY_COLLECTION, [entity(name, uuid=name) for name in "abcd"])
    edges = [relation(f"a knows {name}.", lhs="a", rhs=name) for name in "bc"]
    await memory.db_backend.upsert(RELATION_COLLECTION, [*edges, relation("b knows c.", lhs="b", rhs="c")])

    page = await memory.to_html(tmp_path / "page.html", "ann", max_entities=2)

    content = content_of(page.path)
    assert (page.entities_left_out, page.facts_left_out) == (2, 2)
    assert content["left_out"] == {"entities": 2, "facts": 2}
    assert len(content["facts"]) == 1


HOSTILE = [
    pytest.param("</script><script>alert(1)</script>", id="closing-tag"),
    pytest.param("<!--<script>", id="comment"),
    pytest.param("]]>\u2028\u2029&lt;b&gt;", id="separators"),
    pytest.param("$policy ${data} {{ 7*7 }}", id="template"),
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_a_text_stays_a_text_whatever_it_looks_like(text: str, tmp_path: Path) -> None:
    memory = wide_memory()
    plain = await memory.to_html(tmp_path / "plain.html", "ann")
    await memory.db_backend.upsert(ENTITY_COLLECTION, [entity(text, uuid="a", obj_type=text[:20], episodes=["e"])])
    await memory.db_backend.upsert(RELATION_COLLECTION, [relation(text, lhs="a", rhs="a", name=text)])
    await memory.db_backend.upsert(EPISODE_COLLECTION, [episode(text, uuid="e", source=text)])

    page = await memory.to_html(tmp_path / "page.html", "ann", title=text)

    source, before = page.path.read_text(encoding="utf-8"), plain.path.read_text(encoding="utf-8")
    content = content_of(page.path)
    for markup in ("<script", "</script", "<!--"):
        assert source.count(markup) == before.count(markup)
    assert content["entities"][0]["name"] == content["facts"][0]["text"] == content["episodes"][0]["text"] == text
    assert content["title"] == text


async def test_the_page_may_load_nothing_and_run_only_its_own_scripts(tmp_path: Path) -> None:
    page = await wide_memory().to_html(tmp_path / "page.html", "ann")

    source = page.path.read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', source)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    markup = re.sub(r"<script[^>]*>.*?</script>", "", source, flags=re.DOTALL)
    assert re.findall(r'(?:src|href|action)="([^"]*)"', markup) == ["data:,", "#list"]
    assert "<script src" not in source


async def test_a_page_replaces_the_file_that_is_there_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    await to_html(wide_memory(), str(path), "ann")

    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names_in(tmp_path) == [path.name]


async def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()

    with pytest.raises(InvalidInputError, match="cannot be written"):
        await wide_memory().to_html(tmp_path / "taken", "ann")

    assert names_in(tmp_path) == ["taken"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"language": "de"}, "language", id="language"),
        pytest.param({"max_entities": 0}, "max_entities", id="no-entities"),
        pytest.param({"max_entities": True}, "max_entities", id="a-truth"),
        pytest.param({"path": ""}, "path", id="no-path"),
        pytest.param({"path": "~nobody-of-this-name/page.html"}, "home folder", id="no-home"),
        pytest.param({"user_id": " "}, "user_id", id="nobody"),
    ],
)
async def test_what_cannot_be_used_is_refused(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=message):
        await wide_memory().to_html(**{"path": tmp_path / "page.html", "user_id": "ann", **given})

    assert names_in(tmp_path) == []


async def test_an_unknown_language_is_a_language_error(tmp_path: Path) -> None:
    with pytest.raises(LanguageError):
        await taught().memory.to_html(tmp_path / "page.html", "ann", language="fr")  # type: ignore[arg-type]


def test_both_languages_have_the_same_words_with_the_same_holes() -> None:
    words = json.loads(STATIC.joinpath("words.json").read_text(encoding="utf-8"))

    holes = {
        language: {name: sorted(re.findall(r"\{\w+\}", str(text))) for name, text in table.items()}
        for language, table in words.items()
    }

    assert holes["en"] == holes["cn"]
    for table in ("types", "kinds"):
        assert words["en"][table].keys() == words["cn"][table].keys()


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_has_its_licence_and_the_release_that_the_list_names(name: str) -> None:
    vendor = STATIC.joinpath("vendor")
    release = json.loads(vendor.joinpath("package.json").read_text(encoding="utf-8"))["dependencies"][name]

    source = vendor.joinpath(f"{name}.min.js").read_text(encoding="utf-8")

    assert f"v{release} " in source or f'"{release}"' in source
    assert "ermission" in vendor.joinpath(f"{name}.LICENSE").read_text(encoding="utf-8")
