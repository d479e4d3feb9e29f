"""What a graph is without one episode's evidence, and what comes back when the episode is read again. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from jiuwen_memory.foundation.store.graph.database_config import GraphStoreStorageConfig
from jiuwen_memory.foundation.store.graph.graph_object import BaseGraphObject, Entity, Episode, Relation
from jiuwen_memory.foundation.text import normalise_name
from jiuwen_memory.memory_core.config.graph import AddMemStrategy
from jiuwen_memory.memory_core.graph.graph_memory.deletions import (
    Gone,
    Graph,
    Scene,
    put_episodes,
    put_relations,
    resolve_gone,
)
from jiuwen_memory.memory_core.graph.graph_memory.resolve import is_compatible
from jiuwen_memory.memory_core.graph.graph_memory.retelling import put_entities, put_summaries
from jiuwen_memory.memory_core.graph.graph_memory.spine import NEXT
from jiuwen_memory.memory_core.graph.graph_memory.states import Draft, GraphMemUpdate, with_ids
from jiuwen_memory.memory_core.graph.graph_memory.synonyms import SYNONYM
from jiuwen_memory.memory_core.graph.graph_memory.traces import Evidence, Traces, episode_texts, kept_entries
from jiuwen_memory.memory_core.graph.graph_memory.type_rules import SAID_AT

Object = TypeVar("Object", bound=BaseGraphObject)

REBUILD: Final = "rebuild"
"""Key, in an episode's `extra`, of which rebuild it was read by."""


@dataclass(frozen=True)
class Withdrawal:
    """A graph without what rests on one episode alone: the change to it, and the graph before.

    `retold` are the entities whose summary had a part of the episode in it.
    """

    graph: Graph
    episode: Episode
    update: GraphMemUpdate
    retold: frozenset[str] = frozenset()


def resolve_withdrawal(
    graph: Graph, uuid: str, *, storage: GraphStoreStorageConfig, strategy: AddMemStrategy
) -> Withdrawal:
    """Take the evidence of an episode out of a graph, as its deletion would, but for what others may have told.

    The episode is told again right away, so no word of it has to be scrubbed from elsewhere: names stay, and so does
    the order of episodes; of qualifiers and attributes only what is known to be told by this episode goes. Summaries
    that it had a part in are put together from the facts that stay.
    """
    gone = resolve_gone(graph, Gone(episodes=frozenset({uuid})), limit=storage.episodes)
    scene = Scene(graph, gone, Traces(), storage)
    draft = Draft(graph.objects())
    put_episodes(draft, scene)
    put_relations(draft, scene)
    retold = put_entities(draft, scene)
    put_summaries(draft, retold, [None] * len(retold), scene=scene, strategy=strategy)
    episode = graph.episodes[uuid]
    for entity in draft.all(Entity):
        draft.put(_with_told_elsewhere(entity, graph.entities[entity.uuid], episode))
    for relation in draft.all(Relation):
        if relation.uuid in graph.relations and relation != graph.relations[relation.uuid]:
            draft.put(_qualified_elsewhere(relation, graph, episode))
    update = draft.update()
    spine = {each.uuid for each in graph.relations.values() if each.kind == NEXT}
    return Withdrawal(
        graph,
        graph.episodes[uuid],
        replace(update, added_relation=[], removed_relation=update.removed_relation - spine),
        frozenset(each.entity.uuid for each in retold),
    )


def _with_told_elsewhere(entity: Entity, before: Entity, episode: Episode) -> Entity:
    """Return an entity with its names, and with the attributes that were said at another time than the episode's."""
    if (entity.name, entity.aliases, entity.attributes) == (before.name, before.aliases, before.attributes):
        return entity
    said = {name: before.extra.get(SAID_AT + name) for name in before.attributes}
    attributes = {
        name: value
        for name, value in before.attributes.items()
        if name in entity.attributes or said[name] != episode.valid_since
    }
    return entity.revise(name=before.name, aliases=before.aliases, attributes=attributes)


def _qualified_elsewhere(relation: Relation, graph: Graph, episode: Episode) -> Relation:
    """Return a fact with all its qualifiers but those in words of this episode alone."""
    others = Evidence(episode_texts(graph.episodes[uuid] for uuid in relation.episodes if uuid in graph.episodes))
    this = Evidence(episode_texts([episode]))
    before = graph.relations[relation.uuid].qualifiers
    return relation.revise(qualifiers=kept_entries(before, lambda text: others.tells(text) or not this.tells(text)))


