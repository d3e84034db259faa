"""The old path of `hitl.tools.mcp`, for one version; its public names are `hitl`'s."""

from __future__ import annotations

import warnings

from hitl.tools.mcp import MCPServerError as MCPServerError
from hitl.tools.mcp import MCPTools as MCPTools

warnings.warn(
    "hitl.mcp_tools is hitl.tools.mcp now: import its public names from hitl",
    DeprecationWarning,
    stacklevel=2,
)
