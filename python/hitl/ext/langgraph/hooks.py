"""Where LangGraph and LangChain let a turn in. Outside of turns everything is as it was.

A graph that a tool runs, and the model that it asks, are in nobody's list and have no hook that reaches them. So the
places where all of them come by are wrapped, once, when this module is imported.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import types
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import LLMResult
from langchain_core.runnables import Runnable, RunnableParallel
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import Tool as SimpleTool
from langgraph._internal import _future
from langgraph._internal._constants import CONF
from langgraph.constants import START
from langgraph.graph import message as graph_messages
from langgraph.prebuilt.tool_node import ToolNode
from langgraph.pregel import Pregel, _loop, _retry, _runner
from langsmith._internal import _aiter

from hitl.ext.langgraph import tracing
from hitl.ext.langgraph.futures import CALLER, call_in_thread
from hitl.ext.langgraph.inside import OwnCalls, calling, next_uuid, own_calls
from hitl.ext.langgraph.models import ask_model, ask_model_in_thread, is_asking
from hitl.ext.langgraph.nodes import CACHE, run_task
from hitl.ext.langgraph.streamed import in_one_piece, tells_events
from hitl.ext.langgraph.timeouts import run_timed, watch_idle, watch_run
from hitl.ext.langgraph.tools import RUNS, call_tool, judge_own_call
from hitl.ext.turns import check_rules_reach, is_in_thread, is_in_turn, let_the_loop_run
from hitl.turn.runtime import call_blocking, current_turn


def _original(owner: Any, name: str) -> Any:
    """What is wrapped; an ImportError, which says so, in a version that does not have it."""
    found = getattr(owner, name, None)
    if found is None:
        raise ImportError(f"{owner.__name__} has no {name}")
    return found


def _wrap_nodes() -> None:
    run = _original(_runner, "arun_with_retry")

    @functools.wraps(run)
    async def arun_with_retry(task: Any, retry_policy: Any, stream: bool = False, configurable: Any = None) -> Any:
        if not is_in_turn() or task.name == START:  # which takes in what the graph is given, and does nothing else
            with calling(OwnCalls(())):
                return await run(task, retry_policy, stream, configurable)
        return await run_task(run, task, retry_policy, stream, configurable)

    _runner.arun_with_retry = arun_with_retry  # type: ignore[attr-defined]
    run_plain = _original(_runner, "run_with_retry")

    @functools.wraps(run_plain)
    def run_with_retry(*args: Any, **kwargs: Any) -> Any:
        with calling(OwnCalls(())):
            return run_plain(*args, **kwargs)

    _runner.run_with_retry = run_with_retry  # type: ignore[attr-defined]


def _wrap_calls_of_tasks() -> None:
    """A plain function that waits for a task waits for the turn."""
    acall = _original(_runner, "_acall")

    @functools.wraps(acall)
    def acall_(*args: Any, loop: asyncio.AbstractEventLoop, **kwargs: Any) -> Any:
        call = functools.partial(acall, *args, loop=loop, **kwargs)
        if not is_in_thread() or current_turn(CALLER).loop is not loop:
            return call()
        return call_in_thread(call)

    _runner._acall = acall_


def _wrap_timeouts() -> None:
    run, watch = _original(_retry, "_arun_with_timeout"), _original(_retry, "_run_timeout_watchdog")
    scope = _original(_retry, "_TimedAttemptScope")
    watch_idle_ = _original(scope, "wait_for_idle_timeout")

    @functools.wraps(run)
    async def arun_with_timeout(*args: Any, **kwargs: Any) -> Any:
        return await (run_timed(run, *args, **kwargs) if is_in_turn() else run(*args, **kwargs))

    @functools.wraps(watch)
    async def run_timeout_watchdog(seconds: float) -> None:
        await (watch_run(seconds) if is_in_turn() else watch(seconds))

    @functools.wraps(watch_idle_)
    async def wait_for_idle_timeout(self: Any, seconds: float) -> None:
        await (watch_idle(self, seconds) if is_in_turn() else watch_idle_(self, seconds))

    _retry._arun_with_timeout = arun_with_timeout
    _retry._run_timeout_watchdog = run_timeout_watchdog  # type: ignore[assignment]
    scope.wait_for_idle_timeout = wait_for_idle_timeout


def _wrap_caches() -> None:
    """A graph's cache is looked into inside of the step that a node is, and not beside it: whether it has something
    differs from process to process, and from the first run of a turn to its replay."""
    kind = _original(_loop, "AsyncPregelLoop")
    match, put = _original(kind, "amatch_cached_writes"), _original(kind, "put_writes")

    @functools.wraps(match)
    async def amatch_cached_writes(self: Any) -> Any:
        if not is_in_turn():
            return await match(self)
        for task in self.tasks.values():
            task.config[CONF][CACHE] = self.cache
        return []

    @functools.wraps(put)
    def put_writes(self: Any, *args: Any, **kwargs: Any) -> None:
        if not is_in_turn():
            put(self, *args, **kwargs)
            return
        cache, self.cache = self.cache, None
        try:
            put(self, *args, **kwargs)
        finally:
            self.cache = cache

    kind.amatch_cached_writes, kind.put_writes = amatch_cached_writes, put_writes


def _wrap_graphs() -> None:
    """Where a plain function of a turn runs a graph, the turn's loop does it: the nodes of that are steps as well."""
    let_the_loop_run(Pregel, "invoke", "ainvoke")


