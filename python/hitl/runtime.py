"""What runs under every agent: one ``Turn`` that numbers steps, records them and asks questions.

Internal. Tools, models and agents call ``current_turn()`` and then ``run_step`` or ``ask``; how a record reaches the
journal is the business of the ``TurnPort`` that a worker, or a test, gives to the turn.

The rule that everything here serves: a result or an answer is durably in the journal before the agent sees it, and
what the agent sees is the decoded copy of what was stored. Nothing else may hand a value to the agent.

A Turn belongs to one event loop; only ``run_sync`` may be called from another thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import FrameType
from typing import Any, TypeVar

from hitl.codec import decode, decode_error, encode, encode_error, fingerprint
from hitl.errors import Parked
from hitl.places import Place, StepScope, Work, place_var
from hitl.ports import InterruptRequest, StepIdentity, TurnPort
from hitl.stopwatch import paused
from hitl.threads import ThreadCall, contained, job, label
from hitl.threads import call_blocking as call_blocking

T = TypeVar("T")

DEFAULT_MAX_PAYLOAD = 16_384
"""Bytes of compact JSON that an interrupt's payload may have when the server says nothing else."""

# A task that has been woken needs a few rounds of the loop (a gather, a wait, a nested tool) before it shows what it
# does next. Calling the turn "waiting" before that would free its slot while it goes on working.
_QUIET_ROUNDS = 8


agent_name: contextvars.ContextVar[str | None] = contextvars.ContextVar("hitl_agent_name", default=None)
"""Name of the agent that works in this context, when it is not the turn's own (one called as a tool)."""


def current_turn(caller: str = "this") -> Turn:
    """The turn that runs in this context; RuntimeError when there is none, naming ``caller``."""
    place = place_var.get()
    if place is None:
        raise RuntimeError(f"{caller} called outside a hitl run")
    return place.turn


def location_of(frame: FrameType | None) -> str | None:
    """``file.py:12`` of a caller. No directories: they differ between machines that continue one journal."""
    if frame is None:
        return None
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"


