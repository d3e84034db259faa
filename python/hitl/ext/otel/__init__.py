"""OpenTelemetry for turns: traces that go on over a pause, metrics, and logs. Needs `hitl-runtime[otel]`.

`hitl serve --otel` is all that a server needs; a program that calls `hitl.run` calls `instrument()` once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hitl.driver.flushing import before_exit
from hitl.ext.otel import environment
from hitl.ext.otel.environment import TelemetryNotConfigured as TelemetryNotConfigured
from hitl.turn import watching
from hitl.turn.places import AnyTurn
from hitl.turn.reporting import log_error
from hitl.turn.runtime import Turn
from hitl.turn.watching import TurnWatcher

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider

    from hitl.ext.otel.logs import TurnLogs
    from hitl.ext.otel.relay import RelaySink
    from hitl.ext.otel.spans import Tracing

__all__ = ["TelemetryNotConfigured", "instrument", "uninstrument"]

logger = logging.getLogger("hitl.otel")


def instrument(
    *,
    content: bool | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Trace every turn that this process, and processes that are forked from it, run from now on. Calling it again only
    chooses anew.

    Where it goes is what the standard environment says: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_PROTOCOL`
    (`http/protobuf` or `grpc`), `OTEL_SERVICE_NAME` (`hitl` by default), `OTEL_TRACES_SAMPLER` and so on. A program
    that has set a tracer provider of OpenTelemetry's SDK by the time of its first turn keeps it, and gets hitl's spans
    there.

    content: whether spans hold what was said: prompts, replies, arguments and results of tools. None: only where
    `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`.

    tracer_provider: of OpenTelemetry's SDK; where spans go, whatever else there is. meter_provider: beside it, where
    measurements go; by default the program's.

    Raises `TypeError` for a tracer provider that is none of the SDK's, whose spans could not be given ids;
    `TelemetryNotConfigured` where packages are missing, or the environment names an exporter or a protocol that
    there is not. With `OTEL_SDK_DISABLED=true` nothing happens.

    Example:
        hitl.ext.otel.instrument()
        await hitl.run(agent, "go")
    """
    if content is not None and not isinstance(content, bool):
        raise TypeError(f"instrument(content=) is True, False or None, got {content!r}")
    if environment.is_disabled():
        return
    environment.check()
    if tracer_provider is not None:
        # Late: whoever gives one has imported it.
        from opentelemetry.sdk.trace import TracerProvider

        if not isinstance(tracer_provider, TracerProvider):
            raise TypeError(f"instrument(tracer_provider=) is opentelemetry.sdk.trace's, got {tracer_provider!r}")
    elif meter_provider is not None:
        raise TypeError("instrument(meter_provider=) goes with tracer_provider=")
    uninstrument()
    given = None if tracer_provider is None else (tracer_provider, meter_provider)
    watching.install(_Instrumented(environment.captures_content() if content is None else content, given))


def instrument_for_option() -> None:
    """What `--otel` does: nothing where the program, or the agent's module, has chosen already."""
    if watching.installed() is None:
        instrument()


def uninstrument() -> None:
    """Trace no turn that begins from now on. Those that have begun are traced to their end here."""
    watched = watching.installed()
    watching.install(None)
    if isinstance(watched, _Instrumented) and watched.logs is not None:
        watched.logs.remove()


class _Instrumented:
    """Watches the turns of a process. Nothing of OpenTelemetry is imported, and no thread begins, before the first of
    them, or before the first fork."""

    def __init__(self, content: bool, given: tuple[TracerProvider, MeterProvider | None] | None) -> None:
        self._content = content
        self._given = given
        self.logs: TurnLogs | None = None
        """Who gets what is logged, where somebody does."""
        self._tracing: Tracing | None = None
        self._relay: RelaySink | None = None
        self._has_failed = False

    def watch(self, turn: AnyTurn, journal: list[dict[str, Any]], answered_by: Mapping[str, str]) -> TurnWatcher | None:
        try:
            # Late: a process may be instrumented and run no turn.
            from hitl.ext.otel.spans import TurnSpans

            if self._tracing is None and not self._has_failed:
                self._open_here()
            if self._tracing is None or not isinstance(turn, Turn):
                return None
            return TurnSpans(self._tracing, turn, journal, answered_by)
        except Exception as error:  # noqa: BLE001 - it is logged, with its traceback
            self._has_failed = True  # once is enough: the next turn would have no better luck
            log_error(logger, "turns are not traced", error)
            return None

    def headers(self) -> dict[str, str]:
        if self._tracing is None:
            from opentelemetry.trace import get_current_span  # late, as in `watch`

            if not get_current_span().get_span_context().is_valid:
                return {}
        from opentelemetry import propagate  # late, as in `watch`

        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return carrier

    def before_forks(self) -> None:
        # Late, as in `watch`; before the forks, so that all children share it.
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        from hitl.ext.otel.relay import RelaySink  # late, as they are

        if self._given is not None or isinstance(trace.get_tracer_provider(), TracerProvider):
            return  # the agent's own, which exports as its author wants it
        self._relay = RelaySink()
        self._use(self._relay, self._relay.takes_logs)

    def after_forks(self) -> None:
        if self._relay is not None:
            self._relay.close()

    def _open_here(self) -> None:
        from hitl.ext.otel.sinks import HereSink  # late, as in `watch`

        sink = HereSink(self._given)
        before_exit(sink.flush)
        self._use(sink, sink.takes_logs)

    def _use(self, sink: Any, takes_logs: bool) -> None:
        # Late, as in `watch`.
        import hitl
        from hitl.ext.otel.sinks import SCOPE
        from hitl.ext.otel.spans import Tracing

        if takes_logs:
            from hitl.ext.otel.logs import TurnLogs  # late, as they are

            self.logs = TurnLogs(sink)
            self.logs.install()
        tracer = sink.provider.get_tracer(SCOPE, hitl.__version__)
        self._tracing = Tracing(sink, tracer, sink.provider.sampler, self._content)
