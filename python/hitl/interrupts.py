"""The old path of `hitl.turn.interrupts`, for one version; its public names are `hitl`'s."""

from __future__ import annotations

import warnings

from hitl.turn.interrupts import interrupt as interrupt

warnings.warn(
    "hitl.interrupts is hitl.turn.interrupts now: import its public names from hitl",
    DeprecationWarning,
    stacklevel=2,
)
