"""`Compaction`: a conversation that got too long goes on with a summary of its beginning.

Nothing is taken out of a session: the summary is one message more, which says how many before it it stands for.
Models are shown the last one and what it does not stand for; people all that was said.

A compaction that stands behind history processors sums up what they have left, as they have left it: what they cut off
or leave out is to be read by no model, and the one that writes the summary is one. So a summary stands for the messages
that it was made of and for no others. One that was left out stays among those that processors are given: nothing is
out of their reach that is not in a summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hitl.agents.limits import estimated_tokens, tokens_of
from hitl.agents.participant import Participant
from hitl.messages import ChatMessage
from hitl.models.attached import outline_of
from hitl.models.chat_client import ModelRequest
from hitl.models.recording import record_model_call
from hitl.turn.runtime import Turn

if TYPE_CHECKING:
    from hitl.models.chat_client import ChatClient

_STANDS_FOR: Final = "hitl_stands_for"
"""The member of a summary's `user_params`, which no model sees, that says for how many messages it stands."""

_NOT_FOR: Final = "hitl_not_for"
"""The member that says for which of them it does not, since processors had left them out: `[first, end]` of each
row."""

Numbered = tuple[int, ChatMessage]
"""A message as processors have left it, and the number that it has in its session."""

INSTRUCTIONS: Final = (
    "You are given the beginning of a conversation between a user and an assistant with tools. Write a summary with "
    "which the assistant can go on without it: what the user asked for, in their words; what was decided, by whom; "
    "what tools did and returned, with names, ids, numbers and paths exactly as they are; what is still to be done. "
    "Write nothing but the summary."
)


class Compaction:
    """When and how a conversation is summed up. Tokens are estimated, four characters each.

    `compaction=` puts it before all history processors. As one of `history_processors` it measures and sums up what
    those before it have left, and its summary stands for that and nothing else. Those before it may leave messages out
    and assign to their fields; a message that they made is a ValueError.

    Example:
        agent = ReActAgent(compaction=Compaction(over_tokens=100_000, keep_tokens=20_000))

        def without_images(ctx: RunContext, messages: list[ChatMessage]) -> list[ChatMessage]:
            for message in messages:
                message.attachments = None
            return messages

        later = ReActAgent(history_processors=[without_images, Compaction(over_tokens=50_000)])
    """

    def __init__(
        self,
        *,
        over_tokens: int = 100_000,
        keep_tokens: int = 20_000,
        client: ChatClient | None = None,
        model_name: str | None = None,
        instructions: str = INSTRUCTIONS,
    ) -> None:
        """
        Args:
            over_tokens: How long what a model is shown may get, without instructions and tools, before it is summed up.
            keep_tokens: About how much of its end stays as it is, less than `over_tokens`. A message with tool calls
                and what came of them stay together.
            client: Who writes the summary; by default the agent's own client.
            model_name: The model that writes it; by default the agent's own, or `default_model` of `client`.
            instructions: What the model is told to do.

        Raises:
            ValueError: For numbers that cannot be, and for a client of which nobody says the model.
        """
        for option, number in (("over_tokens", over_tokens), ("keep_tokens", keep_tokens)):
            if type(number) is not int or number < 1:
                raise ValueError(f"Compaction: {option} must be a whole number of 1 or more, got {number!r}")
        if keep_tokens >= over_tokens:
            raise ValueError(f"Compaction: keep_tokens ({keep_tokens}) must be less than over_tokens ({over_tokens})")
        if client is not None and model_name is None and getattr(client, "default_model", None) is None:
            raise ValueError("Compaction: a client needs model_name beside it")
        self.over_tokens = over_tokens
        self.keep_tokens = keep_tokens
        self.instructions = instructions
        self._client = client
        self._model_name = model_name

    async def sum_up(
        self, turn: Turn, agent: Participant, history: Sequence[ChatMessage], given: Sequence[Numbered]
    ) -> tuple[ChatMessage | None, float]:
        """The summary that `history` is to be continued with, where it is too long, and the tokens that it cost.

        `given`: what is left of the history where the compaction stands."""
        before = SummedUp(history)
        rest = before.rest_of(given)
        until = self._until(before, rest)
        if until is None:
            return None, 0
        client = agent.chat_client() if self._client is None else self._client
        model = str(
            self._model_name or (agent.model() if self._client is None else getattr(client, "default_model", ""))
        )
        told = [*([] if before.summary is None else [before.summary]), *(message for _, message in rest[:until])]
        request = ModelRequest(
            model,
            [ChatMessage.system_message(content=self.instructions), ChatMessage.user_message(content=transcript(told))],
        )
        stands_for = before.and_for({number for number, _ in rest[:until]})

        # An agent says how its own client is asked again.
        retries, transient = (agent.retries, agent.transient) if self._client is None else (None, None)

        async def ask() -> dict[str, Any]:
            reply = await record_model_call(
                turn, client, client.complete, request, retries=retries, transient=transient
            )
            text = reply.message.content or ""
            return {"text": text, "tokens": tokens_of(reply, request.messages), "stands_for": stands_for}

        # A step around that of the model, so that no reader takes the summary for a message of the agent; with a key,
        # so that turns which began without it go on.
        recorded: dict[str, Any] | None = await turn.run_step("step", "compaction", ask, key="compaction", past=None)
        if recorded is None or not recorded["text"]:
            return None, 0
        # What it was made of, however the options are now; journals of releases that knew one order do not say it.
        params = recorded.get("stands_for", stands_for)
        return ChatMessage.system_message(content=recorded["text"], user_params=params), recorded["tokens"]

    def _until(self, before: SummedUp, rest: Sequence[Numbered]) -> int | None:
        """How many of the messages are to be summed up; None while they are not."""
        messages = [message for _, message in rest]
        if estimated_tokens(messages if before.summary is None else [before.summary, *messages]) <= self.over_tokens:
            return None
        until, kept = len(messages), 0
        while until > 0 and (kept := kept + estimated_tokens([messages[until - 1]])) <= self.keep_tokens:
            until -= 1
        until = before.whole(rest[: min(until, len(messages) - 1)])
        # Where the end alone is too long there is little to win, and the next request would do it again.
        is_worth_it = estimated_tokens(messages[:until]) * 2 >= self.over_tokens - self.keep_tokens
        return until if until > 0 and is_worth_it else None


