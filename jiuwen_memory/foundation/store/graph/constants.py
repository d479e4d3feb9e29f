"""Names and bounds of the graph store."""

from __future__ import annotations

from typing import Final

ENTITY_COLLECTION: Final = "ENTITY_COLLECTION"
RELATION_COLLECTION: Final = "RELATION_COLLECTION"
EPISODE_COLLECTION: Final = "EPISODE_COLLECTION"
GRAPH_COLLECTIONS: Final = (ENTITY_COLLECTION, RELATION_COLLECTION, EPISODE_COLLECTION)
JOURNAL_COLLECTION: Final = "JOURNAL_COLLECTION"

GIST: Final = "GIST"
"""`obj_type` of an episode that retells others, its `parents`, in few words."""

VARCHAR_LIMIT: Final = 65_535
ARRAY_LIMIT: Final = 4_096
DEFAULT_WORKER_NUM: Final = 10

UNKNOWN_START: Final = -(10**12)
"""Stored for an unknown start; a second far before year 1, so that one range filter serves `as_of`."""
OPEN_END: Final = 10**12
"""Stored for an unknown or open end; a second far after year 9999."""
