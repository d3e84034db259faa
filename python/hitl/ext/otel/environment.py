"""What the standard environment (``OTEL_...``) says of where telemetry goes.

Endpoints, headers, certificates, time-outs, batches and samplers are read by OpenTelemetry's own classes; which of
these there are to be is read here.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal

from hitl.errors import HitlError

Signal = Literal["traces", "metrics", "logs"]

_SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics", "logs")
_EXPORTERS: Final = ("otlp", "console", "none")
_PROTOCOLS: Final = {"http/protobuf": "http", "grpc": "grpc"}
"""By what ``OTEL_EXPORTER_OTLP_PROTOCOL`` says: the part of the exporters' packages that speaks it."""
_DEFAULT_PROTOCOL: Final = "http/protobuf"
_OTLP: Final[dict[Signal, tuple[str, str]]] = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
    "logs": ("_log_exporter", "OTLPLogExporter"),
}
_CONSOLE: Final[dict[Signal, tuple[str, str]]] = {
    "traces": ("opentelemetry.sdk.trace.export", "ConsoleSpanExporter"),
    "metrics": ("opentelemetry.sdk.metrics.export", "ConsoleMetricExporter"),
    "logs": ("opentelemetry.sdk._logs.export", "ConsoleLogRecordExporter"),
}
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class TelemetryNotConfigured(HitlError):
    """Telemetry was asked for and cannot be sent: packages are missing, or the environment says what nobody knows."""

    code = "telemetry_not_configured"


def is_disabled() -> bool:
    """Whether ``OTEL_SDK_DISABLED`` says that there is to be none."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def captures_content() -> bool:
    """Whether prompts, replies, arguments and results are to be in spans."""
    return os.environ.get(_CONTENT, "").strip().lower() == "true"


def check() -> None:
    """Raise ``TelemetryNotConfigured`` where nothing could be sent. Imports nothing but packages' parents."""
    for signal in _SIGNALS:
        exporter = exporter_of(signal)
        module = "opentelemetry.sdk.trace" if exporter != "otlp" else _otlp_module(signal)
        try:
            is_there = find_spec(module) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            raise TelemetryNotConfigured(
                f"telemetry needs {module.rpartition('.')[0]}, which is not installed\n\n"
                "hint: pip install 'hitl-runtime[otel]'"
            )


def exporter_of(signal: Signal) -> str:
    """``otlp``, ``console`` or ``none``."""
    name = f"OTEL_{signal.upper()}_EXPORTER"
    said = os.environ.get(name, "").strip().lower() or "otlp"
    if said not in _EXPORTERS:
        raise TelemetryNotConfigured(f"{name} is {said!r}\n\nhint: one of {', '.join(_EXPORTERS)}")
    return said


def make_exporter(signal: Signal) -> Any:
    """The exporter of a signal; None where there is to be none."""
    said = exporter_of(signal)
    if said == "none":
        return None
    if said == "console":
        module, name = _CONSOLE[signal]
    else:
        module, name = _otlp_module(signal), _OTLP[signal][1]
    return getattr(import_module(module), name)()


def _otlp_module(signal: Signal) -> str:
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"
    name = own if os.environ.get(own, "").strip() else "OTEL_EXPORTER_OTLP_PROTOCOL"
    said = os.environ.get(name, "").strip().lower() or _DEFAULT_PROTOCOL
    if said not in _PROTOCOLS:
        raise TelemetryNotConfigured(f"{name} is {said!r}\n\nhint: one of {', '.join(_PROTOCOLS)}")
    return f"opentelemetry.exporter.otlp.proto.{_PROTOCOLS[said]}.{_OTLP[signal][0]}"
