"""What a session shows of the turns of graphs that change what was said before."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage, trim_messages
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from hitl import ChatMessage
from hitl.driver.shapes import as_agent as load
from tests.python.ext.langgraph_runs import Timeless, says
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects, run_all_prefixes

Shown = list[tuple[str, str | None]]


async def turns(graph: Any, *said: str) -> list[Shown]:
    """What the session has more after each of these messages."""
    loaded, state, shown = load(graph), list[ChatMessage](), list[Shown]()
    for number, text in enumerate(said):
        turn = LocalTurn(agent=loaded.name, turn_id=f"turn-{number}")
        _, after = await turn.run(loaded.run, ChatMessage.user_message(content=text), state)
        assert [each.content for each in after[: len(state)]] == [each.content for each in state]
        shown.append([(each.role, each.content) for each in after[len(state) :]])
        state = after
    return shown


def heard(*messages: BaseMessage) -> str:
    return f"heard {', '.join(str(each.content) for each in messages)}"


def of(*nodes: Any, state: Any = MessagesState) -> Any:
    return StateGraph(state).add_sequence(list(nodes)).add_edge(START, nodes[0].__name__).compile()


def answer(state: Any) -> Any:
    return {"messages": [AIMessage(heard(*state["messages"]))]}


# -- graphs that take something away -----------------------------------------------------------------------------------


def forget(state: MessagesState) -> Any:
    return {"messages": [RemoveMessage(id=str(each.id)) for each in state["messages"][:-3]]}


def trim(state: MessagesState) -> Any:
    kept = trim_messages(state["messages"], strategy="last", max_tokens=3, token_counter=len, start_on="human")
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *kept]}


@pytest.mark.parametrize("shorten", [forget, trim])
async def test_a_conversation_that_was_shortened_is_not_shown_again(shorten: Any) -> None:
    shown = await turns(of(shorten, answer), "a", "b", "c", "d")
    assert shown[:2] == [
        [("user", "a"), ("assistant", "heard a")],
        [("user", "b"), ("assistant", "heard a, heard a, b")],
    ]
    assert shown[2] == [("user", "c"), ("assistant", "heard b, heard a, heard a, b, c")]
    assert shown[3] == [("user", "d"), ("assistant", f"heard c, {shown[2][1][1]}, d")]


async def test_what_was_taken_away_at_the_end_leaves_what_was_said_since() -> None:
    def end(state: MessagesState) -> Any:
        return {"messages": [RemoveMessage(id=str(each.id)) for each in state["messages"][:2]]}

    assert await turns(of(answer, end), "a", "b") == [
        [("user", "a"), ("assistant", '{"messages":[]}')],
        [("user", "b"), ("assistant", '{"messages":[]}')],
    ]


# -- graphs that write something anew ----------------------------------------------------------------------------------


async def test_an_earlier_message_that_was_edited_is_not_shown_again_nor_what_follows_it() -> None:
    def redact(state: MessagesState) -> Any:
        return {"messages": [HumanMessage("[gone]", id=each.id) for each in state["messages"][:-1:2]]}

    shown = await turns(of(redact, answer), "a", "b", "c")
    assert shown[0] == [("user", "a"), ("assistant", "heard a")]
    assert shown[1] == [("user", "b"), ("assistant", "heard [gone], heard a, b")]
    assert shown[2] == [("user", "c"), ("assistant", f"heard [gone], heard a, [gone], {shown[1][1][1]}, c")]


async def test_a_reply_that_has_the_id_of_an_earlier_one_is_shown_as_the_reply_that_it_is() -> None:
    def again(state: MessagesState) -> Any:
        return {"messages": [RemoveMessage(id="said")] if len(state["messages"]) > 1 else []}

    def say(state: MessagesState) -> Any:
        return {"messages": [AIMessage(heard(*state["messages"]), id="said")]}

    assert await turns(of(again, say), "a", "b") == [
        [("user", "a"), ("assistant", "heard a")],
        [("user", "b"), ("assistant", "heard a, b")],
    ]


async def test_messages_without_ids_are_shown_once() -> None:
    class Replaced(TypedDict):
        messages: list[AnyMessage]

    def say(state: Replaced) -> Any:
        return {"messages": [*before, *state["messages"], AIMessage(heard(*before))]}

    def remember(state: Replaced) -> Any:
        before[:] = [each.model_copy(update={"id": None}) for each in state["messages"][-3:]]
        return {"messages": list(before)}

    before: list[Any] = []
    assert await turns(of(say, remember, state=Replaced), "a", "b") == [
        [("user", "a"), ("assistant", "heard ")],
        [("user", "b"), ("assistant", "heard a, heard ")],
    ]


async def test_of_messages_without_ids_each_that_is_said_twice_is_shown_twice() -> None:
    class Added(TypedDict):
        messages: Annotated[list[Any], lambda old, new: [*old, *new]]

    def say(state: Added) -> Any:
        return {"messages": [AIMessage("yes"), AIMessage("yes"), AIMessage(f"{len(state['messages'])}")]}

    twice = [("assistant", "yes"), ("assistant", "yes")]
    assert await turns(of(say, state=Added), "a", "b") == [
        [("user", "a"), *twice, ("assistant", "1")],
        [("user", "b"), *twice, ("assistant", "5")],
    ]


async def test_a_message_that_the_graph_puts_before_the_person_s_leaves_that_where_it_is() -> None:
    def hint(state: MessagesState) -> Any:
        *earlier, said = state["messages"]
        put = [HumanMessage("be kind", name="hints"), said]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *earlier, *put]}

    shown = await turns(of(hint, answer), "a")
    assert shown == [[("user", "a"), ("user", "be kind"), ("assistant", "heard be kind, a")]]


# -- summaries ---------------------------------------------------------------------------------------------------------


class Streams(GenericFakeChatModel):
    """Says the next of its messages, word by word."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def streaming(*said: str) -> Streams:
    return Streams(messages=iter([AIMessage(each) for each in said]))


