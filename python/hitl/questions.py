"""The old path of `hitl.tools.questions`, for one version; its public names are `hitl`'s."""

from __future__ import annotations

import warnings

from hitl.tools.questions import ask_user_question as ask_user_question

warnings.warn(
    "hitl.questions is hitl.tools.questions now: import its public names from hitl",
    DeprecationWarning,
    stacklevel=2,
)