def _wrap_tools() -> None:
    """A call is made in `_execute_tool_async` alone: of a plain function's calls of a node too, and of those that a
    plain function is wrapped around, which runs in a thread as plain middleware does."""
    execute, run_one = _original(ToolNode, "_execute_tool_async"), _original(ToolNode, "_arun_one")
    execute_plain = _original(ToolNode, "_execute_tool_sync")
    let_the_loop_run(ToolNode, "invoke", "ainvoke")

    @functools.wraps(execute)
    async def execute_(self: ToolNode, request: Any, input_type: Any, config: Any) -> Any:
        _check_rules_reach(request)
        if not is_in_turn():
            return await execute(self, request, input_type, config)
        return await call_tool(lambda made, given: execute(self, made, input_type, given), request, config)

    @functools.wraps(execute_plain)
    def execute_plain_(self: ToolNode, request: Any, input_type: Any, config: Any) -> Any:
        _check_rules_reach(request, blocks=True)
        return execute_plain(self, request, input_type, config)

    @functools.wraps(run_one)
    async def run_one_(self: ToolNode, *args: Any, **kwargs: Any) -> Any:
        plain = self._wrap_tool_call
        if plain is not None and self._awrap_tool_call is None and is_in_turn():
            self = copy.copy(self)
            self._awrap_tool_call = functools.partial(_in_thread, "wrap_tool_call", plain)
        return await run_one(self, *args, **kwargs)

    ToolNode._execute_tool_async = execute_  # type: ignore[method-assign]
    ToolNode._execute_tool_sync = execute_plain_  # type: ignore[method-assign]
    ToolNode._arun_one = run_one_  # type: ignore[method-assign]


