"""The numbers of a result that logs and traces tell. Touches nothing, and quotes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jiuwen_memory.foundation.tracing import Attributes
from jiuwen_memory.memory_core.graph.extraction.usage import Usage
from jiuwen_memory.memory_core.graph.graph_memory.receipts import DeletionReceipt
from jiuwen_memory.memory_core.graph.graph_memory.states import GraphMemUpdate


def add_figures(update: GraphMemUpdate) -> Attributes:
    """Return what an add cost and changed."""
    return {
        **_usage_figures(update.usage),
        "added_episodes": len(update.added_episode),
        "added_entities": len(update.added_entity),
        "added_relations": len(update.added_relation),
        "updated": len(update.updated_episode) + len(update.updated_entity) + len(update.updated_relation),
        "removed": len(update.removed_episode) + len(update.removed_entity) + len(update.removed_relation),
        "warnings": len(update.warnings),
        "is_duplicate": update.duplicate_of is not None,
    }


def search_figures(results: Mapping[str, Sequence[object]]) -> Attributes:
    """Return how much a search found, by collection."""
    return {f"found.{collection}": len(found) for collection, found in results.items()}


def deletion_figures(receipt: DeletionReceipt) -> Attributes:
    """Return what a deletion took, and what it left to be looked at."""
    return {
        **_usage_figures(receipt.usage),
        "removed": sum(map(len, receipt.removed.values())),
        "updated": sum(map(len, receipt.updated.values())),
        "reopened": len(receipt.reopened),
        "residue": len(receipt.residue),
        "warnings": len(receipt.warnings),
    }


def _usage_figures(usage: Usage) -> Attributes:
    return {
        "calls": usage.calls,
        "reasked": usage.reasked,
        "rounds": usage.rounds,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    }
