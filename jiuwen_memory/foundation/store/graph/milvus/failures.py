"""The one place where pymilvus's errors become ours, and where its log noise about them is held back.

pymilvus logs every failed call at ERROR with a traceback, and so the filter text with it, before it raises. Inside
`reported_as` the caller gets the error, with its cause chained, so the log records of that thread are dropped there;
calls made by others are logged as ever.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from jiuwen_memory.errors import StoreError, StoreUnavailableError
from jiuwen_memory.foundation.hiding import without_user_info
from jiuwen_memory.foundation.store.graph.config import GraphConfig

_NOISY_LOGGERS: Final = (
    "pymilvus.decorators",
    "pymilvus.client.connection_manager",
    "pymilvus.client.grpc_handler",
    "milvus_lite.server_manager",
)
_MESSAGE_LIMIT: Final = 400
_CONNECT_FAILED: Final = 2
_RATE_LIMITED: Final = 8
_TRANSIENT_STATUS: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"})


class _Quiet(logging.Filter):
    """Drops the records of threads that are inside `reported_as`, and keeps the last exception they told of."""

    def __init__(self) -> None:
        super().__init__()
        self._here = threading.local()
        self._guard = threading.Lock()
        self._installed = False

    def install(self) -> None:
        with self._guard:
            if not self._installed:
                self._installed = True
                for name in _NOISY_LOGGERS:
                    logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if not getattr(self._here, "depth", 0):
            return True
        if record.exc_info and record.exc_info[1] is not None:
            self._here.cause = record.exc_info[1]
        return False

    @contextmanager
    def around(self) -> Iterator[None]:
        self._here.depth = getattr(self._here, "depth", 0) + 1
        try:
            yield
        finally:
            self._here.depth -= 1

    def take_cause(self) -> BaseException | None:
        """Return the last exception that was only logged, once."""
        cause: BaseException | None = getattr(self._here, "cause", None)
        self._here.cause = None
        return cause


_quiet = _Quiet()


def take_logged_cause() -> BaseException | None:
    """Return the exception that the embedded server's start put into the log instead of raising it."""
    return _quiet.take_cause()


def without_secrets(text: str, config: GraphConfig) -> str:
    """Return the text, shortened, without the token and without what stands before the @ of a URI."""
    for secret in (config.token, *config.token.split(":")):
        if secret:
            text = text.replace(secret, "***")
    text = without_user_info(text)
    return text if len(text) <= _MESSAGE_LIMIT else f"{text[:_MESSAGE_LIMIT]}..."


@contextmanager
def reported_as(doing: str, config: GraphConfig) -> Iterator[None]:
    """Turn pymilvus and gRPC errors of a block into `StoreError` or `StoreUnavailableError`; call it in a thread."""
    import grpc  # type: ignore[import-untyped]
    from pymilvus.exceptions import ConnectError, MilvusException, MilvusUnavailableException

    _quiet.install()
    with _quiet.around():
        try:
            yield
        except MilvusException as error:
            gone = isinstance(error, ConnectError | MilvusUnavailableException) or _is_transient(error.code)
            raise _translate(doing, error.message or str(error), gone=gone, config=config) from error
        except grpc.RpcError as error:
            details = error.details() if isinstance(error, grpc.Call) else str(error)
            gone = isinstance(error, grpc.Call) and _is_transient(error.code())
            raise _translate(doing, str(details), gone=gone, config=config) from error


def _is_transient(code: object) -> bool:
    return code in (_CONNECT_FAILED, _RATE_LIMITED) or getattr(code, "name", None) in _TRANSIENT_STATUS


def _translate(doing: str, details: str, *, gone: bool, config: GraphConfig) -> StoreError:
    told = f"{doing} failed: {without_secrets(' '.join(details.split()), config)}"
    if not gone:
        return StoreError(told)
    return StoreUnavailableError(
        f"{told}. Check that the store at {without_secrets(config.uri, config)} runs, and GraphConfig.timeout "
        f"({config.timeout:g} s)."
    )
