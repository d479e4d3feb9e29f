"""What the types say about a plan: which entities they name, which facts they allow, whose attribute counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from jiuwen_memory.foundation.store.graph.graph_object import Entity
from jiuwen_memory.memory_core.graph.extraction.entity_type_definition import EntityDef
from jiuwen_memory.memory_core.graph.extraction.ontology import Ontology
from jiuwen_memory.memory_core.graph.extraction.values import Fact
from jiuwen_memory.memory_core.graph.graph_memory.merge_records import fits_document
from jiuwen_memory.memory_core.graph.graph_memory.states import Identity

SAID_AT = "attribute_at:"
"""Before an attribute's name, the key in `Entity.extra` of when its value was said (UTC seconds)."""


@dataclass(frozen=True)
class Placed:
    """The facts whose ends are allowed, and a warning for each other one."""

    facts: tuple[Fact, ...]
    warnings: tuple[str, ...] = ()


def resolve_types(identity: Identity) -> Identity:
    """Give entities of the general type the type that the text has for them."""
    known = {node.uuid: node.obj_type for node in identity.nodes}
    for mention, node in zip(identity.mentions, identity.nodes, strict=True):
        if known[node.uuid] == EntityDef.name:
            known[node.uuid] = mention.type_name
    nodes = (
        node if node.obj_type == known[node.uuid] else node.revise(obj_type=known[node.uuid]) for node in identity.nodes
    )
    return replace(identity, nodes=tuple(nodes))


def resolve_ends(facts: Sequence[Fact], identity: Identity, ontology: Ontology) -> Placed:
    """Hold the ends of typed facts against what their types allow: ends that fit swapped are swapped, others refused.

    An end counts by the type that the text has for it, and by that of the stored entity.
    """
    kinds = [
        {mention.type_name, node.obj_type} for mention, node in zip(identity.mentions, identity.nodes, strict=True)
    ]
    placed: list[Fact] = []
    warnings: list[str] = []
    for fact in facts:
        kind = ontology.relation_type(fact.name)
        source, target = kinds[fact.source], kinds[fact.target]
        if kind is None or ontology.fits(kind, source, target):
            placed.append(fact)
        elif ontology.fits(kind, target, source):
            placed.append(replace(fact, source=fact.target, target=fact.source))
        else:
            lhs, rhs = ("/".join(names) or "anything" for names in kind.ends())
            given = " -> ".join(
                f"{identity.mentions[end].name} ({'/'.join(sorted(kinds[end]))})" for end in (fact.source, fact.target)
            )
            warnings.append(f"Left out, {fact.name!r} goes from {lhs} to {rhs}, not {given}: {fact.content!r}")
    return Placed(tuple(placed), tuple(warnings))


@dataclass(frozen=True)
class Known:
    """The attributes of an entity and what else it notes of them, after a text; `warnings` tells what did not count."""

    attributes: dict[str, JsonValue]
    extra: dict[str, JsonValue]
    warnings: tuple[str, ...] = ()


def resolve_known(entity: Entity, new: Mapping[str, JsonValue], *, said_at: int | None) -> Known:
    """Return an entity's attributes after a text: of two values of one attribute, the one said later counts."""
    attributes, extra = dict(entity.attributes), dict(entity.extra)
    warnings: list[str] = []
    for name, value in new.items():
        before = extra.get(SAID_AT + name)
        is_older = name in attributes and isinstance(before, int) and said_at is not None and said_at < before
        if is_older:
            if value != attributes[name]:
                warnings.append(
                    f"{name!r} of {entity.name!r} stays {attributes[name]!r}: that was said later than {value!r}."
                )
            continue
        attributes[name] = value
        extra |= {} if said_at is None else {SAID_AT + name: said_at}
    if not (fits_document(attributes) and fits_document(extra)):
        warning = f"The new attributes of {entity.name!r} are too long and were left out."
        return Known(entity.attributes, entity.extra, (warning,))
    return Known(attributes, extra, tuple(warnings))
