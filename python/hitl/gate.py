"""The old path of `hitl.tools.gate`, for one version; its public names are `hitl`'s."""

from __future__ import annotations

import warnings

from hitl.tools.gate import approval as approval
from hitl.tools.gate import requires_approval as requires_approval

warnings.warn(
    "hitl.gate is hitl.tools.gate now: import its public names from hitl",
    DeprecationWarning,
    stacklevel=2,
)
