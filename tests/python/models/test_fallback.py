"""One model after the other: which errors lead on, what is recorded, and what a reader sees."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, ReActAgent, StepError, TransientError
from hitl.messages import ToolCall
from hitl.models import Delta, FallbackChatClient, ModelReply, ModelRequest
from hitl.testing import ScriptedChatClient
from tests.python.support.local import LocalTurn

PAY: ToolCall = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}


class Refused(Exception):
    """What a provider answers with another status."""

    def __init__(self, status_code: int) -> None:
        super().__init__(status_code)
        self.status_code = status_code


class Model:
    """A chat client that does what a list says: text and calls are a reply, errors are raised after `said`."""

    def __init__(self, *script: Any, said: tuple[str, ...] = ()) -> None:
        self.script = list(script)
        self.said = said
        self.asked: list[str] = []
        """The model's name of each request."""
        self.is_prepared = self.is_closed = False

    def prepare(self) -> None:
        self.is_prepared = True

    async def aclose(self) -> None:
        self.is_closed = True

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request.model)
        if request.on_delta is not None:
            for piece in self.said:
                request.on_delta({"content": piece})
        now = self.script.pop(0)
        if isinstance(now, Exception):
            raise now
        if isinstance(now, str):
            return ModelReply(ChatMessage.assistant_message(content=now))
        return ModelReply(ChatMessage.assistant_message(tool_calls=now))


def away(seconds: float | None = None) -> TransientError:
    return TransientError("the model is away", seconds)


async def answer(client: FallbackChatClient, **options: Any) -> hitl.RunResult:
    return await hitl.run(ReActAgent(client=client, **options), "hi")


async def test_the_next_model_answers_at_once_where_one_is_away() -> None:
    # Asked to wait for an hour, which nobody does who may ask another.
    first, second = Model(away(3600)), Model("from the second")
    result = await answer(FallbackChatClient([(first, "a"), (second, "b")]))
    assert (result.status, result.output) == ("idle", "from the second")
    assert (first.asked, second.asked) == (["a"], ["b"])


@pytest.mark.parametrize("status", [401, 402, 403, 404, 429, 500, 529])
async def test_what_is_said_of_the_provider_leads_on(status: int) -> None:
    class Provider(Model):
        def is_transient(self, error: Exception) -> bool:
            return getattr(error, "status_code", 0) in (429, 500, 529)

    client = FallbackChatClient([(Provider(Refused(status)), "a"), (Model("ok"), "b")])
    assert (await answer(client)).output == "ok"


@pytest.mark.parametrize("error", [Refused(400), Refused(413), Refused(422), TypeError("a mistake")])
async def test_what_is_wrong_with_the_request_does_not(error: Exception) -> None:
    second = Model("never")
    result = await answer(FallbackChatClient([(Model(error), "a"), (second, "b")]))
    assert (result.status, second.asked) == ("error", [])


async def test_which_errors_lead_on_can_be_said() -> None:
    def leads_on(error: Exception) -> bool:
        return isinstance(error, Refused) and error.status_code == 413

    def client(error: Exception) -> FallbackChatClient:
        return FallbackChatClient([(Model(error), "a"), (Model("ok"), "b")], falls_back_on=leads_on)

    assert (await answer(client(Refused(413)))).output == "ok"
    assert (await answer(client(Refused(404)))).status == "error"


async def test_when_all_are_away_the_first_is_asked_again_after_a_pause_and_then_the_turn_is_suspended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = Model(away(), Refused(401), "at last"), Model(away(), away())
    client = FallbackChatClient([(first, "a"), (second, "b")], retries=1)
    with caplog.at_level(logging.WARNING, "hitl.models"):
        result = await answer(client)
    assert (result.error_code, first.asked, second.asked) == ("model_unavailable", ["a"] * 2, ["b"] * 2)
    assert result.error is not None
    assert result.error.startswith("ModelUnavailable: model 'a' was tried 4 times, last: TransientError")
    assert [record.getMessage() for record in caplog.records] == [
        "model a failed with TransientError: b is asked",
        "model a failed with Refused: b is asked",
    ]
    assert result.state is not None
    assert (await hitl.run(ReActAgent(client=client), result.state)).output == "at last"  # from the first again


