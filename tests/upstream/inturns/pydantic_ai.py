"""pydantic-ai: its tests decide themselves, by running an agent again with results for the calls that were put off.

So here a call that waits goes back to the test as pydantic-ai has it, among the ``DeferredToolRequests`` of a run. What
the test then gives as ``deferred_tool_results`` is asked and answered in the turn, before the run goes on with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import Agent, ToolCallPart, _agent_graph
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.tools import DeferredToolRequests, ToolApproved, ToolDenied

from hitl.ext.pydantic_ai import deferred, gate, serving
from hitl.ext.pydantic_ai.durability import UNNAMED, HitlDurability
from hitl.ext.turns import is_in_turn
from hitl.turn.places import place_var
from hitl.turn.runtime import current_turn
from hitl.turn.schedule import is_counted

_iter: Any = Agent.iter
_run_sync: Any = AbstractAgent.run_sync
_ask_until_read = gate.ask_until_read
_process_tool_calls: Any = _agent_graph.process_tool_calls

_said: dict[str, Any] = {}
"""What the test gives for a call, by the id of that."""


async def _left_to_the_test(self: Any, ctx: Any, *, requests: DeferredToolRequests) -> None:
    """Nothing: what was collected is the test's to decide."""


async def _processed(**options: Any) -> Any:
    """What comes of a reply's calls, once the results that a test has given for them are asked for in the turn."""
    if options["tool_call_results"] and is_in_turn():
        manager = options["tool_manager"]
        ctx = replace(manager.ctx, tool_manager=manager)
        options["tool_call_results"] = await _asked(ctx, options["tool_calls"], options["tool_call_results"])
    async with contextlib.aclosing(_process_tool_calls(**options)) as events:
        async for event in events:
            yield event


async def _asked(ctx: Any, calls: list[ToolCallPart], results: dict[str, Any]) -> dict[str, Any]:
    requests = DeferredToolRequests()
    for call in calls:
        given = results.get(call.tool_call_id, "skip")
        if call.tool_name not in ctx.tools or given == "skip":
            continue
        if isinstance(given, ToolApproved | ToolDenied):
            requests.approvals.append(call)
        elif _is_plain(given):
            requests.calls.append(call)
        else:
            continue  # what nobody can say here
        _said[call.tool_call_id] = given
    answered = await deferred.decided(ctx, requests)
    return {**results, **answered.to_tool_call_results()}


def _is_plain(given: Any) -> bool:
    """Whether it is a value for a call, which a person can say, and no more than that."""
    is_value = getattr(given, "return_value", None) is not None
    return is_value and given.content is None and given.metadata is None and given.tools is None


async def _left_open_unless_ruled(
    tool: Any, shown: Any, call_id: str, required: bool, metadata: Any, *rest: Any
) -> Any:
    if required:
        raise ApprovalRequired(metadata=metadata)
    return await _ask_until_read(tool, shown, call_id, required, metadata, *rest)


async def _left_open(tool: Any, shown: Any, call_id: str, metadata: Any, kind: Any = "external") -> Any:
    raise CallDeferred(metadata=metadata, kind=kind)


def _begun(self: Any, *args: Any, capabilities: Sequence[Any] | None = None, **options: Any) -> Any:
    if is_in_turn():
        # Scripted models say all they have to say at once.
        capabilities = [*(capabilities or ()), HitlDurability(name=self.name or UNNAMED, stream=False)]
    return _iter(self, *args, capabilities=capabilities, **options)


def _run_in_turn(self: Any, *args: Any, **options: Any) -> Any:
    if place_var.get() is None or not is_counted():
        return _run_sync(self, *args, **options)
    return current_turn("an agent").run_sync("an agent", lambda: self.run(*args, **options))


@contextlib.contextmanager
def person() -> Iterator[Callable[[Any], Any]]:
    """Whoever answers what a turn asks: the test."""
    _said.clear()
    yield _answer


def _answer(request: Any) -> Any:
    if request["type"] == "unknown_outcome":
        return {"outcome": "not_done"}
    given = _said[request["tool_call_id"]]
    if isinstance(given, ToolDenied):
        return {"type": "reject", "message": given.message}
    if isinstance(given, ToolApproved):
        return {"type": "approve"} if given.override_args is None else {"type": "edit", "args": given.override_args}
    return given.return_value


def install() -> None:
    """Let the adapter ask the test."""
    assert serving is not None
    gate.ask_until_read = _left_open_unless_ruled
    deferred.AskedFirst.handle_deferred_tool_calls = _left_to_the_test  # type: ignore[method-assign]
    gate.put_question = _left_open
    # Results that their tests give need not fit the schemas of their tools, as those that a server takes do.
    gate.schema_reader = lambda *_: None
    _agent_graph.process_tool_calls = _processed  # type: ignore[assignment]
    Agent.iter = _begun  # type: ignore[method-assign]
    AbstractAgent.run_sync = _run_in_turn  # type: ignore[method-assign, assignment]
