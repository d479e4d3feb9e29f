"""What OpenTelemetry is told of a memory, and by which providers. Touches a setting of this process.

Nothing of this has to be called: where an SDK's providers are set, spans and metrics go there by themselves.
"""

from __future__ import annotations

from jiuwen_memory.errors import MissingExtraError
from jiuwen_memory.foundation.tracing import TracingSettings, set_tracing

try:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
except ModuleNotFoundError as error:
    raise MissingExtraError(
        'Spans and metrics need OpenTelemetry\'s API, which is not installed: pip install "jiuwen-graph-memory[otel]"'
    ) from error


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    include_content: bool = False,
    plain_user_ids: bool = False,
) -> None:
    """Choose what is told, in the whole process; a second call replaces the first, one without arguments all of it.

    Args:
        tracer_provider, meter_provider: who is told, instead of the providers set for the whole process.
        include_content: questions to the model and its answers become attributes of their spans
            (`gen_ai.input.messages`, `gen_ai.output.messages`). They hold what users said.
        plain_user_ids: users are named by their ids (`enduser.id`), in the log too, instead of by hashes
            (`enduser.pseudo.id`).
    """
    set_tracing(
        TracingSettings(
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            include_content=include_content,
            plain_user_ids=plain_user_ids,
        )
    )


def uninstrument() -> None:
    """Tell OpenTelemetry nothing from now on, until `instrument` is called."""
    set_tracing(TracingSettings(enabled=False))
