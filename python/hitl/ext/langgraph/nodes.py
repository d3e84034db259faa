"""Each task of a graph as one step of the turn: what a node has written once is what it wrote, in every replay.

LangGraph's own loop runs inside the turn, from its beginning, and is served from the journal: a finished node does not
run again, whatever the ids of its tasks are this time. A node that calls ``interrupt()`` waits where it is, beside its
siblings, and runs again from its top once it is answered, as in LangGraph; but what it has finished by then (steps,
tools, nodes of a graph inside of it) it finds finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from langgraph._internal._constants import (
    CONF,
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_SCRATCHPAD,
    PUSH,
    RESUME,
    RETURN,
)
from langgraph.errors import GraphInterrupt, ParentCommand, is_invalid_resume
from langgraph.prebuilt.tool_node import ToolNode
from langgraph.pregel._algo import LazyAtomicCounter
from langgraph.pregel._retry import _checkpoint_ns_for_parent_command, _should_retry_on
from langgraph.types import Command, PregelExecutableTask, RetryPolicy, _interrupt_id

from hitl.ext.gating import REFUSALS
from hitl.ext.langgraph.asking import answer, waiting_calls
from hitl.ext.langgraph.inside import Approvals, OwnCalls, approvals_of, calling, restart_uuids, tool_of
from hitl.ext.langgraph.wire import from_wire, to_wire
from hitl.ext.versions import reading
from hitl.turn.permits import permit, permitted
from hitl.turn.places import Place, Rerun, place_var
from hitl.turn.reasking import REFUSED
from hitl.turn.runtime import Turn, agent_name, current_turn

T = TypeVar("T")

RunTask = Callable[..., Awaitable[Any]]

_AGENT: Final = "lc_agent_name"

CACHE: Final = "__hitl_cache"
"""The member of a task's config with the cache of its graph."""


async def run_task(
    run: RunTask,
    task: PregelExecutableTask,
    retry_policy: Sequence[Any] | None,
    stream: bool = False,
    configurable: dict[str, Any] | None = None,
) -> Any:
    """``run`` of LangGraph, as a step: sets the task's writes; returns the value of one that was called."""
    turn = current_turn("a node")
    named = (task.config.get("metadata") or {}).get(_AGENT)
    token = agent_name.set(named) if named else None
    try:
        body = _Body(turn, run, task, retry_policy, stream, configurable)
        outcome: dict[str, Any] = await turn.run_step(
            "step", task.name, body, key=_key(task), only_steps=_calls_tools(task)
        )
        approvals_of(turn).update(outcome.get("approved", {}))
    finally:
        if token is not None:
            agent_name.reset(token)
    if "to_parent" in outcome:
        with reading("langgraph"):
            to_parent = from_wire(outcome["to_parent"])
        raise ParentCommand(_addressed(to_parent, task))
    with reading("langgraph"):
        writes = [(channel, from_wire(value)) for channel, value in outcome["writes"]]
    task.writes.clear()
    task.writes.extend(writes)
    return next((value for channel, value in task.writes if channel == RETURN), None)


def _calls_tools(task: PregelExecutableTask) -> bool:
    """Whether calling tools is all that its node does."""
    return isinstance(next(iter(getattr(task.proc, "steps", ())), task.proc), ToolNode)


def _stands_before(task: PregelExecutableTask) -> bool:
    """Whether what its node asks lets something run: middleware of an agent, also around a model or a call of a tool,
    and a node that is run while the model's calls of tools are about to be made. What tools ask, they ask inside."""
    made_by = (task.config.get("metadata") or {}).get(_INTEGRATION)
    if _calls_tools(task) or (made_by == _CREATED and task.name.endswith(_MIDDLEWARE)):
        return True
    return made_by != _CREATED and any(tool_of(call["name"]) is not None for call in waiting_calls(task.input))


_INTEGRATION: Final = "ls_integration"
_CREATED: Final = "langchain_create_agent"
"""What LangChain says in the metadata of an agent's runs."""

_MIDDLEWARE: Final = ("model", ".before_agent", ".before_model", ".after_model")
"""How the names of nodes end in such an agent that have code which stands before something."""


def _key(task: PregelExecutableTask) -> str:
    """Names a task by its node, the super-step, and its number among those that were sent there or called."""
    kind, *rest = task.path
    scratchpad = task.config[CONF][CONFIG_KEY_SCRATCHPAD]
    if kind == PUSH:
        number = rest[1] if isinstance(rest[0], tuple) else rest[0]
        return f"node:{task.name}:{scratchpad.step}:{number}"
    return f"node:{task.name}:{scratchpad.step}"


def _unaddressed(command: Command[Any], task: PregelExecutableTask) -> Command[Any]:
    """A command for the graph around this one, which is named by ids that are others in the next run."""
    return replace(command, graph=Command.PARENT) if command.graph == _parent_of(task) else command


def _addressed(command: Command[Any], task: PregelExecutableTask) -> Command[Any]:
    return replace(command, graph=_parent_of(task)) if command.graph == Command.PARENT else command


