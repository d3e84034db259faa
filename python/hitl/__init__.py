"""hitl: Python agents that stop and ask a person, and go on exactly where they stopped.

Names are imported when they are first used, so ``import hitl`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hitl.agents.compaction import Compaction as Compaction
    from hitl.agents.decorator import agent as agent
    from hitl.agents.limits import InvalidOutput as InvalidOutput
    from hitl.agents.limits import MaxStepsExceeded as MaxStepsExceeded
    from hitl.agents.limits import ReplyCutShort as ReplyCutShort
    from hitl.agents.limits import TokenLimitExceeded as TokenLimitExceeded
    from hitl.agents.react import ReActAgent as ReActAgent
    from hitl.agents.seams import AgentRuntime as AgentRuntime
    from hitl.agents.seams import HookCall as HookCall
    from hitl.agents.seams import HookFailed as HookFailed
    from hitl.agents.seams import current_run as current_run
    from hitl.attachments import Attachment as Attachment
    from hitl.decisions import Approval as Approval
    from hitl.decisions import ApprovalRequest as ApprovalRequest
    from hitl.decisions import Decision as Decision
    from hitl.driver.requests import TurnRequest as TurnRequest
    from hitl.driver.shapes import Agent as Agent
    from hitl.errors import AgentLoadError as AgentLoadError
    from hitl.errors import AlreadyResolved as AlreadyResolved
    from hitl.errors import AlreadyResumed as AlreadyResumed
    from hitl.errors import HitlError as HitlError
    from hitl.errors import InterruptCancelled as InterruptCancelled
    from hitl.errors import InterruptExpired as InterruptExpired
    from hitl.errors import InvalidAnswer as InvalidAnswer
    from hitl.errors import InvalidPayload as InvalidPayload
    from hitl.errors import InvalidSchema as InvalidSchema
    from hitl.errors import ModelUnavailable as ModelUnavailable
    from hitl.errors import NothingPending as NothingPending
    from hitl.errors import Parked as Parked
    from hitl.errors import PayloadTooLarge as PayloadTooLarge
    from hitl.errors import PythonUntested as PythonUntested
    from hitl.errors import ReplayMismatch as ReplayMismatch
    from hitl.errors import ReplayTimeout as ReplayTimeout
    from hitl.errors import ResultNotStored as ResultNotStored
    from hitl.errors import RunInterrupted as RunInterrupted
    from hitl.errors import RunStateError as RunStateError
    from hitl.errors import StepError as StepError
    from hitl.errors import StoreError as StoreError
    from hitl.errors import ToolRejected as ToolRejected
    from hitl.errors import TransientError as TransientError
    from hitl.errors import UnknownInterrupt as UnknownInterrupt
    from hitl.errors import UnreadableJournal as UnreadableJournal
    from hitl.errors import WorkerProtocolError as WorkerProtocolError
    from hitl.messages import ChatMessage as ChatMessage
    from hitl.models.provider import ModelNotConfigured as ModelNotConfigured
    from hitl.runs.blocking import SyncRunStream as SyncRunStream
    from hitl.runs.blocking import run_sync as run_sync
    from hitl.runs.blocking import stream_sync as stream_sync
    from hitl.runs.interrupts import Interrupt as Interrupt
    from hitl.runs.results import ErrorResult as ErrorResult
    from hitl.runs.results import IdleResult as IdleResult
    from hitl.runs.results import InterruptedResult as InterruptedResult
    from hitl.runs.results import RunResult as RunResult
    from hitl.runs.running import run as run
    from hitl.runs.states import RunState as RunState
    from hitl.runs.stores import Store as Store
    from hitl.runs.streaming import RunEvent as RunEvent
    from hitl.runs.streaming import RunStream as RunStream
    from hitl.runs.streaming import stream as stream
    from hitl.serving.options import InvalidOption as InvalidOption
    from hitl.serving.options import ServerOptions as ServerOptions
    from hitl.serving.server import ServeError as ServeError
    from hitl.serving.server import Server as Server
    from hitl.serving.server import serve as serve
    from hitl.tools.asking import ApprovalMismatch as ApprovalMismatch
    from hitl.tools.context import RunContext as RunContext
    from hitl.tools.definition import Tool as Tool
    from hitl.tools.definition import tool as tool
    from hitl.tools.gate import approval as approval
    from hitl.tools.gate import requires_approval as requires_approval
    from hitl.tools.mcp import MCPServerError as MCPServerError
    from hitl.tools.mcp import MCPTools as MCPTools
    from hitl.tools.questions import ask_user_question as ask_user_question
    from hitl.tools.schema import InvalidArguments as InvalidArguments
    from hitl.turn.interrupts import interrupt as interrupt
    from hitl.turn.resource_parts import NoSuchResource as NoSuchResource
    from hitl.turn.resource_parts import Resource as Resource
    from hitl.turn.resources import Resources as Resources
    from hitl.turn.resources import ResourceUnavailable as ResourceUnavailable
    from hitl.turn.resources import resources as resources
    from hitl.turn.steps import now as now
    from hitl.turn.steps import patched as patched
    from hitl.turn.steps import random as random
    from hitl.turn.steps import step as step
    from hitl.turn.steps import uuid as uuid

_ERRORS = (
    "AgentLoadError AlreadyResolved AlreadyResumed HitlError InterruptCancelled InterruptExpired InvalidAnswer "
    "InvalidPayload InvalidSchema ModelUnavailable NothingPending Parked PayloadTooLarge PythonUntested ReplayMismatch "
    "ReplayTimeout ResultNotStored RunInterrupted RunStateError StepError StoreError ToolRejected TransientError "
    "UnknownInterrupt UnreadableJournal WorkerProtocolError"
)

# Which module defines a public name. No submodule may be called like one: importing it would hide the name.
_EXPORTS: dict[str, str] = {
    "Agent": "hitl.driver.shapes",
    "AgentRuntime": "hitl.agents.seams",
    "Approval": "hitl.decisions",
    "ApprovalMismatch": "hitl.tools.asking",
    "ApprovalRequest": "hitl.decisions",
    "Attachment": "hitl.attachments",
    "ChatMessage": "hitl.messages",
    "Compaction": "hitl.agents.compaction",
    "Decision": "hitl.decisions",
    "ErrorResult": "hitl.runs.results",
    "HookCall": "hitl.agents.seams",
    "HookFailed": "hitl.agents.seams",
    "Interrupt": "hitl.runs.interrupts",
    "InvalidArguments": "hitl.tools.schema",
    "InvalidOption": "hitl.serving.options",
    "MCPServerError": "hitl.tools.mcp",
    "MCPTools": "hitl.tools.mcp",
    "IdleResult": "hitl.runs.results",
    "InterruptedResult": "hitl.runs.results",
    "InvalidOutput": "hitl.agents.limits",
    "MaxStepsExceeded": "hitl.agents.limits",
    "ModelNotConfigured": "hitl.models.provider",
    "NoSuchResource": "hitl.turn.resource_parts",
    "ReActAgent": "hitl.agents.react",
    "ReplyCutShort": "hitl.agents.limits",
    "Resource": "hitl.turn.resource_parts",
    "ResourceUnavailable": "hitl.turn.resources",
    "Resources": "hitl.turn.resources",
    "RunContext": "hitl.tools.context",
    "RunEvent": "hitl.runs.streaming",
    "RunResult": "hitl.runs.results",
    "RunState": "hitl.runs.states",
    "RunStream": "hitl.runs.streaming",
    "ServeError": "hitl.serving.server",
    "Server": "hitl.serving.server",
    "Store": "hitl.runs.stores",
    "TokenLimitExceeded": "hitl.agents.limits",
    "Tool": "hitl.tools.definition",
    "ServerOptions": "hitl.serving.options",
    "SyncRunStream": "hitl.runs.blocking",
    "TurnRequest": "hitl.driver.requests",
    "agent": "hitl.agents.decorator",
    "approval": "hitl.tools.gate",
    "ask_user_question": "hitl.tools.questions",
    "current_run": "hitl.agents.seams",
    "interrupt": "hitl.turn.interrupts",
    "now": "hitl.turn.steps",
    "patched": "hitl.turn.steps",
    "random": "hitl.turn.steps",
    "requires_approval": "hitl.tools.gate",
    "resources": "hitl.turn.resources",
    "run": "hitl.runs.running",
    "run_sync": "hitl.runs.blocking",
    "serve": "hitl.serving.server",
    "step": "hitl.turn.steps",
    "stream": "hitl.runs.streaming",
    "tool": "hitl.tools.definition",
    "uuid": "hitl.turn.steps",
    "stream_sync": "hitl.runs.blocking",
    **dict.fromkeys(_ERRORS.split(), "hitl.errors"),
}

__all__ = ["__version__", *sorted(_EXPORTS)]  # pyright: ignore[reportUnsupportedDunderAll]


def _get(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'hitl' has no attribute {name!r}")
    try:
        value = getattr(_import_module(module), name)
    except ImportError:
        # A Python that the core was not built for has nothing to import; whoever knows that wants to know the way out.
        from hitl.pythons import require_tested

        require_tested()
        raise
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # A checker that saw it would take every misspelt name for a public one.
    __getattr__ = _get


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