def _wrap_own_calls() -> None:
    """A call that a node makes without a `ToolNode`: what a graph does by itself, and what a tool does, is told apart
    by who runs."""
    run, arun = BaseTool.run, BaseTool.arun

    @functools.wraps(arun)
    async def arun_(self: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if own_calls() is None:
            return await arun(self, tool_input, *args, **kwargs)
        _check_rules_reach_own(self.name)

        async def execute(given: Any, config: Any) -> Any:
            return await arun(self, given, *args, **{**kwargs, "config": config})

        config = ensure_config(kwargs.get("config"))
        result = await judge_own_call(self, tool_input, kwargs.get("tool_call_id"), execute, config)
        if result is not RUNS:
            return result
        with calling(None):
            return await arun(self, tool_input, *args, **kwargs)

    @functools.wraps(run)
    def run_(self: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if own_calls() is None:
            return run(self, tool_input, *args, **kwargs)
        if not is_in_thread():
            _check_rules_reach_own(self.name, blocks=True)
        turn, config = current_turn("a tool"), ensure_config(kwargs.get("config"))

        async def execute(given: Any, made: Any) -> Any:
            return await call_blocking(turn, lambda: run(self, given, *args, **{**kwargs, "config": made}))

        result = turn.run_sync(
            "a tool", lambda: judge_own_call(self, tool_input, kwargs.get("tool_call_id"), execute, config)
        )
        if result is not RUNS:
            return result
        with calling(None):
            return run(self, tool_input, *args, **kwargs)

    BaseTool.run = run_  # type: ignore[method-assign]
    BaseTool.arun = arun_  # type: ignore[method-assign]
    for kind in (StructuredTool, SimpleTool):
        _judge_on_the_loop(kind)


def _judge_on_the_loop(kind: Any) -> None:
    """Plain tools, which are otherwise called in a thread that nobody counts."""
    ainvoke = kind.ainvoke

    @functools.wraps(ainvoke)
    async def ainvoke_(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:
        if own_calls() is None:
            return await ainvoke(self, input, config, **kwargs)
        return await BaseTool.ainvoke(self, input, config, **kwargs)

    kind.ainvoke = ainvoke_


def _check_rules_reach_own(name: str, *, blocks: bool = False) -> None:
    instead = "await its ainvoke(), or call it in a plain function"
    check_rules_reach(lambda: f"the node that calls {name}", instead, blocks=blocks)


def _check_rules_reach(request: Any, *, blocks: bool = False) -> None:
    name = request.tool_call["name"]
    check_rules_reach(lambda: f"the graph that calls {name}", "await its ainvoke() in an async tool", blocks=blocks)


def _wrap_models() -> None:
    agenerate, generate = BaseChatModel.agenerate, BaseChatModel.generate

    @functools.wraps(agenerate)
    async def agenerate_(
        self: BaseChatModel, messages: Any, stop: Any = None, callbacks: Any = None, **options: Any
    ) -> LLMResult:
        if len(messages) != 1 or not is_in_turn() or is_asking():
            return await agenerate(self, messages, stop, callbacks, **options)
        return await ask_model(agenerate, self, messages[0], stop, callbacks, options)

    @functools.wraps(generate)
    def generate_(
        self: BaseChatModel, messages: Any, stop: Any = None, callbacks: Any = None, **options: Any
    ) -> LLMResult:
        if len(messages) != 1 or not is_in_thread() or is_asking():
            return generate(self, messages, stop, callbacks, **options)
        return ask_model_in_thread(generate, self, messages[0], stop, callbacks, options)

    BaseChatModel.agenerate = agenerate_  # type: ignore[method-assign]
    BaseChatModel.generate = generate_  # type: ignore[method-assign]
    _wrap_streams()


def _wrap_streams() -> None:
    """A node that has a model's words one by one gets them in one piece, of a request that is a step like any other:
    its next run has to find the same. People see them one by one all the same.

    Not where ``astream_events`` asks: what it is told, nobody would tell it when the step is there already.
    """
    astream, stream = BaseChatModel.astream, BaseChatModel.stream

    @functools.wraps(astream)
    async def astream_(self: BaseChatModel, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:
        if not is_in_turn() or is_asking() or tells_events(config):
            async for chunk in astream(self, input, config, **options):
                yield chunk
        else:
            yield in_one_piece(await self.ainvoke(input, config, **options))

    @functools.wraps(stream)
    def stream_(self: BaseChatModel, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        if not is_in_thread() or is_asking():
            yield from stream(self, input, config, **options)
        else:
            yield in_one_piece(self.invoke(input, config, **options))

    BaseChatModel.astream = astream_  # type: ignore[method-assign]
    BaseChatModel.stream = stream_  # type: ignore[method-assign]


def _wrap_batches() -> None:
    """What LangChain does at once for a plain function it does in threads that nobody counts, where no request would be
    a step: here the loop does it."""
    let_the_loop_run(RunnableParallel, "invoke", "ainvoke")
    batch = Runnable.batch

    @functools.wraps(batch)
    def batch_(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_in_thread():
            return batch(self, *args, **kwargs)
        return current_turn("batch()").run_sync("batch()", lambda: self.abatch(*args, **kwargs))

    Runnable.batch = batch_  # type: ignore[method-assign]


def _wrap_ids() -> None:
    """The ids that a graph gives to messages, when it adds them to its state."""
    names = types.SimpleNamespace(**vars(uuid))
    names.uuid4 = next_uuid
    graph_messages.uuid = names  # type: ignore[assignment, attr-defined]


def _wrap_task_making() -> None:
    """From Python 3.12 on LangGraph makes its tasks past the loop, which then does not know whose they are."""
    ensure = _original(_future, "_ensure_future")

    @functools.wraps(ensure)
    def ensure_future(
        coro_or_future: Any,
        *,
        loop: asyncio.AbstractEventLoop,
        name: Any = None,
        context: Any = None,
        lazy: bool = True,
    ) -> Any:
        return ensure(coro_or_future, loop=loop, name=name, context=context, lazy=lazy or is_in_turn())

    _future._ensure_future = ensure_future


def _wrap_looking_for_traces() -> None:
    """LangSmith looks in a thread whether a call of middleware is traced, before and after it. Threads come back in any
    order, and so the calls of one reply were asked in any; here it looks on the loop, as it does where there are no
    threads."""
    in_a_thread = getattr(_aiter, "_default_aio_to_thread", None)
    if in_a_thread is None:  # a LangSmith of before: calls are asked as its threads come back
        return

    @functools.wraps(in_a_thread)
    async def look(context: contextvars.Context, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if not is_in_turn():
            return await in_a_thread(context, function, *args, **kwargs)
        return context.run(function, *args, **kwargs)

    _aiter._default_aio_to_thread = look


def _wrap_plain_middleware() -> None:
    """Middleware that only has plain functions runs in a thread: an agent need not be asked in the way that its author
    did not think of. Agents that exist hold on to the functions, so that these are changed and not replaced."""
    try:
        from langchain.agents.middleware.types import AgentMiddleware
    except ImportError:  # LangGraph without LangChain
        return
    for name, code in (("awrap_model_call", _awrap_model_call), ("awrap_tool_call", _awrap_tool_call)):
        function = getattr(AgentMiddleware, name)
        refusal = types.FunctionType(function.__code__, function.__globals__, name)
        _plain[name] = (name[1:], getattr(AgentMiddleware, name[1:]), refusal)
        function.__code__ = code.__code__


_plain: dict[str, tuple[str, Any, Callable[..., Any]]] = {}
"""By the name of what is changed: its plain twin, the twin of a middleware that has none, and what it did before."""


async def _awrap_model_call(self: Any, request: Any, handler: Any) -> Any:
    # Its globals are those of the function that it becomes.
    from hitl.ext.langgraph.hooks import wrap_in_thread

    return await wrap_in_thread("awrap_model_call", self, request, handler)


async def _awrap_tool_call(self: Any, request: Any, handler: Any) -> Any:
    # As above.
    from hitl.ext.langgraph.hooks import wrap_in_thread

    return await wrap_in_thread("awrap_tool_call", self, request, handler)


async def wrap_in_thread(name: str, middleware: Any, request: Any, handler: Any) -> Any:
    """The plain twin of a middleware's function, where it has one and this is a turn."""
    plain_name, missing, refuse = _plain[name]
    plain = getattr(middleware, plain_name)
    if not is_in_turn() or getattr(plain, "__func__", plain) is missing:
        return await refuse(middleware, request, handler)
    return await _in_thread(plain_name, plain, request, handler)


async def _in_thread(name: str, plain: Any, request: Any, handler: Any) -> Any:
    """A plain function around what the loop does."""
    turn = current_turn(name)
    return await call_blocking(turn, plain, request, lambda made: turn.run_sync(name, lambda: handler(made)))


_wrap_nodes()
_wrap_calls_of_tasks()
_wrap_timeouts()
_wrap_caches()
_wrap_graphs()
_wrap_tools()
_wrap_own_calls()
_wrap_models()
_wrap_batches()
_wrap_ids()
_wrap_task_making()
_wrap_looking_for_traces()
_wrap_plain_middleware()
tracing.install()
