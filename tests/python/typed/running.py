"""Runs in process: results, states, stores, streams."""

from pathlib import Path
from typing import Any, Literal, assert_type

from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

import hitl
from hitl import (
    Agent,
    AlreadyResolved,
    AlreadyResumed,
    ChatMessage,
    ErrorResult,
    IdleResult,
    Interrupt,
    InterruptedResult,
    NothingPending,
    RunEvent,
    RunInterrupted,
    RunResult,
    RunState,
    RunStateError,
    RunStream,
    Server,
    Store,
    SyncRunStream,
    UnknownInterrupt,
    UnreadableJournal,
    WorkerProtocolError,
)
from hitl.ext.otel import TelemetryNotConfigured, instrument, uninstrument


def misspelt() -> None:
    print(hitl.RunResutl)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


def told(result: RunResult) -> str:
    """The status says which members there are."""
    assert_type(result.status, Literal["idle", "interrupted", "error"])
    assert_type(result.interrupts, list[Interrupt])
    assert_type(result.messages, list[ChatMessage])
    assert_type(result.usage, dict[str, float])
    assert_type(result.session_id, str)
    assert_type(result.output, str | None)
    assert_type(result.state, RunState | None)
    result.state.to_string()  # pyright: ignore[reportOptionalMemberAccess]
    if result.status == "interrupted":
        assert_type(result, InterruptedResult)
        assert_type(result.output, None)
        return result.state.to_string()
    if result.status == "error":
        assert_type(result, ErrorResult)
        assert_type(result.error, str)
        assert_type(result.exception, BaseException | None)
        assert_type(result.state, RunState | None)
        return result.error
    assert_type(result, IdleResult)
    assert_type(result.response, ChatMessage)
    assert_type(result.state, None)
    return result.output.upper()


def matched(result: RunResult) -> int:
    match result.status:
        case "idle":
            return 0
        case "interrupted":
            return 1
        case "error":
            return 2


def by_class(result: RunResult) -> RunState | None:
    print(result.status == "waiting")  # pyright: ignore[reportUnnecessaryComparison]
    return result.state if isinstance(result, InterruptedResult) else None


async def decided(agent: Agent) -> RunResult:
    result = await hitl.run(
        agent,
        "My order never came.",
        context={"user": "ana"},
        settings={"temperature": 0},
        store="sqlite:runs.db",
        session="ana",
        tool_error_formatter=lambda name, args, error: f"{name}: {error}",
        hold=5,
        replay_timeout=60,
    )
    if result.status != "interrupted":
        return result
    state = result.state
    for asked in state.interrupts:
        assert_type(asked.tool_name, str | None)
        assert_type(asked.tool_args, dict[str, Any] | None)
        assert_type(state.approve(asked, always=True), RunState)
        state.reject(asked.id, reason="no", message="No.")
        state.edit(asked, {"amount": 3}).respond(asked, {"done": True}).answer(asked, None)
    text = state.to_string(key="secret")
    state = RunState.from_string(agent, text, context={"user": "ben"}, context_strategy="replace", key="secret")
    assert_type(state, RunState)
    RunState.from_string(agent, text, context_strategy="add")  # pyright: ignore[reportArgumentType]
    state.approve(3)  # pyright: ignore[reportArgumentType]
    state.edit(state.interrupts[0], "amount=3")  # pyright: ignore[reportArgumentType]
    return await hitl.run(agent, state)


async def stored(agent: Agent) -> None:
    async with Store(Path("runs.db")) as store:
        assert_type(store, Store)
        first = await hitl.run(agent, ChatMessage.user_message(content="hello"), store=store, session="ana")
        assert_type(await RunState.from_store(agent, store, "ana"), RunState | None)
        stream = hitl.stream(agent, "hello", store=store, session=first.session_id)
        assert_type(stream, RunStream)
        async with stream:
            async for event in stream:
                assert_type(event, RunEvent)
                assert_type(event.interrupt, Interrupt | None)
                print(event.type, event.delta.get("content", ""))
        assert_type(stream.result, RunResult)
        assert_type(stream.interrupts, list[Interrupt])
    await hitl.run(agent, 3)  # pyright: ignore[reportArgumentType, reportCallIssue]
    await hitl.run(agent, "hello", sesion="ana")  # pyright: ignore[reportCallIssue]


def stored_without_a_loop(agent: Agent) -> None:
    with Store("runs.db") as store:
        assert_type(store, Store)
        assert_type(hitl.run_sync(agent, "hello", store=store, session="ana"), RunResult)
        state = RunState.from_store_sync(agent, store, "ana", context={"user": "ana"})
        assert_type(state, RunState | None)
        with hitl.stream_sync(agent, state or "hello", store=store, session="ana") as stream:
            assert_type(stream, SyncRunStream)
            for event in stream:
                assert_type(event, RunEvent)
        assert_type(stream.result, RunResult)
        assert_type(stream.interrupts, list[Interrupt])
    store.close_sync()


async def refused(agent: Agent, state: RunState) -> str:
    try:
        await hitl.run(agent, state)
    except RunInterrupted as error:
        return str(error.state.to_string())
    except (AlreadyResolved, AlreadyResumed, NothingPending, RunStateError, UnknownInterrupt) as error:
        return error.code
    except (hitl.StoreError, hitl.AgentLoadError, hitl.PythonUntested, UnreadableJournal, WorkerProtocolError) as error:
        return error.code
    except hitl.HitlError as error:
        return error.code
    return "fine"


def traced(tracer_provider: TracerProvider, meter_provider: MeterProvider) -> None:
    """OpenTelemetry, where it is installed."""
    instrument()
    instrument(content=True, tracer_provider=tracer_provider, meter_provider=meter_provider)
    instrument(content="yes")  # pyright: ignore[reportArgumentType]
    uninstrument()
    code: str = TelemetryNotConfigured.code
    print(code, Server("module:agent", otel=True))
