"""`Agent`: a callable that goes until it is done or a person is needed."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from hitl.agents.react import ReActAgent
from hitl.agents.seams import HookCall, HookFailed
from hitl.errors import HitlError, NothingPending, UnknownInterrupt
from hitl.hooks.current import agent_var
from hitl.hooks.events import HookProvider, HookRegistry
from hitl.hooks.interrupts import (
    PAYLOAD_TYPES,
    Interrupt,
    InterruptException,
    InterruptResponseContent,
    read_responses,
)
from hitl.hooks.tools import tool as make_tool
from hitl.messages import ChatMessage
from hitl.models.chat_client import ChatClient, Delta, ModelReply, ModelRequest
from hitl.turn.callables import check_listed

if TYPE_CHECKING:
    from hitl.runs.interrupts import Interrupt as RunInterrupt
    from hitl.runs.results import RunResult
    from hitl.runs.states import RunState
    from hitl.runs.stores import Store
    from hitl.tools.definition import Tool
    from hitl.tools.mcp import MCPTools

Prompt = str | list[dict[str, Any]] | list[InterruptResponseContent]
StopReason = Literal["end_turn", "interrupt"]


@dataclass(frozen=True)
class AgentResult:
    """What a call of an agent came to. `str()` is the agent's text."""

    stop_reason: StopReason
    """`end_turn`: it has answered. `interrupt`: people are needed."""

    message: dict[str, Any]
    """The agent's last message: `{"role": "assistant", "content": [{"text": ...}, ...]}`; of no content, where a
    person is needed first."""

    interrupts: list[Interrupt] = field(default_factory=list)
    """What is asked, in order of arrival; empty unless people are needed."""

    usage: dict[str, float] = field(default_factory=dict)
    """`requests`, and the tokens that the models of the turn used."""

    def __str__(self) -> str:
        return "\n".join(part["text"] for part in self.message["content"] if "text" in part)


