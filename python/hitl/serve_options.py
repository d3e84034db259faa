"""The old path of `hitl.serving.options`, for one version; its public names are `hitl`'s."""

from __future__ import annotations

import warnings

from hitl.serving.options import InvalidOption as InvalidOption
from hitl.serving.options import ServerOptions as ServerOptions

warnings.warn(
    "hitl.serve_options is hitl.serving.options now: import its public names from hitl",
    DeprecationWarning,
    stacklevel=2,
)