def summarizing(model: Any, summarizer: Any, tools: Any = ()) -> Any:
    middleware = SummarizationMiddleware(summarizer, trigger=("messages", 5), keep=("messages", 1))
    return create_agent(model, list(tools), middleware=[middleware])


async def test_a_summary_is_the_model_s_and_no_message_of_the_person() -> None:
    agent = summarizing(streaming("one", "two", "three"), streaming("SUMMARY"))
    assert await turns(agent, "a", "b", "c") == [
        [("user", "a"), ("assistant", "one")],
        [("user", "b"), ("assistant", "two")],
        [("user", "c"), ("assistant", "three")],
    ]


async def test_what_a_turn_shows_beside_a_summary_is_the_same_from_every_prefix_of_its_journal() -> None:
    @tool
    def look(what: str) -> str:
        """Look."""
        current.append(what)
        return f"saw {what}"

    current: Effects = []
    model = says([("look", {"what": "it"})], last="Done.")
    earlier = [ChatMessage.user_message(content=text) for text in "abcd"]
    graph = Timeless(summarizing(model, says(last="SUMMARY"), [look]))
    run = await run_all_prefixes(lambda effects: graph, None, message="go", state=earlier)
    assert [(each.role, each.content) for each in run.state[4:]] == [
        ("user", "go"),
        ("assistant", None),
        ("tool", "saw it"),
        ("assistant", "Done."),
    ]


# -- words one by one --------------------------------------------------------------------------------------------------


async def streamed(graph: Any, state: Any = None) -> str:
    loaded = load(graph)
    turn = LocalTurn(agent=loaded.name)
    await turn.run(loaded.run, ChatMessage.user_message(content="go"), state or [])
    return "".join(delta.get("content", "") for _, _, delta in turn.port.deltas)


async def test_a_summary_is_not_shown_as_the_agent_s_words() -> None:
    earlier = [ChatMessage.user_message(content=text) for text in "abcd"]
    agent = summarizing(streaming("the answer"), streaming("the summary"))
    assert await streamed(agent, earlier) == "the answer"


@pytest.mark.parametrize("where", ["model", "config", "bound", "node"])
@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_model_that_is_not_to_be_streamed_is_not(where: str, plain: bool) -> None:
    inner: Any = streaming("between us")
    config: Any = {"tags": [TAG_NOSTREAM]} if where == "config" else None
    if where == "model":
        inner.tags = [TAG_NOSTREAM]
    if where == "bound":
        inner = inner.with_config(tags=[TAG_NOSTREAM])
    outer = streaming("for all")

    async def think(state: MessagesState) -> Any:
        return {"messages": [await inner.ainvoke(state["messages"], config)]}

    def think_plainly(state: MessagesState) -> Any:
        return {"messages": [inner.invoke(state["messages"], config)]}

    async def say(state: MessagesState) -> Any:
        return {"messages": [await outer.ainvoke(state["messages"])]}

    node: Any = RunnableLambda(think_plainly if plain else think)
    if where == "node":
        node = node.with_config(tags=[TAG_NOSTREAM])
    builder = StateGraph(MessagesState).add_sequence([("think", node), ("say", say)]).add_edge(START, "think")
    assert await streamed(builder.compile()) == "for all"