def _parent_of(task: PregelExecutableTask) -> str:
    return _checkpoint_ns_for_parent_command(task.config[CONF][CONFIG_KEY_CHECKPOINT_NS])


class _Body:
    """Runs a task until it needs no more answers."""

    def __init__(self, turn: Turn, run: RunTask, task: PregelExecutableTask, *rest: Any) -> None:
        self._turn = turn
        self._run = run
        self._task = task
        self._retry_policy, self._stream, self._configurable = rest

    async def __call__(self) -> dict[str, Any]:
        approvals = Approvals()
        task = self._task
        known = task.config[CONF]

        async def run(made: Any) -> None:
            known[CONFIG_KEY_SCRATCHPAD] = made  # in the task itself: the tasks that it calls count there
            calls = OwnCalls(waiting_calls(task.input))
            policies = [_retrying(policy, calls) for policy in task.retry_policy or self._retry_policy or ()]
            with calling(calls):
                await self._run(replace(task, retry_policy=()), policies, self._stream, self._configurable)

        outcome: dict[str, Any] = {}
        try:
            # What has begun goes on, whatever was put there while it waited.
            writes = await _cached(task) if self._turn.order.is_live else None
            if writes is None:
                with permit() if _stands_before(task) else permitted():
                    await until_answered(self._turn, run, dict(known), task.input, approvals)
                writes = [(channel, value) for channel, value in task.writes if channel != RESUME]
                await _cache(task, writes)
            outcome["writes"] = [[channel, to_wire(value)] for channel, value in writes]
        except ParentCommand as command:
            outcome["to_parent"] = to_wire(_unaddressed(command.args[0], task))
        if approved := approvals.to_json():
            outcome["approved"] = approved
        return outcome


def _retrying(policy: RetryPolicy, calls: OwnCalls) -> RetryPolicy:
    """A policy of LangGraph's that takes no no for what may pass, and lets the next try find what was decided."""

    def retry_on(error: Exception) -> bool:
        if isinstance(error, REFUSALS) or not _should_retry_on(policy, error):
            return False
        calls.try_again()
        return True

    return policy._replace(retry_on=retry_on)


async def _cached(task: PregelExecutableTask) -> list[tuple[str, Any]] | None:
    """What the cache of its graph has for a task; None where there is none, or nothing."""
    cache, key = task.config[CONF].get(CACHE), task.cache_key
    if cache is None or key is None:
        return None
    writes = (await cache.aget([(key.ns, key.key)])).get((key.ns, key.key))
    return None if writes is None else list(writes)


async def _cache(task: PregelExecutableTask, writes: list[tuple[str, Any]]) -> None:
    cache, key = task.config[CONF].get(CACHE), task.cache_key
    if cache is not None and key is not None:
        await cache.aset({(key.ns, key.key): (deque(writes), key.ttl)})


def _with_answers(scratchpad: Any, answers: list[Any]) -> Any:
    """The scratchpad of a task that runs from its top, and whose first interrupts are answered. Graphs that it runs
    inside get names of their own each time, and so begin anew."""
    return replace(
        scratchpad,
        call_counter=LazyAtomicCounter(),
        interrupt_counter=LazyAtomicCounter(),
        resume=list(answers),
        get_null_resume=lambda consume=False: None,
    )


async def until_answered(
    turn: Turn, run: Callable[[Any], Awaitable[T]], known: dict[str, Any], state: Any, approvals: Approvals
) -> T:
    """``run(scratchpad)`` once no interrupt stops it any more; each is asked about here, in the step that runs.

    ``known``: the configurable part of the config that it runs with. ``state``, ``approvals``: see ``answer``.
    """
    answers: list[Any] = []
    outcomes: dict[str, dict[str, Any]] = {}
    refusal, asked, number = "", None, 0
    outer = place_var.get()
    assert outer is not None
    while True:
        number += 1
        restart_uuids(turn)
        made = _with_answers(known[CONFIG_KEY_SCRATCHPAD], answers)
        token = place_var.set(Place(turn, outer.step, Rerun(number, outcomes)))
        try:
            return await run(made)
        except GraphInterrupt as stopped:
            asked, refusal = stopped.args[0][0], ""
            if asked.id != _interrupt_id(known[CONFIG_KEY_CHECKPOINT_NS], len(answers)):
                raise RuntimeError(_BLOCKED) from stopped  # of a graph inside, which nobody would give the answer to
        except Exception as error:
            if asked is None or not is_invalid_resume(error):
                raise
            answers.pop()  # it fits the schema, but not what checks it in Python
            refusal = f"{REFUSED}{_first_line(error)}"
        finally:
            place_var.reset(token)
        answers.append(await answer(turn, asked, len(answers) + 1, state, approvals, refusal))
        approvals_of(turn).update(approvals.to_json())


_BLOCKED: Final = (
    "a graph asked while it blocked the event loop, so that nobody can answer: call it by `await graph.ainvoke(...)`, "
    "or by `graph.invoke(...)` in a plain function"
)


def _first_line(error: Exception) -> str:
    wrong = getattr(error, "errors", None)
    if callable(wrong):
        first = wrong(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "answer"
        return f"{place}: {first['msg']}"
    return str(error)
