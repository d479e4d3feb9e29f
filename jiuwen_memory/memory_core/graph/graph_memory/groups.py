"""Which stored entities are one, and which of them stands for all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jiuwen_memory.foundation.store.graph.graph_object import Entity
from jiuwen_memory.foundation.text import normalise_name, query_tokens, search_tokens
from jiuwen_memory.memory_core.graph.extraction.values import Mention
from jiuwen_memory.memory_core.graph.graph_memory.states import Merge


class Groups:
    """Stored entities that are one, by union; the most mentioned, then the oldest, stands for its group."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        self._entity = {entity.uuid: entity for entity in entities}
        self._group = {uuid: {uuid} for uuid in self._entity}

    def join(self, first: Entity, second: Entity) -> None:
        """Make two entities one, with all that is one with either."""
        union = self._group[first.uuid] | self._group[second.uuid]
        for uuid in union:
            self._group[uuid] = union

    def target(self, entity: Entity) -> Entity:
        """Return the entity that stands for this one."""
        members = [self._entity[uuid] for uuid in self._group[entity.uuid]]
        return min(members, key=lambda each: (-each.mention_count, each.created_at, each.name, each.uuid))

    def merges(self) -> tuple[Merge, ...]:
        """Return the groups of more than one."""
        found: dict[str, Merge] = {}
        for uuid, union in self._group.items():
            if len(union) > 1:
                target = self.target(self._entity[uuid])
                absorbed = sorted(union - {target.uuid})
                found[target.uuid] = Merge(target, tuple(self._entity[each] for each in absorbed))
        return tuple(found.values())

    def origin(self, mention: Mention, picked: Sequence[Entity], node: Entity) -> str:
        """Return which of the entities that are fused a name would have meant: the one that bears it, or most of it.

        If that could be several, it is the one that stays.
        """
        if len(picked) == 1:
            return picked[0].uuid
        fused = [each for each in picked if self.target(each).uuid == node.uuid]
        likeness = {each.uuid: _likeness(mention.name, each) for each in fused}
        best = [uuid for uuid, each in likeness.items() if each == max(likeness.values())]
        return best[0] if len(best) == 1 else node.uuid


def _likeness(name: str, entity: Entity) -> tuple[bool, bool, int]:
    """Tell how well a name fits an entity: it is its name, or an alias, or has words in common with these."""
    aliases = map(normalise_name, entity.aliases)
    words = set(search_tokens("\n".join([entity.name, *entity.aliases])).split())
    common = len(words.intersection(query_tokens(name).split()))
    return normalise_name(name) == entity.name_norm, normalise_name(name) in aliases, common
