"""The old path of `hitl.tools.asking`, for one version; its public names are `hitl`'s."""

from __future__ import annotations

import warnings

from hitl.tools.asking import ApprovalMismatch as ApprovalMismatch

warnings.warn(
    "hitl.asking is hitl.tools.asking now: import its public names from hitl",
    DeprecationWarning,
    stacklevel=2,
)
