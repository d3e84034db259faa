"""`HumanInTheLoopMiddleware`: which tools of an agent wait for a person, in their words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Literal

from hitl.agents.seams import ToolCallRequest, current_run
from hitl.decisions import ApprovalRequest as Asked
from hitl.decisions import Decision
from hitl.middleware.base import AgentMiddleware
from hitl.middleware.configuration import (
    InterruptOnConfig,
    ParsedInterruptConfig,
    read_interrupt_on,
)
from hitl.middleware.resuming import ApprovalDecision, DecisionInput, ResumeData, read_decision
from hitl.middleware.shapes import ApprovalRequest, read_tool_call
from hitl.tools.context import RunContext
from hitl.tools.definition import Tool
from hitl.tools.definition import tool as changed
from hitl.tools.invoking import invoke
from hitl.turn.runtime import current_turn

InterruptMode = Literal["batched", "per_call"]

_resume_data: ContextVar[tuple[HumanInTheLoopMiddleware, list[ResumeData]] | None] = ContextVar(
    "hitl_middleware_resume_data", default=None
)
"""What `set_resume_data` was given in this task or thread. A list, empty once it was taken, so that it is taken once in
all the tasks that were started since: an old yes must not answer a new question."""


class HumanInTheLoopMiddleware(AgentMiddleware):
    """Lets calls of the named tools wait for a person.

    Each such call is a hitl interrupt like that of `@tool(requires_approval=True)`, wherever the agent runs: input
    guardrails, rules, sticky decisions and the inbox work as for any other. It makes tools stricter, never laxer: one
    that needs approval by itself still does, whatever `interrupt_on` says.

    Example:
        gate = HumanInTheLoopMiddleware(interrupt_on={"delete_file": {"allowed_decisions": ["approve", "reject"]}})
        agent = ToolCallAgent(tools=[delete_file], middleware=[gate])
    """

    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig],
        approval_callback: Callable[[ApprovalRequest], Any] | None = None,
        interrupt_mode: InterruptMode = "batched",
        *,
        description_prefix: str | None = None,
    ) -> None:
        """
        Args:
            interrupt_on: For each tool `True`, `False`, or an `InterruptOnConfig`. A tool that is not named runs; a
                name that is no tool of its agent is a `ValueError` when the agent is made where it is much like the
                name of a tool that is not gated, or where no name is one; else it is logged.
            approval_callback: `(ApprovalRequest) -> ApprovalDecision | DecisionInput | dict | None`, sync (in a
                thread) or async: decides in a person's place. None, or raising, or anything else: a person is asked.
            interrupt_mode: How `ToolCallAgent` shows what waits: all calls as one interrupt, decided together
                ("batched"), or each as its own, decided by id ("per_call").
            description_prefix: Said to the person, with the tool and its arguments, where a tool has no description.

        Raises `TypeError` or `ValueError` for a configuration that cannot be meant.
        """
        if interrupt_mode not in ("batched", "per_call"):
            raise ValueError(f'interrupt_mode is "batched" or "per_call", got {interrupt_mode!r}')
        if approval_callback is not None and not callable(approval_callback):
            raise TypeError(f"approval_callback must be callable, got {approval_callback!r}")
        self.tool_configs: dict[str, ParsedInterruptConfig] = read_interrupt_on(interrupt_on)
        self.interrupt_on = dict(interrupt_on)
        self.approval_callback = approval_callback
        self.interrupt_mode = interrupt_mode
        self.description_prefix = description_prefix

    @property
    def gated_tools(self) -> Collection[str]:
        """The names of the tools that wait."""
        return self.tool_configs.keys()

    def wrap_tools(self, tools: tuple[Tool[..., Any], ...]) -> tuple[Tool[..., Any], ...]:
        """The tools, those that `interrupt_on` names gated. What was given is not changed."""
        return tuple(self._gated(tool) for tool in tools)

    def get_interrupt_config(self, tool_name: str) -> dict[str, Any] | None:
        """`{"allowed_decisions": [...]}` as they were configured; None where the middleware asks for no approval."""
        config = self.tool_configs.get(tool_name)
        return None if config is None else {"allowed_decisions": [kind.value for kind in config.allowed_decisions]}

    def set_resume_data(self, resume: Mapping[str, Any]) -> None:
        """Keep `{"decisions": [...]}` for the next `agent.invoke(None, config)` of this task or thread.

        `InvalidAnswer` for what holds no decisions. `Command(resume=...)` says the same in one call.
        """
        _resume_data.set((self, [ResumeData.from_dict(resume)]))

    def take_resume_data(self) -> ResumeData | None:
        """What `set_resume_data` kept, once."""
        middleware, kept = _resume_data.get() or (None, [])
        return kept.pop() if middleware is self and kept else None

    def _gated(self, tool: Tool[..., Any]) -> Tool[..., Any]:
        config = self.tool_configs.get(tool.name)
        if config is None:
            return tool
        changes: dict[str, Any] = {"requires_approval": self._policy(tool, config)}
        # Without decisions of its own, a configuration does not allow what the tool's author did not.
        if tool.requires_approval is False or _lists_decisions(self.interrupt_on[tool.name]):
            changes["allowed_decisions"] = [kind.value for kind in config.allowed_decisions]
        description = self._description(tool, config)
        if description is not None:
            changes["approval_description"] = description
        if self.approval_callback is not None:
            changes["on_approval"] = self._on_approval(tool)
        gated: Tool[..., Any] = changed(tool, **changes)
        return gated

    def _policy(self, tool: Tool[..., Any], config: ParsedInterruptConfig) -> Any:
        """Whether a call waits: if the tool says so, or its configuration. What raises is a yes, and hitl logs it."""
        when, own = config.when, tool.requires_approval
        if when is None or own is True:
            return True

        async def waits(context: RunContext[Any], args: dict[str, Any]) -> Any:
            if callable(own) and (await _call(own, context, args)) is not False:
                return True
            return await _call(when, _call_request(tool, context, args))

        return waits

    def _description(self, tool: Tool[..., Any], config: ParsedInterruptConfig) -> Any:
        describe, prefix = config.description, self.description_prefix
        if callable(describe):

            def say(context: RunContext[Any], args: dict[str, Any]) -> Any:
                request = _call_request(tool, context, args)
                return describe(request.tool_call, request.state, request.runtime)

            return say
        if describe is None and prefix is not None and tool.approval_description is None:
            return lambda context, args: f"{prefix}\n\nTool: {tool.name}\nArgs: {args}"
        return describe

    def _on_approval(self, tool: Tool[..., Any]) -> Any:
        """The callback as a decision in code; the tool's own comes first."""
        own, callback = tool.on_approval, self.approval_callback
        assert callback is not None

        async def decide(asked: Asked) -> Decision | None:
            said: Decision | None = None if own is None else await _call(own, asked)
            if said is not None:
                return said
            request = ApprovalRequest(asked.tool_name, asked.tool_args, asked.tool_call_id, asked.description)
            return _as_decision(await _call(callback, request))

        return decide


