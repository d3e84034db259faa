"""`ToolCallAgent`: an agent that is invoked, paused and resumed their way."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hitl.agents.react import ReActAgent
from hitl.driver.shapes import as_agent
from hitl.errors import HitlError, InvalidAnswer, NothingPending, RunInterrupted
from hitl.messages import ChatMessage
from hitl.middleware.human_in_the_loop import HumanInTheLoopMiddleware, InterruptMode
from hitl.middleware.resuming import Command
from hitl.middleware.waiting import Waiting, read_resume, waiting
from hitl.turn.callables import check_listed

if TYPE_CHECKING:
    from hitl.agents.react import ToolLike
    from hitl.agents.seams import AgentRuntime
    from hitl.models.chat_client import ChatClient
    from hitl.runs.results import RunResult
    from hitl.runs.states import RunState
    from hitl.runs.stores import Store

_ROLES = {"human": "user", "ai": "assistant"}
_BEFORE = "hitl.messages_before"
"""Member of a message's `user_params`: what else came with it. A turn has one message, which is kept with it."""


class ToolCallAgent(ReActAgent):
    """A `ReActAgent` with `invoke` and `ainvoke`. `hitl.run`, `hitl serve` and all else take it as any other agent.

    A thread is a hitl session; its id comes from `config={"configurable": {"thread_id": ...}}`. With a store, threads
    outlive the process. Without one they live as long as this object; and without a `thread_id` too, each message
    begins a conversation of its own, of which this object remembers nothing but whether it waits.

    Example:
        agent = ToolCallAgent(tools=[delete_file], middleware=[create_hitl_middleware("delete_file")])
        config = {"configurable": {"thread_id": "ann"}}
        result = await agent.ainvoke("delete the old logs file", config=config)
        if "__interrupt__" in result:
            result = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config=config)
    """

    def __init__(
        self,
        client: ChatClient | None = None,
        model_name: str | None = None,
        tools: Iterable[ToolLike] = (),
        middleware: Sequence[Any] = (),
        store: Store | str | os.PathLike[str] | None = None,
        *,
        name: str | None = None,
        system_prompt: str | None = None,
        handoffs: Sequence[Any] = (),
        max_steps: int = 20,
        timeout: float | None = None,
    ) -> None:
        """
        Args:
            client, model_name, tools, name, system_prompt, handoffs, max_steps, timeout: as of `ReActAgent`.
            middleware: `HumanInTheLoopMiddleware` and others; those that gate tools agree on an `interrupt_mode`.
            store: Where threads are kept: a `hitl.Store`, `sqlite:PATH` or a path.

        Raises:
            ValueError: Where the middleware do not agree on an `interrupt_mode`.
        """
        check_listed("ToolCallAgent", "middleware", middleware)
        gates = [item for item in middleware if isinstance(item, HumanInTheLoopMiddleware)]
        modes: set[InterruptMode] = {gate.interrupt_mode for gate in gates}
        if len(modes) > 1:
            raise ValueError("ToolCallAgent: one interrupt_mode for all its middleware, got batched and per_call")
        self.store = store
        self._gates = gates
        self._mode: InterruptMode = next(iter(modes), "batched")
        self._memory: Store | None = None
        self._making = threading.Lock()
        self._unnamed: dict[str, Store] = {}
        """Threads without a name that wait, each in a store of its own."""
        self._conversations = _Conversations()
        super().__init__(
            client,
            model_name,
            name,
            system_prompt,
            tools=tools,
            handoffs=handoffs,
            middleware=[self._conversations, *middleware],
            max_steps=max_steps,
            timeout=timeout,
        )

    def invoke(self, input: Any, config: Mapping[str, Any] | None = None, *, context: Any = None) -> dict[str, Any]:
        """As `ainvoke`, for programs without an event loop; `RuntimeError` where one runs."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError("invoke() would block the event loop; use: await agent.ainvoke(...)")
        # Late: a worker that serves the agent runs its turns by itself, and needs none of it.
        from hitl.runs.blocking import block_on

        input = self._given(input)  # here: the loop's tasks do not see what this thread has set
        result: dict[str, Any] = block_on(self.ainvoke(input, config, context=context))
        return result

    async def ainvoke(
        self, input: Any, config: Mapping[str, Any] | None = None, *, context: Any = None
    ) -> dict[str, Any]:
        """Send a message, or go on with a thread that waits.

        `input` is a str, `{"messages": [...]}` (each a `ChatMessage`, a dict, a `(role, text)` or a str; the last is
        the message, those before it join the conversation), a `Command`, or None: go on without an answer, also after
        a crash. `context` is what tools see as `RunContext.context`; a thread that waits keeps it, so it must be what a
        store can hold (`TypeError`), and what is given with an answer is merged into it.

        Returns `{"messages": [ChatMessage, ...]}`, the conversation as it stands, and where it waits
        `"__interrupt__": [InterruptInfo, ...]`.

        Raises what the agent raised; `RunInterrupted` for a message to a thread whose last turn is not over, because it
        waits or because it was cut off (None goes on with it); `NothingPending`,
        `InvalidAnswer`, `UnknownInterrupt` and `AlreadyResolved` for a `Command` that does not fit, which changes
        nothing: the thread still waits; `AlreadyResumed` where somebody else was faster; `ValueError` for a thread in a
        store that has no name.
        """
        thread = _thread_id(config)
        input = self._given(input)
        if input is None or isinstance(input, Command):
            return await self._go_on(thread, input, context)
        message = _one_message(_read_messages(input))
        if thread is not None:
            return await self._run(thread, self._store_of(thread), message, context)
        if self.store is not None:
            raise ValueError('a thread in a store needs a name: config={"configurable": {"thread_id": ...}}')
        if self._unnamed:
            raise RunInterrupted(
                "the conversation without a thread_id waits for an answer\n\n"
                'hint: name conversations that wait side by side: config={"configurable": {"thread_id": ...}}'
            )
        # Late, as in `invoke`.
        from hitl.runs.stores import Store

        return await self._run(str(uuid.uuid4()), Store("memory"), message, context)

    def messages_of(self, message: ChatMessage) -> list[ChatMessage]:
        """As of `ReActAgent`."""
        return _its_messages(message)

    # -- threads --------------------------------------------------------------------------------------------------

    async def _go_on(self, thread: str | None, command: Command | None, context: Any) -> dict[str, Any]:
        # Late, as in `invoke`.
        from hitl.runs.states import RunState
        from hitl.runs.stores import using

        thread = self._only_unnamed() if thread is None else thread
        async with using(self._store_of(thread)) as store:
            state = await RunState.from_store(self, store, thread, context=context)
            if state is None:
                raise NothingPending("nothing waits for an answer in this thread")
            if command is not None:
                self._decide(state, command.resume)
            return await self._run(thread, store, state)

    def _waiting(self, state: RunState) -> list[Waiting]:
        return waiting(state, self._mode, self._args_schema, as_agent(self).name)

    def _decide(self, state: RunState, resume: Any) -> None:
        """Give the answers to `state`, which is thrown away when one of them is none."""
        entries = self._waiting(state)
        answers = read_resume(resume, entries, self._mode)
        try:
            # All at once: of several decisions about one tool, an exact one beats one that holds for all of them.
            state.answer_all(dict(answers))
        except InvalidAnswer as error:
            raise _with_position(error, state, answers) from None

    async def _run(
        self, thread: str, store: Store | str | os.PathLike[str], input: ChatMessage | RunState, context: Any = None
    ) -> dict[str, Any]:
        # Late, as in `invoke`.
        from hitl.runs.running import run
        from hitl.runs.states import RunState
        from hitl.runs.stores import session_id

        session = None if isinstance(input, RunState) else thread
        with self._conversations.watch(session_id(thread)) as conversation:
            result = await run(self, input, store=store, session=session, context=context)
        self._remember(thread, store, result)
        if result.status == "error":
            raise result.exception or HitlError(result.error or "the run failed", code=result.error_code)
        if result.status == "idle" or result.state is None:
            return {"messages": result.messages}
        entries = self._waiting(result.state)
        # A run that had nothing new to hear was not replayed: what it began with is all that is known.
        heard = conversation.messages or [*result.state.messages, *_its_messages(result.state.message)]
        return {"messages": list(heard), "__interrupt__": [one.info for one in entries]}

    def _store_of(self, thread: str) -> Store | str | os.PathLike[str]:
        if self.store is not None:
            return self.store
        if thread in self._unnamed:
            return self._unnamed[thread]
        # Late, as in `invoke`.
        from hitl.runs.stores import Store

        with self._making:
            if self._memory is None:
                self._memory = Store("memory")
        return self._memory

    def _remember(self, thread: str, store: Any, result: RunResult) -> None:
        """Keep a thread without a name while it waits, and no longer."""
        if self.store is None and store is not self._memory:
            if result.status == "interrupted":
                self._unnamed[thread] = store
            else:
                self._unnamed.pop(thread, None)

    def _only_unnamed(self) -> str:
        if not self._unnamed:
            raise NothingPending('nothing waits for an answer\n\nhint: config={"configurable": {"thread_id": ...}}')
        if len(self._unnamed) > 1:
            names = ", ".join(self._unnamed)
            raise ValueError(f"several conversations wait: say which by the thread_id of the config, one of {names}")
        return next(iter(self._unnamed))

    # -- middleware -----------------------------------------------------------------------------------------------

    def _given(self, input: Any) -> Any:
        """The input, or a command for what somebody gave to `set_resume_data`."""
        if input is not None:
            return input
        for gate in self._gates:
            data = gate.take_resume_data()
            if data is not None:
                return Command(resume={"decisions": data.decisions})
        return None

    def _args_schema(self, tool_name: str) -> dict[str, Any] | None:
        configs = [gate.tool_configs[tool_name] for gate in self._gates if tool_name in gate.tool_configs]
        return next((config.args_schema for config in configs if config.args_schema is not None), None)


def _with_position(error: InvalidAnswer, state: RunState, answers: Sequence[tuple[str, Any]]) -> InvalidAnswer:
    """The error with the place of the decision that it is about."""
    if len(answers) == 1:
        return error
    for position, (interrupt_id, answer) in enumerate(answers, 1):
        try:
            state.answer(interrupt_id, answer)
        except InvalidAnswer as this:
            return InvalidAnswer(f"decision {position}: {this}")
        except HitlError:  # settled by an earlier one of the list
            continue
    return error


class _Conversation:
    """What was said in a run, as far as it is known."""

    messages: list[ChatMessage] | None = None


class _Conversations:
    """A middleware that hands out the conversations of runs: a paused run's result ends before its turn."""

    def __init__(self) -> None:
        self._watched: dict[str, list[_Conversation]] = {}

    def watch(self, session: str) -> _Watch:
        """For the time of a run."""
        return _Watch(self._watched, session)

    def before_agent(self, state: dict[str, Any], runtime: AgentRuntime) -> None:
        """The outermost agent comes first; what a nested one hears is its own."""
        for conversation in self._watched.get(runtime.session_id or "", ()):
            if conversation.messages is None:
                conversation.messages = state["messages"]


