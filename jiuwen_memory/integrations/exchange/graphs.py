"""A user's graph as a networkx graph, and as GraphML. Reads the store; networkx is imported on first use.

It is a view to work with, not a copy: `jsonl.py` writes those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from jiuwen_memory.errors import InvalidInputError, MissingExtraError
from jiuwen_memory.foundation.concurrency import off_loop
from jiuwen_memory.foundation.files import new_path
from jiuwen_memory.foundation.store.graph.constants import (
    ENTITY_COLLECTION,
    EPISODE_COLLECTION,
    RELATION_COLLECTION,
)
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Relation
from jiuwen_memory.memory_core.graph.graph_memory.base import GraphMemory
from jiuwen_memory.memory_core.graph.graph_memory.requests import parse_user_id

if TYPE_CHECKING:
    from networkx import MultiDiGraph

FactShape = Literal["edges", "nodes"]
"""How a graph holds facts: as edges between entities, or as nodes of their own."""
_NOT_SHOWN: Final = {"uuid", "user_id", "embedding_key", "name_embedding", "content_embedding"}
_UNWRITABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to say."""
_INTEGERS: Final = range(-(2**63), 2**63)


async def to_networkx(
    memory: GraphMemory, user_id: str, *, episodes: bool = False, facts: FactShape = "edges"
) -> MultiDiGraph:
    """Return a user's graph as a networkx `MultiDiGraph`: entities as nodes, relations as edges from lhs to rhs.

    Nodes are keyed by uuid, edges by the relation's uuid too; both carry the fields of the object, times as UTC seconds
    and None where unknown. Every node has `node`: `entity`, `episode` or `fact`.

    Args:
        episodes: have the episodes as nodes too, with edges `mentions` to their entities and the links between them.
        facts: `edges` leaves out links between facts, which no edge can have as its ends. With `nodes`, every fact is a
            node between an edge `subject` and an edge `object`; links between facts are edges, `replaced by` leads to
            what replaced a fact, and from an episode `tells` to what rests on it.

    Raises:
        MissingExtraError: networkx is not installed.
        InvalidInputError: there is no such user id, or no such shape of facts.
    """
    if facts not in get_args(FactShape):
        raise InvalidInputError(f"facts is {facts!r}; give 'edges' or 'nodes'.")
    try:
        import networkx
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            'A graph object needs networkx, which is not installed: pip install "jiuwen-graph-memory[networkx]"'
        ) from error
    user = parse_user_id(user_id, memory.config.db_storage_config)
    graph: MultiDiGraph = networkx.MultiDiGraph(user_id=user)
    async for each in memory.objects(ENTITY_COLLECTION, user):
        graph.add_node(each.uuid, node="entity", **_fields(each))
    if episodes:
        mentions = []
        async for each in memory.objects(EPISODE_COLLECTION, user):
            fields = _fields(each)
            mentions += [(each.uuid, entity) for entity in fields.pop("entities")]
            graph.add_node(each.uuid, node="episode", **fields)
        _connect(graph, mentions, name="mentions")
    relations = [each async for each in memory.objects(RELATION_COLLECTION, user) if isinstance(each, Relation)]
    if facts == "nodes":
        _add_facts_as_nodes(graph, [each for each in relations if each.kind == "fact"])
        relations = [each for each in relations if each.kind != "fact"]
    for each in relations:
        if each.lhs in graph and each.rhs in graph:
            graph.add_edge(each.lhs, each.rhs, key=each.uuid, **_fields(each))
    return graph


def _add_facts_as_nodes(graph: MultiDiGraph, facts: Sequence[Relation]) -> None:
    for each in facts:
        graph.add_node(each.uuid, node="fact", **_fields(each))
    _connect(graph, [(each.lhs, each.uuid) for each in facts], name="subject")
    _connect(graph, [(each.uuid, each.rhs) for each in facts], name="object")
    _connect(graph, [(each.uuid, later) for each in facts for later in each.superseded_by], name="replaced by")
    _connect(graph, [(episode, each.uuid) for each in facts for episode in each.episodes], name="tells")


def _connect(graph: MultiDiGraph, pairs: Iterable[tuple[str, str]], *, name: str) -> None:
    """Add an edge of our own for each pair whose ends are both there."""
    for begin, end in pairs:
        if begin in graph and end in graph:
            graph.add_edge(begin, end, key=f"{begin}:{name}:{end}", name=name)


async def write_graphml(
    memory: GraphMemory, user_id: str, path: str | Path, *, episodes: bool = False, facts: FactShape = "edges"
) -> None:
    """Write a user's graph as GraphML, which networkx, Gephi, yEd and Cytoscape open.

    It holds what `to_networkx` gives. Lists and dicts are JSON texts, what is unknown is left out, and characters that
    XML has no way to say become U+FFFD.

    Raises:
        MissingExtraError: networkx is not installed.
        InvalidInputError: the path cannot be written, or what `to_networkx` refuses.
    """
    graph = await to_networkx(memory, user_id, episodes=episodes, facts=facts)
    await off_loop(None, _write_graphml, graph, path)


def _fields(each: BaseGraphObject) -> dict[str, Any]:
    return each.model_dump(exclude=_NOT_SHOWN)


def _write_graphml(graph: MultiDiGraph, path: str | Path) -> None:
    import networkx

    for attributes in (
        graph.graph,
        *(fields for _, fields in graph.nodes(data=True)),
        *(fields for _, _, fields in graph.edges(data=True)),
    ):
        plain = {name: _scalar(value) for name, value in attributes.items() if value is not None}
        attributes.clear()
        attributes.update(plain)
    with new_path(path) as unfinished:
        networkx.write_graphml(graph, unfinished, named_key_ids=True)


def _scalar(value: object) -> str | int | float | bool:
    if isinstance(value, bool | float) or (isinstance(value, int) and value in _INTEGERS):
        return value
    return _UNWRITABLE.sub("\ufffd", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
