"""A receiver of OTLP in the test's own process, over HTTP or gRPC: what it was sent, decoded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

_SERVICES: dict[str, tuple[type[Message], type[Message]]] = {
    "traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
    "logs": (ExportLogsServiceRequest, ExportLogsServiceResponse),
}
_METHODS = {
    f"/opentelemetry.proto.collector.{name}.v1.{service}/Export": signal
    for signal, name, service in (
        ("traces", "trace", "TraceService"),
        ("metrics", "metrics", "MetricsService"),
        ("logs", "logs", "LogsService"),
    )
}


@dataclass(frozen=True)
class SpanSeen:
    """A span, ids as hexadecimal digits, times in nanoseconds."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    start: int
    end: int
    is_error: bool
    attributes: dict[str, Any]
    scope: str


@dataclass(frozen=True)
class LogSeen:
    """A log record."""

    text: str
    level: str
    trace: str
    span: str


class OtlpReceiver:
    """What came so far. `environment` sends a process's telemetry here, at once."""

    def __init__(self, protocol: str = "http/protobuf") -> None:
        self._protocol = protocol
        self._changed = threading.Condition()
        self.spans: list[SpanSeen] = []
        self.logs: list[LogSeen] = []
        self.metrics: dict[str, list[dict[str, Any]]] = {}
        """The latest points of each histogram: `count`, `sum`, `attributes`."""
        self.resources: list[dict[str, Any]] = []
        self.url = ""

    @property
    def environment(self) -> dict[str, str]:
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": self._protocol,
            "OTEL_EXPORTER_OTLP_INSECURE": "true",
            "OTEL_BSP_SCHEDULE_DELAY": "20",
            "OTEL_BLRP_SCHEDULE_DELAY": "20",
            "OTEL_METRIC_EXPORT_INTERVAL": "100",
        }

    @contextmanager
    def serving(self) -> Iterator[Self]:
        with self._grpc() if self._protocol == "grpc" else self._http():
            yield self

    def wait_for(self, seen: Callable[[Self], bool], what: str, timeout: float = 60.0) -> None:
        """Until that is so."""
        with self._changed:
            is_so = self._changed.wait_for(lambda: seen(self), timeout)
            assert is_so, f"no {what}; got {sorted(span.name for span in self.spans)}, {sorted(self.metrics)}"

    def wait_for_spans(self, count: int, trace: str | None = None) -> list[SpanSeen]:
        """The spans, of one trace, once there are so many."""
        self.wait_for(lambda it: len(it.of(trace)) >= count, f"{count} spans")
        return self.of(trace)

    def of(self, trace: str | None) -> list[SpanSeen]:
        return [span for span in self.spans if trace is None or span.trace == trace]

    def take(self, signal: str, body: bytes) -> bytes:
        request, response = _SERVICES[signal]
        message: Any = request()
        message.ParseFromString(body)
        with self._changed:
            getattr(self, f"_{signal}")(message)
            self._changed.notify_all()
        return response().SerializeToString()

    def _traces(self, message: Any) -> None:
        for resource in message.resource_spans:
            self.resources.append(_attributes(resource.resource.attributes))
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        SpanSeen(
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.kind,
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                            span.status.code == 2,
                            _attributes(span.attributes),
                            scope.scope.name,
                        )
                    )

    def _logs(self, message: Any) -> None:
        for resource in message.resource_logs:
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    self.logs.append(
                        LogSeen(
                            record.body.string_value,
                            record.severity_text,
                            record.trace_id.hex(),
                            record.span_id.hex(),
                        )
                    )

    def _metrics(self, message: Any) -> None:
        for resource in message.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self.metrics[metric.name] = [
                        {"count": point.count, "sum": point.sum, "attributes": _attributes(point.attributes)}
                        for point in metric.histogram.data_points
                    ]

    @contextmanager
    def _http(self) -> Iterator[None]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                reply = receiver.take(self.path.rpartition("/")[2], body)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    @contextmanager
    def _grpc(self) -> Iterator[None]:
        import grpc  # here, for most tests need none of it

        receiver = self

        class Export(grpc.GenericRpcHandler):  # type: ignore[misc,unused-ignore]
            def service(self, details: Any) -> Any:
                signal = _METHODS.get(details.method)
                if signal is None:
                    return None
                return grpc.unary_unary_rpc_method_handler(lambda body, context: receiver.take(signal, body))

        server = grpc.server(ThreadPoolExecutor(2), handlers=(Export(),))
        self.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield
        finally:
            server.stop(0).wait()


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return None if kind is None else getattr(value, kind)
