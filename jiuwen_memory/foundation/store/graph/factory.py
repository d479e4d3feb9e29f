"""Which store a configuration means: a register of backends by name. Building a store does no I/O."""

from __future__ import annotations

from typing import Any, ClassVar, Final, cast

from jiuwen_memory.errors import (
    BackendExistsError,
    BackendNameError,
    BackendNotFoundError,
    FactoryNotInstantiableError,
    StoreProtocolError,
)
from jiuwen_memory.foundation.store.graph.base import GraphStore
from jiuwen_memory.foundation.store.graph.config import GraphConfig
from jiuwen_memory.foundation.store.graph.memory.store import InMemoryGraphStore
from jiuwen_memory.foundation.store.graph.milvus.store import MilvusGraphStore

_METHODS: Final = (
    *("from_config", "identity", "embedder", "attach_embedder", "open", "upsert", "delete", "flush", "query"),
    *("search", "routes", "count", "refresh", "close", "__aenter__", "__aexit__"),
)
_ATTRIBUTES: Final = ("config", "journal")


class GraphStoreFactory:
    """Builds the store that `GraphConfig.backend` names; further backends are registered by their class."""

    _backends: ClassVar[dict[str, type[GraphStore]]] = {
        "milvus": cast("type[GraphStore]", MilvusGraphStore),
        "memory": cast("type[GraphStore]", InMemoryGraphStore),
    }

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise FactoryNotInstantiableError(
            "GraphStoreFactory is used through its class methods, such as GraphStoreFactory.from_config(config)."
        )

    @classmethod
    def register_backend(cls, name: str, backend: type[Any], force: bool = False) -> None:
        """Register a store's class under a name; `force` replaces one that is registered already.

        Raises:
            BackendNameError: the name is not a non-empty string.
            BackendExistsError: the name is taken.
            StoreProtocolError: the class lacks something of the `GraphStore` protocol.
        """
        _check_name(name)
        if name in cls._backends and not force:
            raise BackendExistsError(f"The backend {name!r} is registered already; pass force=True to replace it.")
        _check_class(backend)
        cls._backends[name] = backend

    @classmethod
    def from_config(cls, config: GraphConfig, backend_name: str | None = None, **kwargs: object) -> GraphStore:
        """Build the store of a configuration; `backend_name` overrides `config.backend`.

        Raises:
            BackendNameError: the name is not a non-empty string.
            BackendNotFoundError: no backend of that name is registered.
            StoreProtocolError: the built store lacks its `config` or its `journal`.
        """
        name = config.backend if backend_name is None else backend_name
        _check_name(name)
        if name not in cls._backends:
            known = ", ".join(sorted(cls._backends))
            raise BackendNotFoundError(
                f"There is no backend {name!r}; there are {known}. Others join by GraphStoreFactory.register_backend."
            )
        store = cls._backends[name].from_config(config, **kwargs)
        missing = [member for member in _ATTRIBUTES if getattr(store, member, None) is None]
        if missing:
            _refuse(type(store), missing)
        return store


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise BackendNameError(f"A backend's name is a non-empty string, not {name!r}.")


def _check_class(backend: object) -> None:
    if not isinstance(backend, type):
        raise StoreProtocolError(f"A backend is registered by its class, not by {backend!r}.")
    # Attributes set in __init__ are found at the built store; declaring them is what the protocol asks for.
    declared = {name for base in backend.__mro__ for name in getattr(base, "__annotations__", {})}
    missing = [member for member in _METHODS if not hasattr(backend, member)]
    missing += [name for name in _ATTRIBUTES if name not in declared and not hasattr(backend, name)]
    if missing:
        _refuse(backend, missing)


def _refuse(backend: type[Any], missing: list[str]) -> None:
    raise StoreProtocolError(
        f"{backend.__name__} lacks {', '.join(missing)} of the GraphStore protocol; add them. An attribute may "
        "be declared in the class, as in `journal: Journal`."
    )
