"""The old path of `hitl.tools.schema`, for one version; its public names are `hitl`'s."""

from __future__ import annotations

import warnings

from hitl.tools.schema import InvalidArguments as InvalidArguments

warnings.warn(
    "hitl.tool_schema is hitl.tools.schema now: import its public names from hitl",
    DeprecationWarning,
    stacklevel=2,
)
