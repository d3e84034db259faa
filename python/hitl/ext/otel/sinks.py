"""Where telemetry of this process goes: to the exporters of the environment, from here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Protocol

from opentelemetry import metrics, trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import TraceFlags

import hitl
from hitl.ext.otel import environment
from hitl.ext.otel.ids import TurnIds
from hitl.turn.places import place_var
from hitl.turn.runtime import Turn, turn_of

SCOPE: Final = "hitl"
"""The instrumentation scope of all that hitl tells."""

DURATION: Final = "gen_ai.client.operation.duration"
TOKENS: Final = "gen_ai.client.token.usage"
STEP: Final = "hitl.step.duration"
WAIT: Final = "hitl.wait.duration"

_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_HISTOGRAMS: Final[dict[str, tuple[str, str, tuple[float, ...]]]] = {
    DURATION: ("s", "How long a model, or a tool, took.", _SECONDS),
    TOKENS: ("{token}", "Tokens of requests to models and of their replies.", tuple(float(4**n) for n in range(14))),
    STEP: ("s", "How long a step took that is neither a model's nor a tool's.", _SECONDS),
    WAIT: ("s", "How long a question waited for its answer.", (1, 10, 60, 600, 3600, 4 * 3600, 86_400, 7 * 86_400)),
}

Attributes = Mapping[str, Any]


class Sink(Protocol):
    """Takes what is told, and never blocks."""

    provider: TracerProvider

    def measure(self, name: str, value: float, attributes: Attributes) -> None:
        """One value of one of the histograms above."""

    def log(self, record: Mapping[str, Any]) -> None:
        """A log record: ``created`` (seconds), ``level``, ``severity``, ``text``, ``attributes``, and the span that
        it was logged in: ``trace``, ``span``, ``flags``."""

    def flush(self) -> None:
        """Hand over what is left; may block."""


class SpansOnce(SpanProcessor):
    """Keeps spans from a processor that an agent's own code ends in a replay, or because its turn leaves memory: they
    have ended before, or will. Those that a replay would end again are handed on once it would only repeat them."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._processor = processor

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self._processor.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        is_ours = span.instrumentation_scope is not None and span.instrumentation_scope.name == SCOPE
        turn = None if is_ours else _replayed_turn()  # what hitl tells it tells once
        if turn is None:
            self._processor.on_end(span)
        elif not _is_repeated_in(turn):
            turn.order.records.when_past(partial(self._processor.on_end, span))

    def shutdown(self) -> None:
        self._processor.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._processor.force_flush(timeout_millis)


def is_repeated() -> bool:
    """Whether the code that runs here only repeats what has been, or is being taken out of memory."""
    turn = _replayed_turn()
    return turn is not None and _is_repeated_in(turn)


def _replayed_turn() -> Turn | None:
    """The turn whose replay comes by here again, if one does: not by the body of a step, whose outcome it knows."""
    place = place_var.get()
    if place is None or (place.step is not None and not place.step.ordered):
        return None
    return turn_of(place)


def _is_repeated_in(turn: Turn) -> bool:
    return turn.closed or not turn.order.is_live


class Histograms:
    """The histograms of a meter provider."""

    def __init__(self, provider: metrics.MeterProvider) -> None:
        meter = provider.get_meter(SCOPE, hitl.__version__)
        self._made = {
            name: meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)
            for name, (unit, text, bounds) in _HISTOGRAMS.items()
        }

    def record(self, name: str, value: float, attributes: Attributes) -> None:
        self._made[name].record(value, dict(attributes))


class Exported:
    """The exporters of the environment: spans, measurements and logs go to them in batches, by threads of their own."""

    def __init__(self) -> None:
        is_named = os.environ.get("OTEL_SERVICE_NAME", "").strip() or SERVICE_NAME in os.environ.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        )
        resource = self.resource = Resource.create({} if is_named else {SERVICE_NAME: SCOPE})
        spans = environment.make_exporter("traces")
        self.spans: SpanProcessor | None = None if spans is None else BatchSpanProcessor(spans)
        values = environment.make_exporter("metrics")
        readers = [] if values is None else [PeriodicExportingMetricReader(values)]
        self.meter_provider = MeterProvider(readers, resource=resource)
        self.histograms = Histograms(self.meter_provider)
        records = environment.make_exporter("logs")
        self.logger_provider: LoggerProvider | None = None
        if records is not None:
            self.logger_provider = LoggerProvider(resource=resource)
            self.logger_provider.add_log_record_processor(BatchLogRecordProcessor(records))

    def log(self, record: Mapping[str, Any]) -> None:
        """See ``Sink.log``."""
        if self.logger_provider is None:
            return
        at = round(record["created"] * 1e9)
        self.logger_provider.get_logger(SCOPE, hitl.__version__).emit(
            LogRecord(
                timestamp=at,
                observed_timestamp=at,
                trace_id=record["trace"],
                span_id=record["span"],
                trace_flags=TraceFlags(record["flags"]),
                severity_number=SeverityNumber(record["severity"]),
                severity_text=record["level"],
                body=record["text"],
                attributes=record["attributes"],
            )
        )

    def flush(self) -> None:
        """Send what is left; blocks until it is sent, or given up."""
        if self.spans is not None:
            self.spans.force_flush()
        if self.logger_provider is not None:
            self.logger_provider.force_flush()
        self.meter_provider.force_flush()

    def close(self) -> None:
        """Send what is left, and end."""
        if self.spans is not None:
            self.spans.shutdown()
        if self.logger_provider is not None:
            self.logger_provider.shutdown()
        self.meter_provider.shutdown()


class HereSink:
    """A program that has telemetry of its own keeps it, and what hitl tells is told there; any other gets what its
    environment says. ``given``: a tracer provider, and a meter provider or None, that are to be used in any case."""

    def __init__(self, given: tuple[TracerProvider, metrics.MeterProvider | None] | None = None) -> None:
        own, meters = given or (trace.get_tracer_provider(), None)
        self._exported: Exported | None = None
        if isinstance(own, TracerProvider):
            self.provider = own
            self._histograms = Histograms(meters or metrics.get_meter_provider())
            if not isinstance(own.id_generator, TurnIds):
                own.id_generator = TurnIds(own.id_generator)  # type: ignore[assignment]  # inferred from its default
            return
        exported = self._exported = Exported()
        self._histograms = exported.histograms
        self.provider = make_provider(exported.resource, exported.spans)
        trace.set_tracer_provider(self.provider)
        metrics.set_meter_provider(exported.meter_provider)

    @property
    def takes_logs(self) -> bool:
        """Whether logs go where the environment says: a program's own telemetry has its own of that."""
        return self._exported is not None and self._exported.logger_provider is not None

    def measure(self, name: str, value: float, attributes: Attributes) -> None:
        self._histograms.record(name, value, attributes)

    def log(self, record: Mapping[str, Any]) -> None:
        if self._exported is not None:
            self._exported.log(record)

    def flush(self) -> None:
        if self._exported is not None:
            self._exported.flush()
        else:
            self.provider.force_flush()


def make_provider(resource: Resource | None, processor: SpanProcessor | None) -> TracerProvider:
    """A provider whose spans have the ids of their turns, and go to ``processor`` once."""
    provider = TracerProvider(resource=resource, id_generator=TurnIds(RandomIdGenerator()))
    if processor is not None:
        provider.add_span_processor(SpansOnce(processor))
    return provider
