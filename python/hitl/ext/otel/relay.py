"""From workers that are forked for a turn to the one process that exports for all of them.

Exporters have threads and connections, which a fork loses; a worker ends with its turn, or is killed when that waits
for a person; and what each of a thousand processes counts for itself nobody can add up. So these workers export
nothing. What they tell goes, one datagram a thing, into a socket: there it is safe whatever becomes of them, and the
process at its other end (``hitl.ext.otel.exporter``) sends it, until nobody is left who could tell it anything.

A socket that is full takes nothing more: telemetry is dropped, no turn waits.
"""

from __future__ import annotations

import json
import logging
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from hitl.ext.otel import environment
from hitl.ext.otel.sinks import Attributes, make_provider

LARGEST: Final = 1024 * 1024
"""Bytes of a datagram."""

_MOST_TEXT: Final = 50_000
"""Characters in the attributes of a span that fits into a datagram, also where each takes four bytes."""
_BEGINNING: Final = 8192
"""How much of each is kept where that is more."""

_MOMENT: Final = 0.02
"""Seconds that a turn may wait for room in the socket."""
_IMPATIENT: Final = 5.0
"""Seconds for which nothing is waited for after that was in vain."""

_END_SECONDS: Final = 1.5
"""What the exporting process has for what is left, when there are no more workers."""

logger = logging.getLogger("hitl.otel")


class RelaySink:
    """See the module. Made before the forks, used after them."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
        ours.setblocking(False)
        with theirs:
            # In a group of its own: it outlives those who are killed together.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hitl.ext.otel.exporter"], stdin=theirs.fileno(), process_group=0
            )
        self._socket = ours
        self.takes_logs = environment.exporter_of("logs") != "none"
        has_spans = environment.exporter_of("traces") != "none"
        self.provider = make_provider(None, _Relayed(self) if has_spans else None)
        trace.set_tracer_provider(self.provider)
        self._has_dropped = False
        self._impatient_until = 0.0

    def measure(self, name: str, value: float, attributes: Attributes) -> None:
        self._send({"is": "value", "name": name, "value": value, "attributes": dict(attributes)})

    def log(self, record: Mapping[str, Any]) -> None:
        self._send({"is": "log", **record})

    def span(self, span: ReadableSpan) -> None:
        """A span that has ended."""
        told = span_to_wire(span)
        texts = {name: value for name, value in told["attributes"].items() if isinstance(value, str)}
        if sum(map(len, texts.values())) > _MOST_TEXT:
            told["attributes"] |= {name: text[:_BEGINNING] for name, text in texts.items()}
        self._send({"is": "span", **told})

    def flush(self) -> None:
        """Nothing is kept here."""

    def close(self) -> None:
        """No more workers are forked. The exporting process ends when the last of them has."""
        self._socket.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.returncode = 0  # it goes on by itself: nobody has to wait for it any more

    def _send(self, told: dict[str, Any]) -> None:
        datagram = json.dumps(told, default=str).encode()
        try:
            try:
                self._socket.send(datagram)
            except BlockingIOError:
                # The other side may only be behind for a moment. One that is stuck is not waited for each time.
                if time.monotonic() < self._impatient_until:
                    raise
                if not select.select([], [self._socket], [], _MOMENT)[1]:
                    self._impatient_until = time.monotonic() + _IMPATIENT
                self._socket.send(datagram)
        except OSError as error:  # full, too large, or nobody reads it any more
            if not self._has_dropped:
                self._has_dropped = True
                logger.warning("telemetry is dropped: %s", type(error).__name__)


class _Relayed(SpanProcessor):
    def __init__(self, sink: RelaySink) -> None:
        self._sink = sink

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._sink.span(span)


def span_to_wire(span: ReadableSpan) -> dict[str, Any]:
    """A span as JSON, its resource aside: that is of the process that exports it."""
    scope = span.instrumentation_scope
    return {
        "name": span.name,
        "context": _context_to_wire(span.context),
        "parent": _context_to_wire(span.parent),
        "kind": span.kind.value,
        "start": span.start_time,
        "end": span.end_time,
        "attributes": dict(span.attributes or {}),
        "status": [span.status.status_code.value, span.status.description],
        "events": [[event.name, event.timestamp, dict(event.attributes or {})] for event in span.events],
        "links": [[_context_to_wire(link.context), dict(link.attributes or {})] for link in span.links],
        "scope": None if scope is None else [scope.name, scope.version, scope.schema_url],
    }


def span_from_wire(told: Mapping[str, Any], resource: Any) -> ReadableSpan:
    """The span again."""
    code, description = told["status"]
    return ReadableSpan(
        told["name"],
        context=_context_from_wire(told["context"]),
        parent=_context_from_wire(told["parent"]),
        resource=resource,
        attributes=told["attributes"],
        events=[Event(name, attributes, at) for name, at, attributes in told["events"]],
        links=[Link(linked, attributes) for made, attributes in told["links"] if (linked := _context_from_wire(made))],
        kind=SpanKind(told["kind"]),
        status=Status(StatusCode(code), description),
        start_time=told["start"],
        end_time=told["end"],
        instrumentation_scope=None if told["scope"] is None else InstrumentationScope(*told["scope"]),
    )


def _context_to_wire(context: SpanContext | None) -> list[Any] | None:
    if context is None:
        return None
    return [
        context.trace_id,
        context.span_id,
        context.is_remote,
        int(context.trace_flags),
        context.trace_state.to_header(),
    ]


def _context_from_wire(made: list[Any] | None) -> SpanContext | None:
    if made is None:
        return None
    trace_id, span_id, is_remote, flags, state = made
    return SpanContext(trace_id, span_id, is_remote, TraceFlags(flags), TraceState.from_header([state]))