async def test_the_agent_says_how_often_all_are_asked_again() -> None:
    first, second = Model(*[away()] * 2), Model(*[away()] * 2)
    client = FallbackChatClient([(first, "a"), (second, "b")])
    result = await answer(client, retries=0, transient="raise")
    assert (result.status, len(first.asked), len(second.asked)) == ("error", 1, 1)
    assert isinstance(result.exception, TransientError)


async def test_each_model_that_is_asked_is_a_try_in_the_journal_and_a_replay_asks_none() -> None:
    first, second = Model(away()), Model("ok")
    client = FallbackChatClient([(first, "a"), (second, "b")])

    async def agent() -> ModelReply:
        return await client.complete(ModelRequest("a", [ChatMessage.user_message(content="hi")]))

    recorded = LocalTurn()
    reply = await recorded.run(agent)
    assert (reply.message.content, reply.model) == ("ok", "b")
    failed, done = (result for _, result in recorded.port.steps)
    assert "the model is away (tried again after 0 s)" in failed["error"]["message"]
    assert done["value"]["model"] == "b"
    for length in range(1, len(recorded.port.journal) + 1):
        first.script, second.script = [away()], ["ok"]
        again = await LocalTurn(journal=recorded.port.journal[:length]).run(agent)
        assert again == reply
        is_whole = length == len(recorded.port.journal)
        assert (len(first.script), len(second.script)) == ((1, 1) if is_whole else (int(length > 1), 0))


async def test_a_reply_of_the_first_is_recorded_as_that_of_a_client_alone() -> None:
    journals = []
    for client in (FallbackChatClient([(Model("ok"), "a"), (Model(), "b")]), Model("ok")):
        turn = LocalTurn()
        await turn.run(ReActAgent(client=client, model_name="a").run_turn, ChatMessage.user_message(content="hi"), [])
        journals.append([{**entry, "at": 0} for entry in turn.port.journal])
    assert journals[0] == journals[1]


async def test_what_the_first_said_before_it_broke_off_is_taken_back_in_a_turn() -> None:
    client = FallbackChatClient([(Model(away(), said=("Hel",)), "a"), (Model("Good day", said=("Good ", "day")), "b")])
    turn = LocalTurn()
    await turn.run(ReActAgent(client=client).run_turn, ChatMessage.user_message(content="hi"), [])
    said = [(step, attempt, delta["content"]) for step, attempt, delta in turn.port.deltas]
    # All of one message; a higher attempt takes the place of what a lower one has said.
    assert said == [("0#1", 1, "Hel"), ("0#1", 2, "Good "), ("0#1", 2, "day")]


@pytest.mark.parametrize(("said", "output"), [((), "ok"), (("Hel",), None)])
async def test_outside_of_turns_nobody_else_is_asked_once_a_reader_has_a_piece(
    said: tuple[str, ...], output: str | None
) -> None:
    client = FallbackChatClient([(Model(away(), said=said), "a"), (Model("ok"), "b")])
    deltas: list[Delta] = []
    request = ModelRequest("a", [ChatMessage.user_message(content="hi")], on_delta=deltas.append)
    if output is None:
        with pytest.raises(TransientError):
            await client.complete(request)
        assert deltas == [{"content": "Hel"}]
    else:
        assert (await client.complete(request)).message.content == output


async def test_it_falls_back_also_inside_of_a_client_that_knows_nothing_of_it() -> None:
    inner = FallbackChatClient([(Model(away()), "a"), (Model("ok"), "b")])

    class Wrapper:
        default_model = "a"

        async def complete(self, request: ModelRequest) -> ModelReply:
            return await inner.complete(request)

    assert (await hitl.run(ReActAgent(client=Wrapper()), "hi")).output == "ok"


