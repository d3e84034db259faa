"""What is logged in turns, by ``logging``, as OTLP logs: each in the trace, and the span, that it was logged in."""

from __future__ import annotations

import functools
import logging
from typing import Final

from opentelemetry import trace

from hitl.ext.otel.sinks import Sink, is_repeated

_OURS_TO_LEAVE: Final = ("opentelemetry", "hitl.otel", "urllib3", "grpc")
"""Loggers of those who send: what one of them says of a receiver that is away would have to be sent to it."""

_SEVERITIES: Final = ((50, 21), (40, 17), (30, 13), (20, 9), (10, 5))
"""From which level on a record has which number of OpenTelemetry's."""
_LEAST_SEVERITY: Final = 1


class TurnLogs(logging.Handler):
    """Hands records to a sink. A replay logs again what was logged: that is left out.

    It is no handler of a logger: where the root has one, ``basicConfig`` does nothing, and what nobody else handles is
    not on standard error any more.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def install(self) -> None:
        """Get every record that loggers let through, besides their handlers."""
        logs, pass_on = self, logging.Logger.callHandlers

        @functools.wraps(pass_on)
        def call_handlers(self: logging.Logger, record: logging.LogRecord) -> None:
            pass_on(self, record)
            logs.handle(record)

        logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign]

    def remove(self) -> None:
        """Get none any more."""
        self.addFilter(lambda record: False)  # others may have wrapped the method since: it stays

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in _OURS_TO_LEAVE or record.name in _OURS_TO_LEAVE or is_repeated():
            return
        try:
            context = trace.get_current_span().get_span_context()
            attributes: dict[str, str | int] = {
                "logger.name": record.name,
                "code.file.path": record.pathname,
                "code.line.number": record.lineno,
                "code.function.name": record.funcName,
            }
            if record.exc_info is not None and record.exc_info[0] is not None:
                attributes["exception.type"] = record.exc_info[0].__name__
            self._sink.log(
                {
                    "created": record.created,
                    "level": record.levelname,
                    "severity": next((n for level, n in _SEVERITIES if record.levelno >= level), _LEAST_SEVERITY),
                    "text": record.getMessage(),
                    "attributes": attributes,
                    "trace": context.trace_id,
                    "span": context.span_id,
                    "flags": int(context.trace_flags),
                }
            )
        except Exception:  # noqa: BLE001 - as the handlers of the standard library do it
            self.handleError(record)
