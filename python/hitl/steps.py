"""The old path of `hitl.turn.steps`, for one version; its public names are `hitl`'s."""

from __future__ import annotations

import warnings

from hitl.turn.steps import now as now
from hitl.turn.steps import patched as patched
from hitl.turn.steps import random as random
from hitl.turn.steps import step as step
from hitl.turn.steps import uuid as uuid

warnings.warn(
    "hitl.steps is hitl.turn.steps now: import its public names from hitl",
    DeprecationWarning,
    stacklevel=2,
)
