"""The chat on a terminal: messages, turns, and everything the agent asks on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from uuid import uuid4

from prompt_toolkit import PromptSession

from hitl.cli import exit_codes
from hitl.cli.chat import prompts
from hitl.cli.chat.answers import Answerer, ChatAnswer
from hitl.cli.chat.prompts import PersonLeft
from hitl.cli.chat.recollection import said_before
from hitl.cli.chat.rendering import Screen
from hitl.cli.chat.standing import why_not
from hitl.cli.chat.turns import Follower, SessionGone, patiently
from hitl.cli.failures import describe, who, wrong_values
from hitl.cli.output import Failure
from hitl.cli.text import one_line
from hitl.client import (
    AsyncClient,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    Interrupt,
    Invalid,
    Me,
    NotFound,
    Session,
    TooLarge,
)
from hitl.errors import HitlError

MOMENT = 0.1
"""Seconds. Nobody notices, and it numbers the questions of a turn that asks several at once."""


_FOR_OTHERS = ("self_approval", "not_an_approver", "missing_scope")
"""Codes of refusals that no other answer of the same key changes."""


class SettledElsewhere(HitlError):
    """The question was answered, has expired or was withdrawn while it was on the screen."""

    code = "settled_elsewhere"

    def __init__(self, interrupt: Interrupt) -> None:
        super().__init__(interrupt)
        self.interrupt = interrupt

    def __str__(self) -> str:
        return self.interrupt.status


class Chat:
    """One session on one terminal."""

    def __init__(
        self,
        client: AsyncClient,
        me: Me,
        session: Session,
        follower: Follower,
        screen: Screen,
        history: PromptSession[str],
    ) -> None:
        self._client = client
        self._me = me
        self._session_id = session.session_id
        self._follower = follower
        self._screen = screen
        self._answerer = Answerer(screen)
        self._history = history
        self._a_prompt_vanished = False
        # What the server would not take from this key, whatever the answer.
        self._left_to_others: set[str] = set()

    @classmethod
    async def run(cls, url: str, api_key: str | None, session_id: str | None, message: str | None) -> int:
        """Talk until the person leaves, or for one turn when a `message` is given; the exit code."""
        screen = Screen()
        async with AsyncClient(url, api_key=api_key) as client:
            me = await client.me()
            history = prompts.message_history()
            is_one = message is not None
            if session_id is not None:
                session = await client.get_session(session_id)
                screen.name_session(url, session)
                screen.greet()
            else:
                screen.greet()
                if message is None:
                    # A session is made for what is said in it: whoever only looks leaves none behind.
                    try:
                        message = await prompts.enter_message(history)
                    except PersonLeft:
                        return exit_codes.INTERRUPTED
                    if message is None:
                        return exit_codes.OK
                # With a key, asking again after a lost connection cannot make two sessions.
                key = str(uuid4())
                session = await patiently(screen, lambda: client.create_session(idempotency_key=key))
                screen.name_session(url, session)
            async with Follower(client, session.session_id, screen) as follower:
                conversation = cls(client, me, session, follower, screen, history)
                try:
                    if session_id is not None:
                        screen.recall(await said_before(client, session), in_turn=session.status != "idle")
                    return await conversation._talk(session, message, is_one)
                except PersonLeft:
                    pass
                except asyncio.CancelledError:
                    # Ctrl-C outside a prompt, which is how `asyncio.run` tells about it.
                    screen.note("The turn goes on without you.", style="dim")
                except SessionGone as error:
                    raise Failure(
                        f"the session is gone: {error}", f"start another one: hitl chat {url}", exit_codes.NOT_FOUND
                    ) from error
                except ConnectionFailed:
                    screen.way_back(url, session.session_id)
                    raise
                screen.way_back(url, session.session_id)
                return exit_codes.INTERRUPTED

    async def _talk(self, session: Session, message: str | None, is_one: bool) -> int:
        """is_one: whether all there is to say is this message, and not only the first one."""
        if session.status == "running":
            self._screen.note("A turn is at work.", style="dim")
        elif session.status == "error":
            self._screen.end_turn(session)
        session = await self._see_through(session)
        if message is not None:
            session = await self._turn(message)
        if is_one:
            return exit_codes.OK if session.status == "idle" else exit_codes.RUNTIME
        while True:
            text = await prompts.enter_message(self._history)
            if text is None:
                self._screen.way_back(self._client.url, self._session_id)
                return exit_codes.OK
            await self._turn(text)

    async def _turn(self, text: str) -> Session:
        # With a key, sending again after a lost connection cannot start two turns.
        key = str(uuid4())
        try:
            accepted = await self._follower.patiently(
                lambda: self._client.send_message(self._session_id, text, idempotency_key=key)
            )
        except Conflict as error:
            self._screen.note(f"{describe(error)}: somebody else is talking here; your message was not sent.")
            return await self._see_through(await self._follower.to_the_end())
        self._follower.note_accepted(accepted)
        return await self._see_through(await self._follower.to_the_end())

    async def _see_through(self, session: Session) -> Session:
        """Follow the session and answer what it asks until it is idle or has failed."""
        while True:
            if session.status == "running":
                session = await self._follower.to_the_end()
            elif session.status == "interrupted":
                await self._answer_all(await self._all_pending(session))
                # Not simply what it is now: the turn may have ended already, and its words are still to be printed.
                session = await self._follower.to_the_end()
            else:
                return session

    async def _all_pending(self, session: Session) -> tuple[Interrupt, ...]:
        """What is asked, once those that are asked at the same time have had a moment to arrive too."""
        await asyncio.sleep(MOMENT)
        session = await self._follower.patiently(lambda: self._client.get_session(session.session_id))
        return session.interrupts

    async def _answer_all(self, interrupts: tuple[Interrupt, ...]) -> None:
        mine = [interrupt for interrupt in interrupts if interrupt.interrupt_id not in self._left_to_others]
        for position, interrupt in enumerate(mine, start=1):
            try:
                await self._answer(interrupt, position, len(mine))
            except SettledElsewhere as settled:
                self._screen.note(_what_happened(settled.interrupt))
                self._a_prompt_vanished = True
        if interrupts and all(asked.interrupt_id in self._left_to_others for asked in interrupts):
            await self._see_others_answer(interrupts)

    async def _see_others_answer(self, interrupts: tuple[Interrupt, ...]) -> None:
        """Return once one of them is settled, and say how."""
        watching = [asyncio.ensure_future(self._follower.settled(asked.interrupt_id)) for asked in interrupts]
        try:
            done, _ = await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
            for settled in done:
                self._screen.note(_what_happened(settled.result()))
        finally:
            for task in watching:
                task.cancel()
            await asyncio.wait(watching)

    async def _answer(self, interrupt: Interrupt, position: int, count: int) -> None:
        if self._a_prompt_vanished:
            # A key on its way to the prompt that closed must not answer this one.
            self._a_prompt_vanished = False
            await self._unless_settled(interrupt, prompts.press_enter("Press Enter for the next question."))
        self._screen.interrupt(interrupt, position, count)
        reason = why_not(interrupt, self._me)
        if reason is not None:
            if interrupt.type != "tool_approval":
                self._screen.custom(interrupt)
            self._leave_to_others(interrupt, reason)
            return
        refused: ChatAnswer | None = None
        while True:
            try:
                answer = await self._unless_settled(interrupt, self._answerer.ask(interrupt, refused))
            except PersonLeft:
                self._screen.note("Not answered; it stays open.", style="dim")
                raise
            try:
                await self._post(interrupt, answer)
            except (Invalid, TooLarge) as error:
                self._screen.note(_not_taken(error), style="red")
                refused = answer
                continue
            except Forbidden as error:
                if error.code not in _FOR_OTHERS:
                    raise
                # What the server knows of the key has changed since the chat began.
                self._leave_to_others(interrupt, f"{describe(error)}.")
                return
            except (Conflict, Gone, NotFound) as error:
                if error.code == "interrupt_claimed":
                    self._screen.note(f"{describe(error)}; your answer was not taken.")
                    refused = answer
                    continue
                self._screen.note(f"Your answer came too late. {describe(error)}.")
                return
            for asked, answered in answer.said:
                self._screen.answered(asked, answered)
            return

    def _leave_to_others(self, interrupt: Interrupt, reason: str) -> None:
        self._screen.note(f"{reason} It waits; Ctrl-C leaves it to them.")
        self._left_to_others.add(interrupt.interrupt_id)

    async def _post(self, interrupt: Interrupt, answer: ChatAnswer) -> None:
        # Safe to repeat: the same answer again gets the stored outcome.
        self._follower.note_accepted(
            await self._follower.patiently(
                lambda: self._client.resume(self._session_id, interrupt.interrupt_id, answer.value)
            )
        )

    async def _unless_settled(self, interrupt: Interrupt, prompt: Coroutine[Any, Any, Any]) -> Any:
        """Run a prompt; close it and raise `SettledElsewhere` when the interrupt is settled meanwhile."""
        prompting = asyncio.ensure_future(prompt)
        watching = asyncio.ensure_future(self._follower.settled(interrupt.interrupt_id))
        try:
            await asyncio.wait({prompting, watching}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done() and not prompting.done():
                raise SettledElsewhere(watching.result())
            return prompting.result()
        finally:
            for task in (prompting, watching):
                task.cancel()
            await asyncio.wait({prompting, watching})


def _not_taken(error: Invalid | TooLarge) -> str:
    """What is wrong with an answer and, in the server's words for that, what is expected."""
    wrong = wrong_values(error) if isinstance(error, Invalid) and error.errors else [one_line(error.detail)]
    return "Your answer was not taken" + (f": {wrong[0]}." if len(wrong) == 1 else ":\n  " + "\n  ".join(wrong))


def _what_happened(interrupt: Interrupt) -> str:
    match interrupt.status:
        case "expired":
            return "This question has expired."
        case "cancelled":
            return "The agent withdrew this question."
        case _:
            return f"This was answered by {who(interrupt.resolved_by)}."
