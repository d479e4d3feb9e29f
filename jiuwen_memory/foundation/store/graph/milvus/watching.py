"""Spans of the requests that a Milvus client makes. Touches nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jiuwen_memory.foundation.tracing import STORE_DURATION, is_traced, span


def watched(client: Any, database: str = "") -> Any:
    """Return a client whose requests about a collection have spans, or the client itself if nobody wants them."""
    return _Watched(client, {"db.namespace": database} if database else {}) if is_traced() else client


class _Watched:
    """Stands for a client, or for an iterator of one over a collection. Filters and rows stay out of what is told."""

    def __init__(self, client: Any, known: dict[str, str], collection: str | None = None) -> None:
        self._client = client
        self._known = known
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return self._asked(name, found) if callable(found) else found

    def _asked(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            collection = self._collection or kwargs.get("collection_name", args[0] if args else None)
            if not isinstance(collection, str):
                return method(*args, **kwargs)
            attributes = {
                "db.system.name": "milvus",
                "db.operation.name": name,
                "db.collection.name": collection,
                **self._known,
            }
            with span(f"{name} {collection}", attributes, metric=STORE_DURATION, is_request=True) as told:
                answer = method(*args, **kwargs)
                if name in ("query", "next"):
                    told.set({"db.response.returned_rows": len(answer)})
                elif name == "upsert":
                    told.set({"db.operation.batch.size": len(args[1])})
            return _Watched(answer, self._known, collection) if name == "query_iterator" else answer

        return call