def create_hitl_middleware(
    *tool_names: str, allowed_decisions: Iterable[str] | None = None
) -> HumanInTheLoopMiddleware:
    """A middleware that lets calls of these tools wait, each with the same `allowed_decisions`.

    Example:
        agent = ReActAgent(tools=[delete_file], middleware=[create_hitl_middleware("delete_file")])
    """
    config: Any = True if allowed_decisions is None else {"allowed_decisions": list(allowed_decisions)}
    return HumanInTheLoopMiddleware(dict.fromkeys(tool_names, config))


def format_tool_call_description(tool_call: Any, state: dict[str, Any], runtime: Any) -> str:
    """`delete_file(path='/tmp/x')`: a description that any tool may have. `tool_call`: a dict or an object.

    Example:
        gate = HumanInTheLoopMiddleware({"delete_file": {"description": format_tool_call_description}})
    """
    name, args, _ = read_tool_call(tool_call)
    return f"{name}({', '.join(f'{argument}={value!r}' for argument, value in args.items())})"


def _lists_decisions(config: bool | InterruptOnConfig) -> bool:
    return not isinstance(config, bool) and config.get("allowed_decisions") is not None


def _call_request(tool: Tool[..., Any], context: RunContext[Any], args: dict[str, Any]) -> ToolCallRequest:
    run = current_run()
    call = {"name": tool.name, "args": args, "id": context.tool_call_id, "type": "tool_call"}
    state = {"messages": []} if run is None else run.state
    return ToolCallRequest(call, tool, state, None if run is None else run.runtime)


async def _call(function: Callable[..., Any], *args: Any) -> Any:
    return await invoke(current_turn("approval"), function, *args)


def _as_decision(said: Any) -> Decision | None:
    """What a callback said, as ours. `TypeError` or `InvalidAnswer` for what is no decision: a person is asked then."""
    if said is None or isinstance(said, Decision):
        return said
    if isinstance(said, str):
        said = ApprovalDecision(said)
        if said not in (ApprovalDecision.APPROVE, ApprovalDecision.REJECT):
            raise TypeError(f"a callback that decides to {said.value} returns DecisionInput({said.value!r}, ...)")
        said = DecisionInput(said.value)
    if not isinstance(said, DecisionInput | Mapping):
        raise TypeError(f"a callback returns an ApprovalDecision, a DecisionInput or None, got {type(said).__name__}")
    decision = read_decision(said)
    if decision.type == "approve":
        return Decision.approve(always=decision.always)
    if decision.type == "edit":
        return Decision.edit(decision.args or {})
    if decision.type == "reject":
        return Decision.reject(decision.reason, decision.message, decision.always)
    return Decision.respond(decision.message)