class _Watch:
    def __init__(self, watched: dict[str, list[_Conversation]], session: str) -> None:
        self._watched = watched
        self._session = session
        self._conversation = _Conversation()

    def __enter__(self) -> _Conversation:
        self._watched.setdefault(self._session, []).append(self._conversation)
        return self._conversation

    def __exit__(self, *exc_info: object) -> None:
        left = [one for one in self._watched[self._session] if one is not self._conversation]
        if left:
            self._watched[self._session] = left
        else:
            del self._watched[self._session]


def _thread_id(config: Any) -> str | None:
    configurable = config.get("configurable") if isinstance(config, Mapping) else config
    if configurable is None and isinstance(config, Mapping) and "thread_id" in config:
        configurable = config["thread_id"]  # one place too high, where it would name nothing
    if configurable is None:
        return None
    if not isinstance(configurable, Mapping):
        raise TypeError('config is {"configurable": {"thread_id": ...}}, got ' + repr(config))
    thread = configurable.get("thread_id")
    if thread is None:
        return None
    if isinstance(thread, bool) or not isinstance(thread, str | int | uuid.UUID) or thread == "":
        raise TypeError(f"thread_id must be a non-empty str, got {thread!r}")
    return str(thread)


def _read_messages(input: Any) -> list[ChatMessage]:
    if isinstance(input, Mapping):
        if input.keys() != {"messages"} or not isinstance(input["messages"], list | tuple):
            raise TypeError('the input is a str, {"messages": [...]}, a Command or None, got ' + repr(input))
        messages = [_read_message(message) for message in input["messages"]]
    elif isinstance(input, str | ChatMessage):
        messages = [_read_message(input)]
    else:
        raise TypeError(f'the input is a str, {{"messages": [...]}}, a Command or None, got {type(input).__name__}')
    if not messages:
        raise ValueError("the input has no message")
    return messages


def _one_message(messages: list[ChatMessage]) -> ChatMessage:
    """The last message, with those before it inside."""
    *before, last = messages
    if not before:
        return last
    params = {**(last.user_params or {}), _BEFORE: [message.to_dict() for message in before]}
    return replace(last, user_params=params)


def _its_messages(message: ChatMessage) -> list[ChatMessage]:
    """The messages that `_one_message` made one."""
    params = dict(message.user_params or {})
    if _BEFORE not in params:
        return [message]
    before = [ChatMessage.from_dict(each) for each in params.pop(_BEFORE)]
    return [*before, replace(message, user_params=params or None)]


def _read_message(message: Any) -> ChatMessage:
    if isinstance(message, ChatMessage):
        return message
    if isinstance(message, str):
        return ChatMessage.user_message(content=message)
    if isinstance(message, tuple) and len(message) == 2:
        message = {"role": message[0], "content": message[1]}
    if not isinstance(message, Mapping):
        raise TypeError(f"a message is a ChatMessage, a dict, a (role, text) or a str, got {type(message).__name__}")
    role = message.get("role", "user")
    return ChatMessage.from_dict({**message, "role": _ROLES.get(role, role)})