class Agent:
    """An agent with hooks.

    A call runs one turn: `agent("...")`, or `await agent.invoke_async("...")` where an event loop runs. One that stops
    with `stop_reason == "interrupt"` goes on with a list of answers,
    `agent([{"interruptResponse": {"interruptId": ..., "response": ...}}])`.

    Example:
        made = hooks.Agent(tools=[delete_file], store="sqlite:agents.db", session_id="ann")
        result = await made.invoke_async("delete the old logs file")
        if result.stop_reason == "interrupt":
            asked = result.interrupts[0]
            result = await made.invoke_async([{"interruptResponse": {"interruptId": asked.id, "response": "y"}}])
    """

    def __init__(
        self,
        client: ChatClient | None = None,
        model_name: str | None = None,
        tools: Iterable[Tool[..., Any] | Callable[..., Any] | MCPTools] = (),
        hooks: Iterable[HookProvider] = (),
        system_prompt: str | None = None,
        callback_handler: Callable[..., Any] | None = None,
        store: Store | str | os.PathLike[str] | None = None,
        session_id: str | None = None,
    ) -> None:
        """
        Args:
            client: As of `ReActAgent`.
            model_name: As of `ReActAgent`.
            tools: `@tool`s, `hitl.tool`s, functions and `hitl.MCPTools`.
            hooks: Providers of callbacks.
            system_prompt: Instructions, sent first with every request.
            callback_handler: Called for each piece of a reply as it comes, with `data=`, or with `reasoningText=` and
                `reasoning=True`; what it raises ends the turn. None shows nothing.
            store: Where the conversation is kept, as of `hitl.run`; by default with this object.
            session_id: Which conversation of the store; by default a new one.

        Raises:
            TypeError: For an option of the wrong type.
            ValueError: For a `session_id` without a store.
        """
        if session_id is not None and store is None:
            raise ValueError("Agent: session_id names a conversation in a store, so it needs store=")
        if callback_handler is not None and not callable(callback_handler):
            raise TypeError(f"Agent: callback_handler must be callable or None, got {callback_handler!r}")
        check_listed("Agent", "hooks", hooks)
        check_listed("Agent", "tools", tools)
        self.name = "agent"
        self.session_id = str(uuid.uuid4()) if session_id is None else session_id
        self.hooks = HookRegistry()
        """The callbacks; more may be added at any time."""
        for provider in hooks:
            self.hooks.add_hook(provider)
        self._store = store
        self._is_running = False
        self._failure: Exception | None = None
        """What a callback raised in the call that is under way."""
        self._agent = ReActAgent(
            client=client,
            model_name=model_name,
            name=self.name,
            system_prompt=system_prompt,
            tools=[_read_tool(each) for each in tools],
            hooks=[self._before_tool_call],  # also without callbacks: some may be added later
            middleware=() if callback_handler is None else [_ModelCalls(callback_handler)],
        )

    def __call__(self, prompt: Prompt, *, invocation_state: dict[str, Any] | None = None) -> AgentResult:
        """`invoke_async` that blocks. RuntimeError where an event loop runs."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError("agent() would block the event loop; use: await agent.invoke_async(...)")
        # Late: a worker that serves the agent runs its turns by itself, and needs none of it.
        from hitl.runs.blocking import block_on

        result: AgentResult = block_on(self.invoke_async(prompt, invocation_state=invocation_state))
        return result

    async def invoke_async(self, prompt: Prompt, *, invocation_state: dict[str, Any] | None = None) -> AgentResult:
        """Run until the agent has answered, or a person is needed.

        Args:
            prompt: A message, as str or as `[{"text": ...}]`; or, while interrupts are open, a list of answers to one
                or more of them. What is answered goes on, what is not stays open.
            invocation_state: What callbacks and tools see as `invocation_state`; kept over interrupts, so JSON.

        Raises:
            TypeError: A message while interrupts are open, or something that is none.
            KeyError: No open interrupt has that id.
            ValueError: An answer without a response, two for one interrupt, or one that nothing asked for
                (`NothingPending`). In all these cases nothing has changed.
            Exception: What a callback or the model's client raises; what a tool raises is told to the model.
        """
        # Late: a worker that serves the agent runs its turns by itself, and needs none of it.
        from hitl.runs.running import run
        from hitl.runs.states import RunState

        async with self._alone():
            store = self._opened()
            state = await RunState.from_store(self, store, self.session_id, context=invocation_state)
            message = _read_prompt(prompt, state)
            if state is not None and message is None:
                _answer(state, read_responses(list(prompt)))
                result = await run(self, state, context=invocation_state, store=store)
            else:
                assert message is not None
                result = await run(self, message, context=invocation_state, store=store, session=self.session_id)
            if self._failure is not None and isinstance(result.exception, HookFailed):
                raise self._failure
            return _result(result)

    async def run_turn(self, message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        """One turn, as servers and `hitl.run` call it."""
        token = agent_var.set(self)
        try:
            return await self._agent.run_turn(message, state)
        finally:
            agent_var.reset(token)

    def prepare(self) -> None:
        """See `ReActAgent.prepare`."""
        self._agent.prepare()

    async def _before_tool_call(self, call: HookCall) -> str | None:
        try:
            return await self.hooks.before_tool_call(self, call)
        except Exception as error:
            if isinstance(error, HitlError) and not isinstance(error, InterruptException):
                raise  # hitl's own, such as arguments that are too large to be shown: the model is told
            self._failure = error
            raise HookFailed(f"{type(error).__name__}: {error}") from error  # no model can mend a callback

    def _opened(self) -> Store:
        # Late, as in `__call__`.
        from hitl.runs.stores import Store

        if not isinstance(self._store, Store):
            # Not before the first call: a served agent is made before its workers are forked, and needs none.
            self._store = Store() if self._store is None else Store(self._store)
        return self._store

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        if self._is_running:
            raise RuntimeError("this Agent is at work; one object has one conversation, so make another")
        self._is_running = True
        try:
            yield
        finally:
            self._is_running, self._failure = False, None


class _ModelCalls:
    """Shows pieces of replies."""

    def __init__(self, callback_handler: Callable[..., Any]) -> None:
        self._callback_handler = callback_handler

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[..., Any]) -> ModelReply:
        reply: ModelReply = await handler(replace(request, on_delta=partial(self._show, request.on_delta)))
        return reply

    def _show(self, on_delta: Callable[[Delta], None] | None, delta: Delta) -> None:
        if on_delta is not None:
            on_delta(delta)
        if "content" in delta:
            self._callback_handler(data=delta["content"])
        elif "reasoning" in delta:
            self._callback_handler(reasoningText=delta["reasoning"], reasoning=True)


def _read_tool(given: Any) -> Any:
    if isinstance(given, Agent):
        raise TypeError("Agent: tools takes no agents\n\nhint: hitl.ReActAgent(...).as_tool() makes a tool of one")
    return make_tool(given) if callable(given) else given


def _read_prompt(prompt: Any, state: RunState | None) -> str | None:
    """The message it is; None for answers."""
    is_open = state is not None and bool(state.interrupts)
    if isinstance(prompt, list) and any(isinstance(part, dict) and "interruptResponse" in part for part in prompt):
        if not is_open:
            read_responses(prompt)
            raise NothingPending("the agent asks nothing, so there is nothing to answer")
        return None
    if isinstance(prompt, list) and not prompt and state is not None:
        return None
    if is_open:
        raise TypeError(
            "the agent is interrupted, and goes on with a list of "
            f'{{"interruptResponse": {{"interruptId": ..., "response": ...}}}}, got {type(prompt).__name__}'
        )
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and prompt and all(isinstance(p, dict) and set(p) == {"text"} for p in prompt):
        return "\n".join(str(part["text"]) for part in prompt)
    raise TypeError(f'a prompt is a str or a list of {{"text": ...}}, got {prompt!r}')


def _answer(state: RunState, responses: dict[str, Any]) -> None:
    """All answers, or none and an error."""
    pending = {_shown(each).id: each.id for each in state.interrupts}
    for id in responses:
        if id not in pending:
            raise UnknownInterrupt(f"no open interrupt has the id {id!r}")
    state.answer_all({pending[id]: response for id, response in responses.items()})


def _shown(asked: RunInterrupt) -> Interrupt:
    """An interrupt of a run as one of this package; those that something else asked keep their own id."""
    if asked.type in PAYLOAD_TYPES and "id" in asked.payload:
        return Interrupt(asked.payload["id"], asked.payload["name"], asked.payload["reason"])
    return Interrupt(asked.id, asked.type, asked.payload)


def _result(result: RunResult) -> AgentResult:
    if result.status == "error":
        if result.exception is not None:
            raise result.exception
        raise HitlError(result.error or "the turn failed", code=result.error_code)
    text = "" if result.response is None else result.response.content
    message = {"role": "assistant", "content": [{"text": text}] if text else []}
    if result.status == "interrupted":
        return AgentResult("interrupt", message, [_shown(each) for each in result.interrupts], result.usage)
    return AgentResult("end_turn", message, [], result.usage)
