"""`Compaction`: a conversation that got too long goes on with a summary of its beginning.

Nothing is taken out of a session: the summary is one message more, which says how many before it it stands for.
Models are shown the last one and what it does not stand for; people, and the next compaction, all that was said.
"""

from __future__ import annotations

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

INSTRUCTIONS: Final = (
    "You are given the beginning of a conversation between a user and an assistant with tools. Write a summary with "
    "which the assistant can go on without it: what the user asked for, in their words; what was decided, by whom; "
    "what tools did and returned, with names, ids, numbers and paths exactly as they are; what is still to be done. "
    "Write nothing but the summary."
)


class Compaction:
    """When and how a conversation is summed up. Tokens are estimated, four characters each.

    Example:
        agent = ReActAgent(compaction=Compaction(over_tokens=100_000, keep_tokens=20_000))
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
        self, turn: Turn, agent: Participant, history: Sequence[ChatMessage]
    ) -> tuple[ChatMessage | None, float]:
        """The summary that `history` is to be continued with, where it is too long, and the tokens that it cost."""
        before, open_messages = _parted(history)
        until = self._until(before, [message for _, message in open_messages])
        if until is None:
            return None, 0
        client = agent.chat_client() if self._client is None else self._client
        model = str(
            self._model_name or (agent.model() if self._client is None else getattr(client, "default_model", ""))
        )
        told = [*([] if before is None else [before]), *(message for _, message in open_messages[:until])]
        request = ModelRequest(
            model,
            [ChatMessage.system_message(content=self.instructions), ChatMessage.user_message(content=transcript(told))],
        )

        # An agent says how its own client is asked again.
        retries, transient = (agent.retries, agent.transient) if self._client is None else (None, None)

        async def ask() -> dict[str, Any]:
            reply = await record_model_call(
                turn, client, client.complete, request, retries=retries, transient=transient
            )
            return {"text": reply.message.content or "", "tokens": tokens_of(reply, request.messages)}

        # A step around that of the model, so that no reader takes the summary for a message of the agent; with a key,
        # so that turns which began without it go on.
        recorded: dict[str, Any] | None = await turn.run_step("step", "compaction", ask, key="compaction", past=None)
        if recorded is None or not recorded["text"]:
            return None, 0
        stands_for = open_messages[until][0]
        summary = ChatMessage.system_message(content=recorded["text"], user_params={_STANDS_FOR: stands_for})
        return summary, recorded["tokens"]

    def _until(self, before: ChatMessage | None, messages: list[ChatMessage]) -> int | None:
        """How many of the messages are to be summed up; None while they are not."""
        if estimated_tokens(messages if before is None else [before, *messages]) <= self.over_tokens:
            return None
        until, kept = len(messages), 0
        while until > 0 and (kept := kept + estimated_tokens([messages[until - 1]])) <= self.keep_tokens:
            until -= 1
        until = min(until, len(messages) - 1)
        while until > 0 and messages[until].role == "tool":
            until -= 1
        # Where the end alone is too long there is little to win, and the next request would do it again.
        is_worth_it = estimated_tokens(messages[:until]) * 2 >= self.over_tokens - self.keep_tokens
        return until if until > 0 and is_worth_it else None


def shown_to_models(history: Sequence[ChatMessage]) -> list[ChatMessage]:
    """What models are shown of a conversation."""
    summary, messages = _parted(history)
    if summary is None:
        return [message for _, message in messages]
    # As the user's: some providers take instructions at the beginning only, and all want a user's message first.
    text = f"[What was said before, summed up]\n\n{summary.content}"
    return [ChatMessage.user_message(content=text), *(message for _, message in messages)]


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


def _parted(history: Sequence[ChatMessage]) -> tuple[ChatMessage | None, list[tuple[int, ChatMessage]]]:
    """The last summary, and the messages that it does not stand for, each with its place in the history."""
    summary, begin = None, 0
    for index, message in enumerate(history):
        stands_for = _stands_for(message)
        if stands_for is not None and begin <= stands_for <= index:
            summary, begin = message, stands_for
    return summary, [
        (index, message) for index, message in enumerate(history) if index >= begin and _stands_for(message) is None
    ]


def _stands_for(message: ChatMessage) -> int | None:
    """For how many messages it stands; None for what is no summary. Those of users and models never are one."""
    if message.role != "system" or not message.user_params:
        return None
    number = message.user_params.get(_STANDS_FOR)
    return number if type(number) is int else None
