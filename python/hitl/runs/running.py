"""``hitl.run``: one turn of an agent, on the caller's loop, in the caller's process."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from hitl import _core
from hitl.driver.shapes import Agent, LoadedAgent, TypedAgent, as_agent
from hitl.errors import RunInterrupted, RunStateError
from hitl.journal.account import Usage, usage_of
from hitl.messages import ChatMessage
from hitl.runs.code import code_of
from hitl.runs.loop import PYTHON, Listener, LoopRuns
from hitl.runs.results import RESULTS, OutputT, RunResult
from hitl.runs.states import RunState
from hitl.runs.stores import Store, home_of, session_id, using
from hitl.runs.turns import Formatter, Task
from hitl.turn.holding import DEFAULT_HOLD
from hitl.turn.naming import check_text
from hitl.turn.places import place_var
from hitl.turn.runtime import Turn
from hitl.turn.watching import outgoing_headers

if TYPE_CHECKING:
    from hitl.model_settings import ModelSettings

Input = str | ChatMessage | RunState

COMMIT_SECONDS = 5.0
"""How long a cancelled run waits for its store, which may hang: less than a program has until it is killed."""


class RunOptions(TypedDict, total=False):
    """The options of ``run``, which explains them, and of its like."""

    context: Any
    resources: Any
    settings: ModelSettings | None
    store: Store | str | os.PathLike[str] | None
    session: str | None
    tool_error_formatter: Formatter | None
    hold: float
    replay_timeout: float


@overload
async def run(agent: TypedAgent[OutputT], input: Input, **options: Unpack[RunOptions]) -> RunResult[OutputT]: ...  # type: ignore[overload-overlap]  # the first that fits counts
@overload
async def run(agent: Agent, input: Input, **options: Unpack[RunOptions]) -> RunResult: ...
async def run(
    agent: Agent,
    input: Input,
    *,
    context: Any = None,
    resources: Any = None,
    settings: ModelSettings | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    session: str | None = None,
    tool_error_formatter: Formatter | None = None,
    hold: float = DEFAULT_HOLD,
    replay_timeout: float = 0.0,
) -> RunResult[Any]:
    """Run one turn of ``agent`` without a server, until it answers, fails, or waits for people.

    ``input`` is a message, or the ``RunState`` of a run that waited. ``context`` is what tools see as
    ``RunContext.context``. ``resources`` stands in the place of those that agents declare: what ``@hitl.resources``
    made, or an object that is open already and stays so. ``settings`` says how models are asked in this run, member by
    member over the agent's own, whoever has the conversation; agents that are tools keep theirs. They are recorded, and
    hold until the turn is over. ``store`` (a ``Store``, ``sqlite:PATH`` or a path) keeps everything as it happens; with
    it, ``session`` names the conversation, which goes on where its last turn ended.
    ``tool_error_formatter(tool_name, args, error)`` writes what the model is told of a rejected call.

    A state goes on in the store that it came from, without ``store=``; only its text does not say where that is.
    Another ``store`` takes it in as a run of its own, ``store="memory"`` for as long as this call. ``session`` beside a
    state is compared with its own.

    ``hold``: how many seconds raw I/O between its steps may keep a run with an open question from coming back; 0 is
    for as long as it takes. ``replay_timeout``: how many seconds such I/O may keep a state from going on; 0 is without
    limit, and after it the result is an error with the code ``replay_timeout``, and a ``state`` to be run again.

    A context must be JSON (pydantic models and dataclasses too) where the run waits: it travels with the state.

    An agent that fails is a result with the status ``error``. Raised are: RunInterrupted for a message to a session
    whose last turn is not over (its ``state`` is that turn), AlreadyResumed for a state whose turn has gone on since,
    RunStateError for the text of one that lives in a store, without it (``run_state_store_missing``), and for a state
    of another session (``run_state_other_session``) or agent (``run_state_other_agent``), StoreError, TypeError or
    ValueError for wrong arguments, and TypeError for a context that cannot be kept. A cancelled call cancels the agent;
    in a store its turn stays open, to be taken up again with ``RunState.from_store``.

    Example:
        result = await hitl.run(agent, "delete the old logs file", store="sqlite:runs.db", session="customer 7")
        if result.status == "interrupted":
            for asked in result.interrupts:
                result.state.reject(asked, reason="the auditor wants it")
            result = await hitl.run(agent, result.state)
        print(result.output)
    """
    return await run_with(
        agent,
        input,
        context=context,
        resources=resources,
        settings=settings,
        store=store,
        session=session,
        tool_error_formatter=tool_error_formatter,
        hold=hold,
        replay_timeout=replay_timeout,
    )


async def run_with(
    agent: Agent,
    input: Input,
    *,
    context: Any,
    resources: Any,
    settings: ModelSettings | None,
    store: Store | str | os.PathLike[str] | None,
    session: str | None,
    tool_error_formatter: Formatter | None,
    hold: float,
    replay_timeout: float,
    on_event: Listener | None = None,
) -> RunResult[Any]:
    """See ``run``; ``on_event`` hears name and data (JSON) of what happens meanwhile."""
    _refuse_inside("run")
    _check_seconds("hold", hold)
    _check_seconds("replay_timeout", replay_timeout)
    if tool_error_formatter is not None and not callable(tool_error_formatter):
        raise TypeError(
            "tool_error_formatter is a function (tool_name, args, error) -> str, "
            f"got {type(tool_error_formatter).__name__}"
        )
    state = input if isinstance(input, RunState) else None
    if state is not None:
        store = _where(state, store, session)
    elif session is not None and store is None:
        raise TypeError("session names a conversation in a store: it needs store=")
    if state is not None and settings is not None:
        raise TypeError("settings= goes with a message: a state goes on with those that its run was begun with")
    loaded = as_agent(agent).given("hitl.run()", resources)
    if state is not None:
        state.refuse_other(loaded)
    runs = LoopRuns.here()
    given = _context(context, state)
    task = Task(
        runs,
        loaded,
        code_of(loaded),
        given,
        tool_error_formatter,
        is_heard=on_event is not None,
        hold=hold,
        replay_timeout=replay_timeout,
        settings=_settings(loaded, settings),
    )
    async with using(store) as opened:
        core = await opened.open()
        home = home_of(store, core)
        try:
            return await _go(runs, core, task, input, session, home, on_event)
        except RunInterrupted as error:
            assert session is not None
            found = await opened.load(session_id(session), loaded.name, task.code)
            error.state = None if found is None else RunState(found, context, home)
            raise


def _where(
    state: RunState, store: Store | str | os.PathLike[str] | None, session: str | None
) -> Store | str | os.PathLike[str] | None:
    """The store that ``state`` goes on in: the one that is given, else its own; None for one that lives in none."""
    if session is not None and session_id(session) != state.session_id:
        raise RunStateError(
            f"the run state is of session {state.session_id}, and not of {session!r}", code="run_state_other_session"
        )
    if store is None:
        store = state._store
    if store is None and state._core.store_id is not None:
        raise RunStateError(
            f"the turn of this run state lives in a store (its id is {state._core.store_id}), and a text does not say "
            'where that is\n\nhint: hitl.run(agent, state, store=...) goes on there; store="memory" runs a copy, of '
            "which the store does not know: what is decided may run in both",
            code="run_state_store_missing",
        )
    return store


async def _go(
    runs: LoopRuns,
    store: _core.RunStore,
    task: Task,
    input: Input,
    session: str | None,
    home: Store | str | None,
    on_event: Listener | None,
) -> RunResult[Any]:
    message = None if isinstance(input, RunState) else _written(_message(input))
    named = None if session is None else session_id(session)
    state = input._core if isinstance(input, RunState) else None
    agent = task.agent
    options = agent.options
    task.token, of_session, done = runs.ask(
        lambda token: runs.core.run(
            token,
            store,
            agent.name,
            task.code,
            PYTHON,
            options.replay,
            options.pin,
            message,
            named,
            state,
            task.is_heard,
            home is not None,
            outgoing_headers().get("traceparent"),
        ),
        task,
        on_event,
    )
    try:
        status, response, messages, error, code, after = await done
        if task.turn is not None:
            await task.turn.see_out()
    except (Exception, asyncio.CancelledError):  # whatever it is: the agent has nobody to work for any more
        await _cancel(runs, task)
        raise
    finally:
        runs.leave(task.token)
    if task.turn is not None and (unstorable := _context_error(task.turn.turn)) is not None:
        raise unstorable
    answer = None if response is None or status != "idle" else ChatMessage.from_dict(json.loads(response))
    readers = task.turn.turn.typed.readers if task.turn is not None else {}
    waits = None if after is None else RunState(after, task.context, home, readers)
    conversation = [ChatMessage.from_dict(item) for item in json.loads(messages)]
    made: Callable[..., RunResult[Any]] = RESULTS[status]
    return made(
        status=status,
        response=answer,
        messages=conversation,
        error=error,
        error_code=code,
        exception=task.error if status == "error" else None,
        usage=_usage(task, waits),
        interrupts=waits.interrupts if waits is not None and status == "interrupted" else [],
        state=waits,
        session_id=of_session,
        output=None if answer is None else agent.output_of(answer, conversation),
        finish_reason=None if task.turn is None else task.turn.turn.finish_reason,
    )


async def _cancel(runs: LoopRuns, task: Task) -> None:
    """Stop the agent of a run that nobody waits for any more, and see it out. What it has said is in its store then, if
    that is not hung."""
    over = runs.over(task.token)
    is_stored = True
    if task.turn is not None:
        if task.turn.stopped_as is None:
            task.turn.cancel(is_settled=False)  # in a store it stays open
        is_stored = await _until(task.all_stored(), over)
    runs.stop(task.token)
    if task.turn is not None:
        while not task.turn.gone.is_set():
            try:
                await task.turn.see_out()
            except asyncio.CancelledError:  # cancelled twice: its cleanup has a limit of its own
                continue
    if is_stored and await _until(over):
        over.exception()  # seen: the caller is told why it was stopped
    else:
        over.add_done_callback(asyncio.Future.exception)  # will be seen, for the same reason


async def _until(*futures: asyncio.Future[Any]) -> bool:
    """Wait for the first of them, and say whether it came: a commit does not take long, and where it does, or where the
    caller is cancelled once more, nobody waits for it."""
    if not any(future.done() for future in futures):
        with suppress(asyncio.CancelledError):  # the caller raises the first one
            await asyncio.wait(futures, timeout=COMMIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    return any(future.done() for future in futures)


def _usage(task: Task, waits: RunState | None) -> Usage:
    if task.turn is not None:
        return dict(task.turn.turn.usage)
    # Nothing was decided, so nothing was replayed: the state that came back is the one that was given.
    return {} if waits is None else usage_of(json.loads(waits.to_string())["journal"])


def _context_error(turn: Turn) -> TypeError | None:
    """What is wrong with the context that the caller gave, where a pause could not store it."""
    failure = turn.failure.result() if turn.failure.done() else None
    return failure if isinstance(failure, TypeError) else None


def _context(given: Any, state: RunState | None) -> Any:
    return state.context if given is None and state is not None else given


def _settings(agent: LoadedAgent, given: ModelSettings | None) -> ModelSettings:
    if given is None:
        return {}
    # Late: few runs have any.
    from hitl.driver.settings import refuse_settings
    from hitl.model_settings import check_settings

    refuse_settings(agent.name, agent.target)
    return check_settings("hitl.run()", given)


def _message(input: object) -> ChatMessage:
    if isinstance(input, str):
        return ChatMessage.user_message(content=input)
    if isinstance(input, ChatMessage):
        input.check()
        return input
    # What a run that waits for nothing has as its state.
    hint = "result.state is None unless result.status is 'interrupted'" if input is None else "hitl.run(agent, 'hello')"
    raise TypeError(
        f"the input of a run is a str, a ChatMessage or a RunState, got {type(input).__name__}\n\nhint: {hint}"
    )


def _written(message: ChatMessage) -> bytes:
    text = json.dumps(message.to_dict(), ensure_ascii=False, allow_nan=False)
    check_text("the message", text)
    try:
        _core.check_json(text)
    except ValueError as error:  # an integer beyond 64 bits would come to the agent as a float
        raise ValueError(f"the message cannot be stored: {error}") from None
    return text.encode()


def _check_seconds(option: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"hitl.run() {option} is a number of seconds, got {given!r}")
    if not 0 <= given < math.inf:
        raise ValueError(f"hitl.run() {option} must be 0 seconds or more, got {given!r}")


def _refuse_inside(name: str) -> None:
    place = place_var.get()
    if place is not None and place.step is None:
        raise RuntimeError(
            f"hitl.{name}() inside a turn would not be in its journal; call await agent.run_turn(message, state), or "
            "make the agent a tool with agent.as_tool()"
        )
