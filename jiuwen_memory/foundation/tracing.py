"""Spans and metrics for OpenTelemetry, where a program uses it; otherwise nothing. Touches OpenTelemetry's API only.

The API is looked for among the modules that are loaded and never imported first: whoever sets a provider has imported
it. So a program without OpenTelemetry pays for one look into a dictionary per span.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from jiuwen_memory.foundation.hiding import hashed

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter, MeterProvider
    from opentelemetry.trace import TracerProvider

P = ParamSpec("P")
T = TypeVar("T")
Attributes = Mapping[str, str | bool | int | float]

SCOPE: Final = "jiuwen_memory"
_NONE: Final[Attributes] = {}
# The boundaries that OpenTelemetry's conventions advise for calls of models, tokens and database requests.
_SECONDS: Final = tuple(0.01 * 2**power for power in range(14))
_TOKENS: Final = tuple(float(4**power) for power in range(14))
_REQUEST_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


@dataclass(frozen=True)
class Metric:
    """A histogram: its name, unit and boundaries, and the attributes by which its values are told apart."""

    name: str
    unit: str
    description: str
    boundaries: tuple[float, ...]
    keys: tuple[str, ...]


_MODEL_KEYS: Final = ("error.type", "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
OPERATION_DURATION: Final = Metric(
    "jiuwen_memory.operation.duration",
    "s",
    "Duration of an operation.",
    _SECONDS,
    ("error.type", "jiuwen_memory.operation"),
)
MODEL_DURATION: Final = Metric(
    "gen_ai.client.operation.duration", "s", "GenAI operation duration.", _SECONDS, _MODEL_KEYS
)
MODEL_TOKENS: Final = Metric(
    "gen_ai.client.token.usage",
    "{token}",
    "Number of input and output tokens used.",
    _TOKENS,
    (*_MODEL_KEYS, "gen_ai.token.type"),
)
STORE_DURATION: Final = Metric(
    "db.client.operation.duration",
    "s",
    "Duration of database client operations.",
    _REQUEST_SECONDS,
    ("error.type", "db.system.name", "db.operation.name", "db.collection.name"),
)
_METRICS: Final = (OPERATION_DURATION, MODEL_DURATION, MODEL_TOKENS, STORE_DURATION)


@dataclass(frozen=True)
class TracingSettings:
    """Who is told and what; a provider that is None is the one set for the whole process, if any is."""

    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    enabled: bool = True
    include_content: bool = False
    plain_user_ids: bool = False


class _Sink:
    """A tracer and the histograms of one pair of providers."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        self.tracers = tracers
        self.meters = meters
        self.tracer = tracers.get_tracer(SCOPE) if tracers else None
        self._histograms = _histograms(meters.get_meter(SCOPE)) if meters else {}

    def record(self, metric: Metric, value: float, attributes: Attributes) -> None:
        histogram = self._histograms.get(metric.name)
        if histogram is not None:
            histogram.record(value, {key: attributes[key] for key in metric.keys if key in attributes})


def _histograms(meter: Meter) -> dict[str, Histogram]:
    return {
        each.name: meter.create_histogram(
            each.name, each.unit, each.description, explicit_bucket_boundaries_advisory=each.boundaries
        )
        for each in _METRICS
    }


class _State:
    """What this process does with spans."""

    def __init__(self) -> None:
        self.settings = TracingSettings()
        self._sink: _Sink | None = None
        self._guard = threading.Lock()

    def sink(self) -> _Sink | None:
        settings = self.settings
        if "opentelemetry" not in sys.modules or not settings.enabled:
            return None
        tracers = settings.tracer_provider or _provider_of_process("opentelemetry.trace", "get_tracer_provider")
        meters = settings.meter_provider or _provider_of_process("opentelemetry.metrics", "get_meter_provider")
        if tracers is None and meters is None:
            return None
        sink = self._sink
        if sink is None or sink.tracers is not tracers or sink.meters is not meters:
            with self._guard:
                sink = self._sink = _Sink(tracers, meters)
        return sink


