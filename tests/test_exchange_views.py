"""A graph as networkx and other programs see it, and its facts as a table."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import networkx
import pandas
import pytest

from jiuwen_memory import Entity, Episode, Relation
from jiuwen_memory.errors import InvalidInputError
from jiuwen_memory.integrations.exchange import export_graph, to_networkx, write_graphml, write_triples
from jiuwen_memory.memory_core.graph.graph_memory.commit import commit_update
from jiuwen_memory.memory_core.graph.graph_memory.services import attached_embedder
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate
from jiuwen_memory.testing import fake_memory
from tests.exchange_support import everything, grown
from tests.memory_support import all_relations


def permissions(folder: Path) -> dict[str, str]:
    """Return who may do what with the files in a folder."""
    return {each.name: oct(each.stat().st_mode & 0o777) for each in folder.iterdir() if each.is_file()}


async def test_a_graph_object_has_entities_as_nodes_and_facts_as_edges() -> None:
    told = await grown()
    stored = await everything(told.memory)

    graph = await to_networkx(told.memory, "ann")

    entities = {uuid for uuid, each in stored.items() if isinstance(each, Entity)}
    edges = {(each.lhs, each.rhs, uuid) for uuid, each in stored.items() if isinstance(each, Relation)}
    assert set(graph.nodes) == entities
    assert set(graph.edges(keys=True)) == edges
    names = networkx.get_node_attributes(graph, "name")
    ann = next(uuid for uuid, name in names.items() if name == "Ann")
    assert {names[end] for end in graph.successors(ann)} == {"Acme", "Bolt"}
    assert graph.nodes[ann]["aliases"] == ["Annie"]
    assert graph.graph == {"user_id": "ann"}
    await told.memory.close()


async def test_episodes_are_nodes_too_if_they_are_asked_for() -> None:
    told = await grown()
    stored = await everything(told.memory)
    episodes = {uuid: each for uuid, each in stored.items() if isinstance(each, Episode)}

    graph = await to_networkx(told.memory, "ann", episodes=True)

    found = {uuid for uuid, kind in graph.nodes(data="node") if kind == "episode"}
    mentions = {(lhs, rhs) for lhs, rhs, name in graph.edges(data="name") if name == "mentions"}
    assert found == set(episodes)
    assert mentions == {(uuid, entity) for uuid, each in episodes.items() for entity in each.entities}
    await told.memory.close()


async def test_facts_are_nodes_if_that_is_asked_for_and_what_links_them_are_edges(tmp_path: Path) -> None:
    told = await grown()
    facts = await all_relations(told.memory)
    acme, bolt = facts["Ann works at Acme."], facts["Ann works at Bolt."]
    link = Relation(
        user_id="ann", kind="causes", ends="relation", lhs=acme.uuid, rhs=bolt.uuid, content="It led there."
    )
    store = told.memory.db_backend
    await commit_update(GraphMemUpdate(added_relation=[link]), "ann", store=store, embedder=attached_embedder(store))

    plain = await to_networkx(told.memory, "ann")
    graph = await to_networkx(told.memory, "ann", episodes=True, facts="nodes")
    await write_graphml(told.memory, "ann", tmp_path / "ann.graphml", episodes=True, facts="nodes")

    named = {(lhs, rhs, name) for lhs, rhs, name in graph.edges(data="name") if name}
    assert {uuid for uuid, kind in graph.nodes(data="node") if kind == "fact"} == {each.uuid for each in facts.values()}
    assert graph.nodes[bolt.uuid]["content"] == "Ann works at Bolt."
    assert {(bolt.lhs, bolt.uuid, "subject"), (bolt.uuid, bolt.rhs, "object")} <= named
    assert (acme.uuid, bolt.uuid, "replaced by") in named
    assert {(episode, bolt.uuid, "tells") for episode in bolt.episodes} <= named
    assert graph.edges[acme.uuid, bolt.uuid, link.uuid]["kind"] == "causes"
    assert link.uuid not in {key for *_, key in plain.edges(keys=True)}
    read = networkx.read_graphml(tmp_path / "ann.graphml", force_multigraph=True)
    assert set(read.edges(keys=True)) == set(graph.edges(keys=True))
    with pytest.raises(InvalidInputError, match="'edges' or 'nodes'"):
        await to_networkx(told.memory, "ann", facts="both")  # type: ignore[arg-type]
    await told.memory.close()


async def test_what_is_exported_is_for_its_owner_alone_and_takes_no_folders_place(tmp_path: Path) -> None:
    told = await grown()
    (tmp_path / "folder.csv").mkdir()

    await export_graph(told.memory, "ann", tmp_path / "ann.jsonl")
    await write_graphml(told.memory, "ann", tmp_path / "ann.graphml")
    for name in ("ann.csv", "ann.parquet"):
        await write_triples(told.memory, "ann", tmp_path / name)
    with pytest.raises(InvalidInputError, match="cannot be written"):
        await write_triples(told.memory, "ann", tmp_path / "folder.csv")

    assert permissions(tmp_path) == {
        **{"ann.csv": "0o600", "ann.graphml": "0o600"},
        **{"ann.jsonl": "0o600", "ann.parquet": "0o600"},
    }
    await told.memory.close()


@pytest.mark.parametrize("name", ["ann.graphml", "ann.graphml.gz"])
async def test_graphml_is_opened_by_networkx_with_lists_as_json(name: str, tmp_path: Path) -> None:
    told = await grown()
    graph = await to_networkx(told.memory, "ann")

    await write_graphml(told.memory, "ann", tmp_path / name)

    read = networkx.read_graphml(tmp_path / name, force_multigraph=True)
    assert set(read.nodes) == set(graph.nodes)
    assert set(read.edges(keys=True)) == set(graph.edges(keys=True))
    for uuid, fields in graph.nodes(data=True):
        assert read.nodes[uuid]["name"] == fields["name"]
        assert json.loads(read.nodes[uuid]["aliases"]) == fields["aliases"]
    facts: dict[str, Any] = {key: fields for _, _, key, fields in read.edges(keys=True, data=True)}
    bolt = next(fields for fields in facts.values() if fields["content"] == "Ann works at Bolt.")
    assert bolt["valid_since"] == datetime(2026, 3, 1, tzinfo=UTC).timestamp()
    assert "valid_until" not in bolt
    await told.memory.close()


async def test_characters_that_xml_cannot_say_do_not_break_the_file(tmp_path: Path) -> None:
    memory = fake_memory()
    strange = Entity(
        user_id="ann",
        name='<a&b> "\x08\x1b" 李\U0001f41d',
        attributes={"é": [1, None, {"x\x0b": "\x07"}]},
        content="a\tb\nc",
    )
    store = memory.db_backend
    await commit_update(GraphMemUpdate(added_entity=[strange]), "ann", store=store, embedder=attached_embedder(store))

    await write_graphml(memory, "ann", tmp_path / "ann.graphml")

    (read,) = dict(networkx.read_graphml(tmp_path / "ann.graphml").nodes(data=True)).values()
    assert read["name"] == '<a&b> "��" 李\U0001f41d'
    assert read["content"] == "a\tb\nc"
    assert json.loads(read["attributes"]) == strange.attributes
    await memory.close()


async def test_another_users_graph_is_not_in_it(tmp_path: Path) -> None:
    told = await grown()

    graph = await to_networkx(told.memory, "bob", episodes=True)

    assert not graph.nodes and not graph.edges
    assert await write_triples(told.memory, "bob", tmp_path / "bob.csv") == 0
    await told.memory.close()


async def test_triples_go_to_csv_and_parquet(tmp_path: Path) -> None:
    told = await grown()
    frame = (await told.memory.triples("ann")).to_frame()

    counts = [
        await write_triples(told.memory, "ann", tmp_path / f"facts.{end}") for end in ("csv", "csv.gz", "parquet")
    ]

    assert counts == [len(frame)] * 3
    plain, packed = pandas.read_csv(tmp_path / "facts.csv"), pandas.read_csv(tmp_path / "facts.csv.gz")
    table = pandas.read_parquet(tmp_path / "facts.parquet")
    for read in (plain, packed, table):
        assert list(read.columns) == list(frame.columns)
        assert read["sentence"].tolist() == frame["sentence"].tolist()
        assert [json.loads(each) for each in read["qualifiers"]] == frame["qualifiers"].tolist()
    assert [json.loads(each) for each in plain["sources"]] == [list(each) for each in frame["sources"]]
    assert [list(each) for each in table["episodes"]] == [list(each) for each in frame["episodes"]]
    assert table["valid_since"].dropna().tolist() == frame["valid_since"].dropna().tolist()
    assert plain["valid_since"].dropna().tolist() == [str(each) for each in frame["valid_since"].dropna()]
    await told.memory.close()


@pytest.mark.parametrize(
    ("library", "call", "extra"),
    [
        ("networkx", "to_networkx(memory, 'ann')", "networkx"),
        ("networkx", "write_graphml(memory, 'ann', 'ann.graphml')", "networkx"),
        ("pandas", "write_triples(memory, 'ann', 'facts.csv')", "pandas"),
        ("pyarrow", "write_triples(memory, 'ann', 'facts.parquet')", "pandas"),
    ],
    ids=["graph", "graphml", "csv", "parquet"],
)
def test_a_missing_library_is_named_with_the_extra_that_brings_it(
    library: str, call: str, extra: str, tmp_path: Path
) -> None:
    code = (
        "import asyncio, sys\n"
        "from jiuwen_memory.errors import MissingExtraError\n"
        "from jiuwen_memory.integrations.exchange import *\n"
        "from jiuwen_memory.testing import fake_memory\n"
        f"memory, sys.modules[{library!r}] = fake_memory(), None\n"
        f"try: asyncio.run({call})\n"
        "except MissingExtraError as error: print(error.message)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert f'pip install "jiuwen-graph-memory[{extra}]"' in done.stdout
    assert not any(tmp_path.iterdir())


async def test_a_name_that_does_not_say_what_to_write_is_refused(tmp_path: Path) -> None:
    memory = fake_memory()

    with pytest.raises(InvalidInputError, match=r"\.parquet"):
        await write_triples(memory, "ann", tmp_path / "facts.xlsx")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        await write_triples(memory, "ann", tmp_path / "missing" / "facts.csv")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        await write_graphml(memory, "ann", tmp_path / "missing" / "ann.graphml")

    await memory.close()