class Turn:
    """One message in, one response out. Made by a worker, entered by ``enter``, ended by ``close``."""

    def __init__(
        self,
        port: TurnPort,
        *,
        turn_id: str,
        session_id: str | None = None,
        agent: str | None = None,
        context: Any = None,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
    ) -> None:
        self.port = port
        self.turn_id = turn_id
        self.session_id = session_id
        self.agent = agent
        self.context = context
        """The object given to the run, for ``RunContext.context``; None in a served worker."""
        self.max_payload = max_payload
        self.loop = asyncio.get_running_loop()
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Unfinished tasks of the turn, in creation order."""
        self.closed = False
        self._keys: dict[str, int] = {}
        self.patches: dict[str, bool] = {}
        """What ``hitl.patched`` said in this turn."""
        self._busy = 0
        self._open = 0
        self._reported = False
        self._quiet = 0

    # -- where code runs ------------------------------------------------------------------------------------------

    def enter(self) -> contextvars.Context:
        """A context in which code belongs to this turn, at its root task."""
        context = contextvars.copy_context()
        context.run(place_var.set, Place(self))
        context.run(agent_name.set, None)
        return context

    def close(self) -> None:
        """Nothing is recorded from now on: hitl calls of leftover tasks and threads raise."""
        self.closed = True

    @property
    def current_step(self) -> StepScope | None:
        """The step whose body runs in this context."""
        place = place_var.get()
        return place.step if place is not None else None

    def idempotency_key(self) -> str:
        """``session/turn/step`` of the step that runs here: the same in every re-run of it."""
        step = self.current_step
        return "/".join((self.session_id or "local", self.turn_id, step.path if step is not None else "0"))

    def _place(self) -> Place:
        place = place_var.get()
        if place is None or place.turn is not self:
            raise RuntimeError("a hitl call was made outside the turn that it belongs to")
        if self.closed:
            raise RuntimeError("a hitl call was made after its turn had ended")
        if place.step is not None and place.step.done:
            raise RuntimeError(
                f"a task that was started inside step {place.step.name!r} outlived it and made a hitl call"
            )
        return place

    def _identify(
        self,
        place: Place,
        kind: str,
        name: str,
        key: str | None,
        location: str | None,
        arguments: Mapping[str, Any] | None,
    ) -> StepIdentity:
        if key is not None:
            uses = self._keys[key] = self._keys.get(key, 0) + 1
            # A decorated step that is called in a loop has one key: later uses are told apart by their number.
            key = key if uses == 1 else f"{key}#{uses}"
        return {
            "path": place.next_step(),
            "key": key,
            "kind": kind,
            "name": name,
            "location": location,
            "arguments": {} if arguments is None else {n: fingerprint(v) for n, v in arguments.items()},
        }

    # -- steps ----------------------------------------------------------------------------------------------------

    async def run_step(
        self,
        kind: str,
        name: str,
        body: Callable[[], Awaitable[T]],
        *,
        key: str | None = None,
        location: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        once: bool = False,
    ) -> T:
        """Run ``body``, record its outcome, and return (or raise) the decoded copy of the record.

        ``kind`` is one of the protocol's kinds; ``arguments`` are hashed one by one, not stored; ``once`` says that a
        crash in the middle is for a person to judge, not a reason to run again. A cancelled caller cancels the body
        and records nothing. Values that the codec does not take are a TypeError that names the path.
        """
        place = self._place()
        identity = self._identify(place, kind, name, key, location, arguments)
        scope = StepScope(place.work, place.step, identity["path"], kind, name, once)
        self._begin(scope)
        try:
            error: BaseException | None = None
            try:
                value = await self._run_body(scope, body)
                result: dict[str, Any] = {"value": encode(value, f"result of {kind} {name!r}")}
            except (Parked, GeneratorExit):
                raise
            except _Cancelled as cancelled:
                raise asyncio.CancelledError(*cancelled.args) from None
            except BaseException as raised:  # noqa: BLE001 - SystemExit and the like too: what a body ends with is its outcome
                error = raised
                result = {"error": encode_error(raised)}
            if self.closed:
                raise RuntimeError(f"step {name!r} finished after its turn had ended")
            await self.port.append_step(identity, result)
        finally:
            self._finish(scope)
        if error is not None:
            # The class and arguments are those of the record; the traceback is only for people to read.
            raise decode_error(result["error"]).with_traceback(error.__traceback__)
        decoded: T = decode(result["value"])
        return decoded

    async def _run_body(self, scope: StepScope, body: Callable[[], Awaitable[T]]) -> T:
        """Run a body as a task of its own: what it sets in its context stays inside, as when a replay skips it."""
        context = contextvars.copy_context()
        context.run(place_var.set, Place(self, scope))
        caller = asyncio.current_task()
        before = caller.cancelling() if caller is not None else 0
        task = asyncio.Task(contained(body), loop=self.loop, context=context, name=f"hitl step {scope.path}")
        self.tasks[task] = None
        try:
            value, leaving = await task
        except asyncio.CancelledError as cancelled:
            if self.closed or (caller is not None and caller.cancelling() > before):
                raise _Cancelled(*cancelled.args) from None
            raise
        finally:
            self.tasks.pop(task, None)
        if leaving is not None:
            raise leaving
        return value  # type: ignore[return-value]

    def delta(self, delta: dict[str, str]) -> None:
        """Show ``{"content": str}`` or ``{"reasoning": str}`` of the model step that runs here to whoever watches."""
        step = self.current_step
        if step is None:
            raise RuntimeError("delta() called outside a step")
        if not self.closed:
            self.port.delta(step.path, step.attempt, delta)

    # -- questions ------------------------------------------------------------------------------------------------

    async def ask(
        self,
        type: str,
        payload: dict[str, Any],
        *,
        message: str | None = None,
        response_schema: dict[str, Any] | None = None,
        allowed_decisions: list[str] | None = None,
        tool_call_id: str | None = None,
        agent: str | None = None,
        args_digest: str | None = None,
        expires_in: float | None = None,
        has_default: bool = False,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
        location: str | None = None,
    ) -> Any:
        """Open an interrupt and wait for its answer, a JSON value.

        ``payload`` is valid already (``_core.check_payload``). ``expires_in`` is in seconds. Raises InterruptExpired
        when nobody answered in time, and the matching HitlError when the server refuses the question.
        """
        place = self._place()
        identity = self._identify(place, "interrupt", type, key, location, {"payload": payload})
        request: InterruptRequest = {
            "type": type,
            "payload": payload,
            "message": message,
            "response_schema": response_schema,
            "allowed_decisions": allowed_decisions,
            "tool_call_id": tool_call_id,
            "agent": agent if agent is not None else agent_name.get() or self.agent,
            "args_digest": args_digest,
            "expires_in": expires_in,
            "has_default": has_default,
            "metadata": metadata,
        }
        work = Work(place.work)
        self._begin(work)
        try:
            with paused():
                interrupt = self.port.open_interrupt(identity, request)
                try:
                    # Neither future may be cancelled from here: the port still has to match the server's reply to it.
                    await asyncio.shield(interrupt.opened)
                    self._block(work)
                    try:
                        return await asyncio.shield(interrupt.answer)
                    finally:
                        self._unblock(work)
                except asyncio.CancelledError:
                    self.port.withdraw(interrupt)
                    raise
        finally:
            self._finish(work)

    # -- threads --------------------------------------------------------------------------------------------------

    async def run_in_thread(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a blocking function in a thread of its own, in a copy of this context.

        Not a pool: a function that waits for a person for a week must not take a place from another, and a blocked
        thread must not keep the process alive. A cancelled caller stops waiting; the thread cannot be stopped.
        """
        place = self._place()
        work = Work(place.work)
        context = contextvars.copy_context()
        context.run(place_var.set, place.inside(work))
        done, run = job(self.loop, context, lambda: function(*args, **kwargs))
        self._begin(work)
        try:
            threading.Thread(target=run, name=f"hitl {label(function)}", daemon=True).start()
            return await done
        finally:
            self._finish(work)

    def run_sync(self, caller: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of this turn from one of its threads and wait for it. ``caller`` is for the error message.

        A step body that is a plain function runs in the waiting thread (see ``call_blocking``): a database
        connection that belongs to the thread keeps working.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError(f"{caller}.sync() would block the event loop; use: await {caller}(...)")
        return ThreadCall(self).run(make)

    # -- is the turn at work? -------------------------------------------------------------------------------------

    def _begin(self, work: Work) -> None:
        self._busy += 1
        self._reported = False
        if self._quiet:
            self._quiet = _QUIET_ROUNDS
        if work.parent is not None:
            self._block_work(work.parent)

    def _finish(self, work: Work) -> None:
        if work.inner == 0:
            self._busy -= 1
        work.done = True
        if work.parent is not None:
            self._unblock_work(work.parent)
        self._settle()

    def _block_work(self, work: Work) -> None:
        if work.inner == 0 and not work.done:
            self._busy -= 1
        work.inner += 1

    def _unblock_work(self, work: Work) -> None:
        work.inner -= 1
        if work.inner == 0 and not work.done:
            self._busy += 1

    def _block(self, work: Work) -> None:
        self._block_work(work)
        self._open += 1
        self._settle()

    def _unblock(self, work: Work) -> None:
        self._unblock_work(work)
        self._open -= 1
        self._reported = False

    def _settle(self) -> None:
        if self._busy == 0 and self._open and not self._reported and not self._quiet and not self.closed:
            self._quiet = _QUIET_ROUNDS
            self.loop.call_soon(self._look)

    def _look(self) -> None:
        if self._busy or not self._open or self.closed:
            self._quiet = 0
            return
        self._quiet -= 1
        if self._quiet:
            self.loop.call_soon(self._look)
        else:
            self._reported = True
            self.port.waiting()


class _Cancelled(Exception):
    """The caller of a step was cancelled, as opposed to a body that ended in a CancelledError of its own."""


def install_task_factory(loop: asyncio.AbstractEventLoop) -> None:
    """Number the tasks of turns on a loop that we own, and let a turn know its tasks."""
    loop.set_task_factory(_make_task)


def _make_task(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
    context: contextvars.Context | None = kwargs.pop("context", None)
    place = place_var.get() if context is None else context.get(place_var)
    if place is None:
        return asyncio.Task(coro, loop=loop, context=context, **kwargs)
    child = place.next_task()
    if context is None:
        context = contextvars.copy_context()
        context.run(place_var.set, child)
    else:
        try:
            context.run(place_var.set, child)
        except RuntimeError:  # the context that runs right now: setting the child's place there would move its parent
            context = context.copy()
            context.run(place_var.set, child)
    task = asyncio.Task(coro, loop=loop, context=context, **kwargs)
    tasks = place.turn.tasks
    tasks[task] = None
    task.add_done_callback(lambda done: tasks.pop(done, None))
    return task