def _provider_of_process(api: str, getter: str) -> Any:
    """Return the provider that an SDK set, or None: what the API itself puts in its place does nothing."""
    get = getattr(sys.modules.get(api), getter, None)
    if get is None:
        return None
    provider = get()
    return None if type(provider).__module__.startswith(api) else provider


_state = _State()


def set_tracing(settings: TracingSettings) -> None:
    """Follow these settings from now on, in the whole process."""
    _state.settings = settings


def is_traced() -> bool:
    """Tell whether anybody wants spans or metrics."""
    return _state.sink() is not None


def wants_content() -> bool:
    """Tell whether texts may become part of spans."""
    return _state.settings.include_content


def user_attributes(user_id: object) -> Attributes:
    """Return the attribute that names a user, or several, by their hashes unless ids were asked for."""
    users = [user_id] if isinstance(user_id, str) else list(user_id) if isinstance(user_id, list | tuple) else []
    named = [user for user in users if isinstance(user, str)]
    if not named:
        return _NONE
    if _state.settings.plain_user_ids:
        return {"enduser.id": ",".join(named)}
    return {"enduser.pseudo.id": ",".join(map(hashed, named))}


class Span:
    """A stretch of work. Without anybody who wants to know of it, it does nothing and `is_told` is False."""

    def __init__(
        self, sink: _Sink | None, name: str, attributes: Attributes, *, metric: Metric | None, is_request: bool
    ) -> None:
        self.is_told = sink is not None
        self._sink = sink
        self._name = name
        self._attributes = attributes
        self._metric = metric
        self._is_request = is_request
        self._span: Any = None
        self._token: Any = None
        self._start = 0.0

    @property
    def trace_id(self) -> str | None:
        """The trace that this is part of, as 32 hexadecimal digits, if it is part of one."""
        return f"{self._span.get_span_context().trace_id:032x}" if self._span is not None else None

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        if self._sink is not None:
            self._attributes = {**self._attributes, **attributes}
        if self._span is not None:
            self._span.set_attributes(attributes)

    def record(self, metric: Metric, value: float, attributes: Attributes = _NONE) -> None:
        """Add a value to a histogram, with this span's attributes and further ones."""
        if self._sink is not None:
            self._sink.record(metric, value, {**self._attributes, **attributes})

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        if self._sink is not None and self._sink.tracer is not None:
            from opentelemetry.context import attach
            from opentelemetry.trace import SpanKind, set_span_in_context

            kind = SpanKind.CLIENT if self._is_request else SpanKind.INTERNAL
            self._span = self._sink.tracer.start_span(self._name, kind=kind, attributes=dict(self._attributes))
            self._token = attach(set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The error's own words stay out: they may quote a text, a user id, or what a service said.
        if kind is not None:
            self.set({"error.type": kind.__qualname__})
        if self._metric is not None:
            self.record(self._metric, time.perf_counter() - self._start)
        if self._span is not None:
            from opentelemetry.context import detach
            from opentelemetry.trace import StatusCode

            if kind is not None:
                self._span.set_status(StatusCode.ERROR, kind.__qualname__)
            detach(self._token)
            self._span.end()


_SILENT: Final = Span(None, "", _NONE, metric=None, is_request=False)


def span(name: str, attributes: Attributes = _NONE, *, metric: Metric | None = None, is_request: bool = False) -> Span:
    """Return a span to be entered; spans of what is awaited or started inside, in tasks and threads too, are below it.

    Args:
        metric: a histogram that gets the seconds it took.
        is_request: it stands for a request to a service.
    """
    sink = _state.sink()
    return _SILENT if sink is None else Span(sink, name, attributes, metric=metric, is_request=is_request)


def traced(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Give each call of a stage a span of the function's name."""
    name = function.__name__.lstrip("_")

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with span(name):
            return await function(*args, **kwargs)

    return call
