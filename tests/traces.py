"""A program that listens to what the memory tells OpenTelemetry, with the real SDK, in this process's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jiuwen_memory.integrations.opentelemetry import instrument


@dataclass(frozen=True)
class Heard:
    """What was told so far."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """The spans that ended."""
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans whose names begin so, the earliest first."""
        found = [span for span in self.spans if span.name.startswith(name)]
        return sorted(found, key=lambda span: span.start_time or 0)

    def points(self, metric: str) -> list[HistogramDataPoint]:
        """The points of a histogram so far."""
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for each in scope.metrics
            for point in each.data.data_points
            if each.name == metric and isinstance(point, HistogramDataPoint)
        ]

    def text(self) -> str:
        """Everything that was told, as JSON."""
        data = self.reader.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), data.to_json() if data else ""])


@contextmanager
def hearing(*, include_content: bool = False, plain_user_ids: bool = False) -> Iterator[Heard]:
    """Listen with providers of our own; afterwards the memory goes on by itself, as before."""
    heard = Heard(InMemorySpanExporter(), InMemoryMetricReader())
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(heard.exporter))
    meters = MeterProvider([heard.reader], shutdown_on_exit=False)
    instrument(
        tracer_provider=tracers,
        meter_provider=meters,
        include_content=include_content,
        plain_user_ids=plain_user_ids,
    )
    try:
        yield heard
    finally:
        instrument()
        tracers.shutdown()
        meters.shutdown()


def attribute(told: ReadableSpan | HistogramDataPoint, name: str) -> object:
    """Return an attribute of a span or of a point, or None if it has none of this name."""
    return (told.attributes or {}).get(name)


def number(span: ReadableSpan, name: str) -> int:
    """Return a whole number that a span has as an attribute."""
    value = attribute(span, name)
    assert isinstance(value, int)
    return value


def id_of(span: ReadableSpan) -> int:
    """Return the id of a span."""
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def trace_of(span: ReadableSpan) -> int:
    """Return the id of the trace that a span is part of."""
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def parent_of(span: ReadableSpan) -> int | None:
    """Return the id of the span above, if there is one."""
    return span.parent.span_id if span.parent else None


def lines(spans: Sequence[ReadableSpan], below: int | None = None, *, depth: int = 0) -> Iterator[str]:
    """Yield the tree of a trace as lines, in the order in which things began."""
    level = [span for span in spans if parent_of(span) == below]
    for span in sorted(level, key=lambda span: span.start_time or 0):
        yield "  " * depth + span.name
        yield from lines(spans, id_of(span), depth=depth + 1)


def outline(spans: Sequence[ReadableSpan], below: int | None = None, *, depth: int = 0) -> str:
    """Return the tree of a trace, with what stands beside each other in order of name: work in tasks has no other."""
    level = [span for span in spans if parent_of(span) == below]
    shown = [f"{'  ' * depth}{span.name}\n{outline(spans, id_of(span), depth=depth + 1)}" for span in level]
    return "".join(sorted(shown))
