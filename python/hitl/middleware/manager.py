"""`HITLManager`: the bookkeeping of a batch, for loops of your own. hitl's agents never use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hitl.errors import InvalidAnswer, NothingPending
from hitl.middleware.configuration import InterruptOnConfig, ParsedInterruptConfig, read_interrupt_on
from hitl.middleware.resuming import DecisionInput, ResumeData, read_decision
from hitl.middleware.shapes import ActionRequest, InterruptInfo, InterruptValue, ReviewConfig, read_tool_call


class HITLManager:
    """Collects the calls that wait, shows them as one interrupt, and applies the decisions.

    It stores nothing and runs nothing, so none of hitl's promises hold for a loop that is built on it: a loop that
    should survive a restart uses `hitl.approval`. Tool calls are dicts or objects, of LangChain's or of the
    chat-completions shape; what is returned has the shape that was given.

    Example:
        manager = HITLManager({"delete_file": True})
        print(manager.interrupt_on)
    """

    def __init__(self, interrupt_on: Mapping[str, bool | InterruptOnConfig]) -> None:
        """`interrupt_on`: see `HumanInTheLoopMiddleware`."""
        self.tool_configs = read_interrupt_on(interrupt_on)
        self.interrupt_on = dict(interrupt_on)
        self._pending: list[tuple[ActionRequest, ReviewConfig]] = []

    def should_interrupt(self, tool_name: str) -> bool:
        """Whether calls of the tool wait for a person. A `when` of the tool is not asked: it looks at calls."""
        return tool_name in self.tool_configs

    def get_config(self, tool_name: str) -> ParsedInterruptConfig | None:
        """What `interrupt_on` says of the tool; None where its calls do not wait."""
        return self.tool_configs.get(tool_name)

    def add_pending_action(self, tool_call: Any, state: dict[str, Any], runtime: Any) -> None:
        """Let a call wait. One of a tool that needs no approval is left out."""
        name, args, call_id = read_tool_call(tool_call)
        config = self.get_config(name)
        if config is None:
            return
        shown = {"name": name, "args": args, "id": call_id, "type": "tool_call"}
        description = config.get_description(shown, state, runtime)
        allowed = [kind.value for kind in config.allowed_decisions]
        schema = config.args_schema if "edit" in allowed else None
        action = ActionRequest(name, args, call_id, description)
        self._pending.append((action, ReviewConfig(name, call_id, allowed, description, schema)))

    def has_pending_actions(self) -> bool:
        """Whether a call waits."""
        return bool(self._pending)

    def create_interrupt(self) -> InterruptInfo:
        """Everything that waits, as one interrupt with an id of its own. `NothingPending` where nothing does."""
        if not self._pending:
            raise NothingPending("no tool call waits for a decision")
        actions, reviews = zip(*self._pending, strict=True)
        return InterruptInfo(InterruptValue([*actions], [*reviews]))

    def clear_pending(self) -> None:
        """Forget what waits."""
        self._pending.clear()

    def apply_decisions(
        self, decisions: Sequence[DecisionInput | Mapping[str, Any]], tool_calls: Sequence[Any]
    ) -> list[Any]:
        """The calls that may run: edits applied, those that were rejected or responded to left out.

        Decisions go by position over the calls of tools that need approval; other calls need none and stay. Raises
        `InvalidAnswer` for another number of decisions, and for one that is not allowed; nothing is applied then.
        """
        configs = [self.get_config(read_tool_call(call)[0]) for call in tool_calls]
        given = [read_decision(decision) for decision in decisions]
        left = iter(ResumeData(given).one_for_each(sum(config is not None for config in configs)))
        applied: list[Any] = []
        for call, config in zip(tool_calls, configs, strict=True):
            decision = None if config is None else next(left)
            if config is None or decision is None:
                applied.append(call)
                continue
            _check_allowed(decision, config, read_tool_call(call)[0])
            if decision.type == "approve":
                applied.append(call)
            elif decision.type == "edit":
                applied.append(_with_args(call, decision.args or {}))
        return applied


def _check_allowed(decision: DecisionInput, config: ParsedInterruptConfig, tool_name: str) -> None:
    allowed = [kind.value for kind in config.allowed_decisions]
    if decision.type not in allowed:
        raise InvalidAnswer(f"{tool_name}: {decision.type} is not allowed; allowed: {', '.join(allowed)}")
    if decision.name is not None and decision.name != tool_name:
        raise InvalidAnswer(f"{tool_name}: an edit cannot make it a call of {decision.name}")


def _with_args(call: Any, args: dict[str, Any]) -> Any:
    """The call with other arguments, in its own shape; the given one stays as it is."""
    import copy
    import json

    function = call.get("function") if isinstance(call, Mapping) else getattr(call, "function", None)
    if function is None:
        return _changed(copy.copy(call), "args", args)
    return _changed(copy.copy(call), "function", _changed(copy.copy(function), "arguments", json.dumps(args)))


def _changed(made: Any, name: str, value: Any) -> Any:
    if isinstance(made, Mapping):
        return {**made, name: value}
    setattr(made, name, value)
    return made
