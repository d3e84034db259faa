"""The words of LangChain's and SpoonOS's human-in-the-loop middleware, over hitl's own approvals.

`HumanInTheLoopMiddleware` gates tools of any `ReActAgent`; `ToolCallAgent` is one that speaks their way of calling:
`invoke`, `__interrupt__`, `Command(resume=...)`, threads. docs/from-langchain-and-spoon.md says what is what.

>>> from hitl.middleware import Command, HumanInTheLoopMiddleware, ToolCallAgent
"""

from __future__ import annotations

from hitl.agents.seams import AgentRuntime, ToolCallRequest
from hitl.middleware.base import AgentMiddleware, ModelRequest, ModelResponse
from hitl.middleware.configuration import InterruptOnConfig, ParsedInterruptConfig
from hitl.middleware.human_in_the_loop import (
    HumanInTheLoopMiddleware,
    create_hitl_middleware,
    format_tool_call_description,
)
from hitl.middleware.invoking import ToolCallAgent
from hitl.middleware.manager import HITLManager
from hitl.middleware.resuming import ApprovalDecision, Command, DecisionInput, ResumeData
from hitl.middleware.shapes import (
    ActionRequest,
    ApprovalRequest,
    HITLInterrupt,
    InterruptInfo,
    InterruptValue,
    ReviewConfig,
)

__all__ = [
    "ActionRequest",
    "AgentMiddleware",
    "AgentRuntime",
    "ApprovalDecision",
    "ApprovalRequest",
    "Command",
    "DecisionInput",
    "HITLInterrupt",
    "HITLManager",
    "HumanInTheLoopMiddleware",
    "InterruptInfo",
    "InterruptOnConfig",
    "InterruptValue",
    "ModelRequest",
    "ModelResponse",
    "ParsedInterruptConfig",
    "ResumeData",
    "ReviewConfig",
    "ToolCallAgent",
    "ToolCallRequest",
    "create_hitl_middleware",
    "format_tool_call_description",
]
