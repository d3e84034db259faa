"""``python -m hitl.ext.otel.exporter``: sends what forked workers tell. See ``hitl.ext.otel.relay``.

Standard input is the socket. Its end, when the last of them is gone, is the end of this process, after what is left
has been sent; not a signal, for those that are sent to all of a server's processes say that its workers end first.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
from typing import Any, Final

from hitl.ext.otel.relay import LARGEST, span_from_wire
from hitl.ext.otel.sinks import Exported

_LAST_SECONDS: Final = 30.0
"""How long it may take to send what is left, where the receiver is slow or away."""


def main() -> int:
    """Until the end of standard input."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # What cannot be sent is said on standard error, which is the server's log.
    logging.basicConfig(level=logging.WARNING, format="hitl telemetry: %(message)s")
    heard = socket.socket(fileno=os.dup(0))
    exported = Exported()
    while datagram := heard.recv(LARGEST):
        try:
            _take(exported, json.loads(datagram))
        except (ValueError, KeyError, TypeError) as error:
            logging.getLogger("hitl.otel").warning("a datagram was dropped: %s", type(error).__name__)
    closing = threading.Thread(target=exported.close, daemon=True)
    closing.start()
    closing.join(_LAST_SECONDS)
    with contextlib.suppress(OSError):  # whoever read it is gone
        sys.stdout.flush()
    os._exit(0)  # exit handlers would wait for the receiver once more


def _take(exported: Exported, told: dict[str, Any]) -> None:
    kind = told.pop("is")
    if kind == "span":
        if exported.spans is not None:
            exported.spans.on_end(span_from_wire(told, exported.resource))
    elif kind == "value":
        exported.histograms.record(told["name"], told["value"], told["attributes"])
    else:
        exported.log(told)


if __name__ == "__main__":
    sys.exit(main())