def resolve_retold(withdrawal: Withdrawal, planned: GraphMemUpdate, *, mark: Mapping[str, object]) -> GraphMemUpdate:
    """Return what reading the episode again changes in its graph: what is gone, what came back, what is new.

    The episode keeps its id. So does an entity that comes back under its name or an alias, and a fact in the same words
    between the same two; and all three keep the moment at which they were learnt.
    """
    old, gone = withdrawal.episode, withdrawal.update
    (new,) = (each for each in planned.added_episode if not each.is_gist)
    entities = [withdrawal.graph.entities[uuid] for uuid in sorted(gone.removed_entity)]
    relations = [withdrawal.graph.relations[uuid] for uuid in sorted(gone.removed_relation)]
    told = with_ids(planned, {new.uuid: old.uuid, **_same_entities(planned.added_entity, entities)})
    told = with_ids(told, _same_relations(told.added_relation, [each for each in relations if each.kind == "fact"]))
    told = with_ids(told, _same_relations(told.added_relation, [each for each in relations if each.kind != "fact"]))
    told = replace(
        told,
        added_episode=[_read_again(old, each, mark) if each.uuid == old.uuid else each for each in told.added_episode],
        added_entity=_as_learnt(told.added_entity, entities),
        added_relation=_as_learnt(told.added_relation, relations),
    )
    return _with_links_kept(_with_returned(gone | told), withdrawal)


def _read_again(old: Episode, new: Episode, mark: Mapping[str, object]) -> Episode:
    return old.revise(entities=new.entities, extra={**old.extra, **new.extra, REBUILD: dict(mark)})


def _same_entities(new: Sequence[Entity], gone: Sequence[Entity]) -> dict[str, str]:
    """Return the old id of each new entity that has the name of one that is gone, or else one of its aliases."""
    found: dict[str, str] = {}
    left = list(gone)
    for by_alias in (False, True):
        for each in new:
            if each.uuid in found:
                continue
            for old in left:
                names = [old.name, *old.aliases] if by_alias else [old.name]
                same = each.name_norm in map(normalise_name, names) and is_compatible(each.obj_type, old.obj_type)
                if same:
                    found[each.uuid] = old.uuid
                    left.remove(old)
                    break
    return found


def _same_relations(new: Sequence[Relation], gone: Sequence[Relation]) -> dict[str, str]:
    """Return the old id of each new relation that says the same between the same two as one that is gone."""
    known: dict[tuple[str, ...], list[str]] = {}
    for old in gone:
        known.setdefault(_saying(old), []).append(old.uuid)
    return {each.uuid: known[_saying(each)].pop(0) for each in new if known.get(_saying(each))}


def _saying(each: Relation) -> tuple[str, ...]:
    if each.kind == SYNONYM:
        return each.kind, *sorted((each.lhs, each.rhs))
    words = normalise_name(each.content_text) if each.kind == "fact" else ""
    return each.kind, each.lhs, each.rhs, words


def _as_learnt(new: Iterable[Object], gone: Iterable[BaseGraphObject]) -> list[Object]:
    learnt = {each.uuid: each.created_at for each in gone}
    return [each.revise(created_at=learnt.get(each.uuid, each.created_at)) for each in new]


def _with_returned(update: GraphMemUpdate) -> GraphMemUpdate:
    """Return an update in which what is both removed and added is updated."""
    episodes = {each.uuid for each in update.added_episode} & update.removed_episode
    entities = {each.uuid for each in update.added_entity} & update.removed_entity
    relations = {each.uuid for each in update.added_relation} & update.removed_relation
    return replace(
        update,
        added_episode=[each for each in update.added_episode if each.uuid not in episodes],
        updated_episode=[*update.updated_episode, *(each for each in update.added_episode if each.uuid in episodes)],
        removed_episode=update.removed_episode - episodes,
        added_entity=[each for each in update.added_entity if each.uuid not in entities],
        updated_entity=[*update.updated_entity, *(each for each in update.added_entity if each.uuid in entities)],
        removed_entity=update.removed_entity - entities,
        added_relation=[each for each in update.added_relation if each.uuid not in relations],
        updated_relation=[
            *update.updated_relation,
            *(each for each in update.added_relation if each.uuid in relations),
        ],
        removed_relation=update.removed_relation - relations,
    )


def _with_links_kept(update: GraphMemUpdate, withdrawal: Withdrawal) -> GraphMemUpdate:
    """Return an update that leaves links alone which the episode has no part in and whose ends are what they were."""
    graph = withdrawal.graph
    renamed = {each.uuid for each in update.updated_entity if each.name != graph.entities[each.uuid].name}
    removed = update.removed_entity | update.removed_relation | renamed
    kept = {
        uuid
        for uuid in update.removed_relation
        if graph.relations[uuid].kind != "fact"
        and withdrawal.episode.uuid not in graph.relations[uuid].episodes
        and removed.isdisjoint((graph.relations[uuid].lhs, graph.relations[uuid].rhs))
    }
    return replace(update, removed_relation=update.removed_relation - kept)


def resolve_cleared(graph: Graph, marks: Mapping[str, Mapping[str, object]]) -> GraphMemUpdate:
    """Return the removal of all that was made of a user's episodes, which stay, with a mark; so does their order."""
    gists = graph.gists
    return GraphMemUpdate(
        updated_episode=[
            each.revise(entities=[], extra={**each.extra, **({REBUILD: dict(marks[uuid])} if uuid in marks else {})})
            for uuid, each in graph.episodes.items()
            if uuid not in gists
        ],
        removed_episode=set(gists),
        removed_entity=set(graph.entities),
        removed_relation={uuid for uuid, each in graph.relations.items() if each.kind != NEXT},
    )