async def test_each_request_begins_with_the_first_and_what_one_called_the_other_may_go_on_with() -> None:
    paid: list[int] = []

    @hitl.tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        paid.append(1)
        return "paid"

    first, second = Model(away(), "all paid"), Model([PAY])
    agent = ReActAgent(client=FallbackChatClient([(first, "a"), (second, "b")]), tools=[pay])
    paused = await hitl.run(agent, "pay it")
    assert paused.state is not None
    done = await hitl.run(agent, paused.state.approve(paused.interrupts[0]))
    assert (done.output, paid, first.asked, second.asked) == ("all paid", [1], ["a", "a"], ["b"])


async def test_the_agent_s_model_is_the_first_one_s_and_the_others_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    def clients() -> tuple[Model, Model]:
        return Model(away()), Model("ok")

    first, second = clients()
    await answer(FallbackChatClient([(first, "a"), (second, "b")]), model_name="c")
    assert (first.asked, second.asked) == (["c"], ["b"])
    first, second = clients()
    monkeypatch.setenv("HITL_MODEL", "d")
    await answer(FallbackChatClient([first, (second, "b")]))
    assert (first.asked, second.asked) == (["d"], ["b"])
    monkeypatch.delenv("HITL_MODEL")
    scripted = ScriptedChatClient([{"content": "ok"}])
    client = FallbackChatClient([(Model(away()), "a"), scripted])  # a client alone: its own default
    assert (client.default_model, (await answer(client)).output) == ("a", "ok")


async def test_every_client_is_prepared_and_closed() -> None:
    models = [Model(), Model()]
    client = FallbackChatClient([(models[0], "a"), (models[1], "b"), ScriptedChatClient([])])
    client.prepare()
    await client.aclose()
    assert all(model.is_prepared and model.is_closed for model in models)
    assert repr(client) == "FallbackChatClient(a, b, scripted)"


async def never(error: Exception) -> bool:
    return False


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: FallbackChatClient([(Model(), "a")]), ValueError, "takes two models or more, got 1"),
    (lambda: FallbackChatClient([(Model(), "a"), Model()]), ValueError, r"models\[1\] names no model"),
    (lambda: FallbackChatClient([(Model(), "a"), "b"]), TypeError, r"models\[1\] must be a chat client or"),  # type: ignore[list-item]
    (lambda: FallbackChatClient([(Model(), "a"), (Model(), 1)]), TypeError, "name must be a str, got 1"),  # type: ignore[list-item]
    (lambda: FallbackChatClient([(Model(), "a"), (Model(), "")]), TypeError, "name must be a str, got ''"),
    (
        lambda: FallbackChatClient([(Model(), "a"), FallbackChatClient([(Model(), "b"), (Model(), "c")])]),
        TypeError,
        "list its models in this one",
    ),
    (
        lambda: FallbackChatClient([(Model(), "a"), (Model(), "b")], falls_back_on=404),  # type: ignore[arg-type]
        TypeError,
        "must be a function of an error, got 404",
    ),
    (
        lambda: FallbackChatClient([(Model(), "a"), (Model(), "b")], falls_back_on=never),
        TypeError,
        "must be a plain function of an error, got an async one",
    ),
    (lambda: FallbackChatClient([(Model(), "a"), (Model(), "b")], retries=-1), ValueError, "retries must be"),
]


@pytest.mark.parametrize(("make", "error", "words"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_mistake_is_told_when_the_client_is_made(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


async def test_what_cannot_be_stored_of_the_last_error_is_a_step_error_as_with_any_client() -> None:
    class Unstorable(TransientError):
        def __init__(self, holder: object) -> None:
            super().__init__("no")
            self.holder = holder
            self.args = (holder,)

    client = FallbackChatClient([(Model(away()), "a"), (Model(Unstorable(object())), "b")], retries=0)
    result = await answer(client, transient="raise")
    assert isinstance(result.exception, StepError)