class SummedUp:
    """The last summary of a conversation, and for which of its messages it stands."""

    def __init__(self, history: Sequence[ChatMessage]) -> None:
        self.summary: ChatMessage | None = None
        """None for a conversation without any."""
        self._history = history
        self._numbers: set[int] = set()
        end = 0
        for index, message in enumerate(history):
            stands_for = _stands_for(message)
            if stands_for is not None and end <= stands_for <= index:
                self.summary, end = message, stands_for
        if self.summary is not None:
            self._numbers = set(range(end)).difference(*_not_for(self.summary, end))

    def given(self) -> list[Numbered]:
        """What the first processor is given: from the first message on that the summary does not stand for, without
        summaries. Not less, though it may stand for some of these too: one that shows the last twenty would reach back
        for older ones as soon as those are summed up."""
        begin = 0
        while begin in self._numbers:
            begin += 1
        return [
            (number, message)
            for number, message in enumerate(self._history)
            if number >= begin and _stands_for(message) is None
        ]

    def rest_of(self, given: Sequence[Numbered]) -> list[Numbered]:
        """Those of the messages for which the summary does not stand."""
        return [(number, message) for number, message in given if number not in self._numbers]

    def shown(self, given: Sequence[Numbered]) -> list[ChatMessage]:
        """The summary in the place of the messages for which it stands, as models are shown it."""
        rest = [message for _, message in self.rest_of(given)]
        if self.summary is None:
            return rest
        # As the user's: some providers take instructions at the beginning only, and all want a user's message first.
        text = f"[What was said before, summed up]\n\n{self.summary.content}"
        return [ChatMessage.user_message(content=text), *rest]

    def and_for(self, numbers: set[int]) -> dict[str, Any]:
        """The `user_params` of a summary that stands for these messages too."""
        stands_for = self._numbers | numbers
        end = max(stands_for) + 1
        while end < len(self._history) and _stands_for(self._history[end]) is not None:
            end += 1
        rows: list[list[int]] = []
        for number in range(end):
            if number in stands_for or _stands_for(self._history[number]) is not None:
                continue
            if rows and rows[-1][1] == number:
                rows[-1][1] += 1
            else:
                rows.append([number, number + 1])
        return {_STANDS_FOR: end, **({_NOT_FOR: rows} if rows else {})}

    def whole(self, messages: Sequence[Numbered]) -> int:
        """How many of them, at most, part no call from its results: judged by the messages of the session, whatever
        processors have made of them."""
        heads = heads_of(self._history)
        missing = Counter(heads[number] for number in range(len(heads)) if number not in self._numbers)
        seen: set[int] = set()
        parted: set[int] = set()
        until = 0
        for index, (number, _) in enumerate(messages):
            if number not in seen:
                seen.add(number)
                missing[heads[number]] -= 1
            if missing[heads[number]]:
                parted.add(heads[number])
            else:
                parted.discard(heads[number])
            if not parted:
                until = index + 1
        return until


def heads_of(history: Sequence[ChatMessage]) -> list[int]:
    """Of each message the number of the one that it stays together with: of a result that of the calls, else its
    own."""
    heads: list[int] = []
    for number, message in enumerate(history):
        heads.append(heads[-1] if heads and message.role == "tool" else number)
    return heads


def shown_to_models(history: Sequence[ChatMessage]) -> list[ChatMessage]:
    """What models are shown of a conversation."""
    summed_up = SummedUp(history)
    return summed_up.shown(summed_up.given())


def transcript(messages: Sequence[ChatMessage]) -> str:
    """A conversation as one text: providers refuse tool calls in a request without those tools. Of files it has the
    text or the name, so that a summary tells of them."""
    parts: list[str] = []
    for message in messages:
        if message.role == "system":
            parts.append(f"Summary of what was before:\n{message.content}")
            continue
        who = f"Result of {message.name or 'a tool'}" if message.role == "tool" else message.role.capitalize()
        calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message.tool_calls or []]
        said = [message.content or ""] if message.content or not calls else []
        line = f"{who}: {' '.join([*said, *(f'[calls {call}]' for call in calls)])}"
        parts.append("\n".join([line, *map(outline_of, message.attached)]))
    return "\n\n".join(parts)


def _stands_for(message: ChatMessage) -> int | None:
    """For how many messages it stands; None for what is no summary. Those of users and models never are one."""
    if message.role != "system" or not message.user_params:
        return None
    number = message.user_params.get(_STANDS_FOR)
    return number if type(number) is int else None


def _not_for(summary: ChatMessage, end: int) -> list[range]:
    """For which of the first `end` messages it does not stand."""
    rows: Any = (summary.user_params or {}).get(_NOT_FOR)
    ranges: list[range] = []
    # Whoever sends a message of this role chooses its members too, any JSON.
    for row in rows if isinstance(rows, list) else []:
        match row:
            case [int(first), int(last)]:
                ranges.append(range(max(first, 0), min(last, end)))
            case _:
                pass
    return ranges
