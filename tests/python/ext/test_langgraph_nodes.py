"""Nodes of a graph in a turn: what they write, and what LangGraph spares them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import CachePolicy, Command, interrupt
from pydantic import BaseModel, Field

import hitl
from hitl import ChatMessage, RunState, Store
from hitl.ext.langgraph.inside import Approvals
from hitl.ext.langgraph.keeping import PastTurns
from hitl.ext.langgraph.wire import message_from_wire, message_to_wire
from tests.python.ext.langgraph_runs import Says, Timeless, says
from tests.python.support.prefixes import run_all_prefixes


@dataclass
class Hit:
    message: HumanMessage


@pytest.mark.parametrize(
    "artifact", [[Document("a page", metadata={"number": 1})], {"first": Hit(HumanMessage("a page"))}, b"\xff"]
)
async def test_a_node_gets_the_artifact_that_a_tool_has_given(artifact: Any) -> None:
    seen: list[Any] = []

    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, Any]:
        """Search."""
        return "one hit", artifact

    async def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await says([("search", {"query": "a"})]).ainvoke(state["messages"])]}

    def read(state: MessagesState) -> dict[str, Any]:
        found = interrupt("Read it?") and state["messages"][-1]
        seen.append(found.artifact)
        return {"messages": [AIMessage("read")]}

    builder = StateGraph(MessagesState).add_node("call", call).add_node("tools", ToolNode([search]))
    builder.add_node("read", read).add_edge(START, "call").add_edge("call", "tools").add_edge("tools", "read")
    graph = builder.compile()
    await run_all_prefixes(lambda _: Timeless(graph), lambda _: True)
    assert seen
    assert all(each == artifact and type(each) is type(artifact) for each in seen)


async def test_the_next_turn_finds_arguments_and_artifacts_as_they_were(tmp_path: Path) -> None:
    seen: list[Any] = []

    @tool(response_format="content_and_artifact")
    def measure(größe: int) -> tuple[str, Any]:
        """Measure."""
        return "measured", Hit(HumanMessage("a page"))

    async def call(state: MessagesState) -> dict[str, Any]:
        seen[:] = state["messages"]
        return {"messages": [await says([("measure", {"größe": 3})]).ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState).add_node("call", call).add_node("tools", ToolNode([measure]))
    graph = builder.add_edge(START, "call").add_conditional_edges("call", tools_condition).compile()
    async with Store(tmp_path / "runs.db") as store:
        for message in ("go", "again"):
            result = await hitl.run(graph, message, store=store, session="one")
            assert result.status == "idle"
    _, asked, measured, *_ = seen
    assert asked.tool_calls[0]["args"] == {"größe": 3}
    assert measured.artifact == Hit(HumanMessage("a page"))


async def test_a_conversation_outlives_the_class_of_an_artifact() -> None:
    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, Any]:
        """Search."""
        return "one hit", Document("a page")

    async def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await says([("search", {"query": "a"})]).ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState).add_node("call", call).add_node("tools", ToolNode([search]))
    graph = builder.add_edge(START, "call").add_edge("call", "tools").compile()
    done = await hitl.run(graph, "go")
    assert done.status == "idle"
    kept = json.dumps([message.to_dict() for message in done.messages])
    gone = json.loads(kept.replace("langchain_core.documents.base:Document", "langchain_core.documents.base:Gone"))
    assert gone != json.loads(kept)
    *_, found = PastTurns([ChatMessage.from_dict(each) for each in gone]).messages
    assert found.text == "one hit"
    assert "a page" in json.dumps(found.artifact)


async def test_a_turn_goes_on_where_the_class_of_an_artifact_is_not_imported() -> None:
    read: list[Any] = []

    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, Any]:
        """Search."""
        return "one hit", [Document("a page")]

    async def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await says([("search", {"query": "a"})]).ainvoke(state["messages"])]}

    def ask(state: MessagesState) -> dict[str, Any]:
        interrupt("Read it?")
        read.extend(state["messages"][-1].artifact)
        return {"messages": [AIMessage("read")]}

    builder = StateGraph(MessagesState).add_node("call", call).add_node("tools", ToolNode([search]))
    builder.add_node("ask", ask).add_edge(START, "call").add_edge("call", "tools").add_edge("tools", "ask")
    graph = builder.compile()
    asked = await hitl.run(graph, "go")
    text = asked.state.to_string()
    elsewhere = text.replace("langchain_core.documents.base:Document", "langchain_core.documents.base:Gone")
    assert elsewhere != text
    state = RunState.from_string(graph, elsewhere)
    assert (await hitl.run(graph, state.answer(state.interrupts[0], "yes"))).status == "idle"
    (found,) = read
    assert found["page_content"] == "a page"


class Account(BaseModel):
    name: str
    password: str = Field(exclude=True)


def test_what_a_model_keeps_out_of_its_json_is_not_kept_with_its_message() -> None:
    given = {"accounts": [Account(name="ada", password="topsecret")]}
    wire = message_to_wire(ToolMessage("one hit", tool_call_id="1", artifact=given))
    assert "topsecret" not in str(wire)
    assert getattr(message_from_wire(wire), "artifact", None) == {"accounts": [{"name": "ada"}]}


class Sum(TypedDict):
    text: str
    total: int
    is_sent: bool


async def test_a_cache_spares_a_node_and_no_turn_needs_it_to_go_on() -> None:
    added: list[str] = []

    def add(state: Sum) -> dict[str, Any]:
        added.append(state["text"])
        return {"total": len(state["text"])}

    def send(state: Sum) -> dict[str, Any]:
        return {"is_sent": interrupt("Send it?")}

    def graph() -> Any:
        builder = StateGraph(Sum).add_node("add", add, cache_policy=CachePolicy()).add_node("send", send)
        return builder.add_edge(START, "add").add_edge("add", "send").compile(cache=InMemoryCache())

    here, elsewhere = graph(), graph()
    for _ in range(2):
        asked = await hitl.run(here, '{"text": "one"}')
        assert asked.status == "interrupted"
        for each in (here, elsewhere):
            state = hitl.RunState.from_string(each, asked.state.to_string())
            done = await hitl.run(each, state.answer(state.interrupts[0], True))
            assert done.output == '{"text":"one","total":3,"is_sent":true}', done
    assert added == ["one"]


async def test_a_node_that_waits_goes_on_when_another_turn_has_put_what_it_comes_to_into_the_cache() -> None:
    async def send(state: Sum) -> dict[str, Any]:
        total = await hitl.step(len, state["text"])
        return {"is_sent": interrupt("Send it?"), "total": total}

    builder = StateGraph(Sum).add_node("send", send, cache_policy=CachePolicy()).add_edge(START, "send")
    graph = builder.compile(cache=InMemoryCache())
    asked = [await hitl.run(graph, '{"text": "one"}') for _ in range(2)]
    for each in asked:
        done = await hitl.run(graph, each.state.answer(each.state.interrupts[0], True))
        assert done.output == '{"text":"one","total":3,"is_sent":true}', done


async def test_a_cache_spares_a_task_of_an_entrypoint() -> None:
    doubled: list[int] = []

    @task(cache_policy=CachePolicy())
    async def double(number: int) -> int:
        doubled.append(number)
        return number * 2

    @entrypoint(cache=InMemoryCache())
    async def flow(number: int) -> Any:
        first = await double(number)
        return [first, interrupt("Go on?"), await double(number)]

    run = await run_all_prefixes(lambda _: Timeless(flow, input=lambda _: 4), lambda _: "yes")
    assert run.response.content == '[8,"yes",8]'
    assert doubled == [4]


async def test_the_text_of_a_message_is_a_text_wherever_it_goes() -> None:
    said = AIMessage("a page")  # its `text` is of a class of LangChain's

    @task
    async def read() -> str:
        return said.text

    class Shelf(MessagesState):
        texts: list[str]

    @tool
    async def search(query: str) -> str:
        """Search."""
        return said.text

    async def call(state: Shelf) -> Command[str]:
        made = await says([("search", {"query": "a"})]).ainvoke(state["messages"])
        return Command(update={"texts": [said.text, await read()], "messages": [made]}, goto="tools")

    def end(state: Shelf) -> dict[str, Any]:
        texts = [*state["texts"], state["messages"][-1].text]
        return {"messages": [HumanMessage(said.text), AIMessage([{"type": "text", "text": said.text}])], "texts": texts}

    builder = StateGraph(Shelf).add_node("call", call).add_node("tools", ToolNode([search])).add_node("end", end)
    graph = builder.add_edge(START, "call").add_edge("tools", "end").compile()
    run = await run_all_prefixes(lambda _: Timeless(graph, output=lambda state: ", ".join(state["texts"])), None)
    assert run.response.content == "a page, a page, a page"


@pytest.mark.parametrize("how", ["batch", "chain", "parallel", "map"])
async def test_what_a_plain_node_asks_a_model_at_once_is_asked_once(how: str) -> None:
    asked: list[str] = []

    class Drafts(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "drafts"

        def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
            asked.append(messages[-1].text)
            return ChatResult(generations=[ChatGeneration(message=AIMessage(f"draft {len(asked)}"))])

    model = Drafts()
    chain = model | RunnableLambda(lambda said: said.text)
    ask: dict[str, Any] = {
        "batch": lambda: [each.text for each in model.batch(["a", "b"])],
        "chain": lambda: chain.batch(["a", "b"]),
        "parallel": lambda: list(RunnableParallel(one=chain, other=chain).invoke("a").values()),
        "map": lambda: chain.map().invoke(["a", "b"]),
    }

    def write(state: Sum) -> dict[str, Any]:
        drafts = sorted(ask[how]())
        return {"text": f"{interrupt(drafts)}: {', '.join(drafts)}"}

    graph = StateGraph(Sum).add_node("write", write).add_edge(START, "write").compile()
    first = await hitl.run(graph, '{"text": ""}')
    assert first.status == "interrupted"
    state = hitl.RunState.from_string(graph, first.state.to_string())
    done = await hitl.run(graph, state.answer(state.interrupts[0], "sent"))
    assert done.output == '{"text":"sent: draft 1, draft 2"}', done
    assert len(asked) == 2


@pytest.mark.parametrize("how", ["astream", "stream", "a chain's astream"])
async def test_what_a_node_has_a_model_say_word_by_word_is_asked_for_once(how: str) -> None:
    asked: list[str] = []

    class Drafts(Says):
        """Another draft each time."""

        def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
            asked.append(messages[-1].text)
            self.last = f"draft {len(asked)}"
            return super()._generate(messages, *args, **options)

    model = Drafts(rounds=[])
    chain = RunnableLambda(lambda given: given) | model

    async def draft(state: MessagesState) -> dict[str, Any]:
        said: Any = None
        async for chunk in (model if how == "astream" else chain).astream(state["messages"]):
            said = chunk if said is None else said + chunk
        assert said is not None
        interrupt(said.text)
        return {"messages": [AIMessage(f"sent {said.text}")]}

    def plain_draft(state: MessagesState) -> dict[str, Any]:
        said = "".join(chunk.text for chunk in model.stream(state["messages"]))
        interrupt(said)
        return {"messages": [AIMessage(f"sent {said}")]}

    builder = StateGraph(MessagesState).add_node("draft", plain_draft if how == "stream" else draft)
    graph = builder.add_edge(START, "draft").compile()
    first = await hitl.run(graph, "go")
    assert first.status == "interrupted", first
    state = hitl.RunState.from_string(graph, first.state.to_string())
    done = await hitl.run(graph, state.answer(state.interrupts[0], True))
    assert (done.output, len(asked)) == ("sent draft 1", 1)


async def test_what_a_node_is_told_in_events_it_is_told_again_when_it_goes_on() -> None:
    class Words(Says):
        def _stream(self, *args: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
            yield ChatGenerationChunk(message=AIMessageChunk(content="read"))

    async def read(state: MessagesState) -> dict[str, Any]:
        events = [event["event"] async for event in Words(rounds=[]).astream_events(state["messages"])]
        interrupt(sorted(set(events)))
        return {"messages": [AIMessage(" ".join(sorted(set(events))))]}

    graph = StateGraph(MessagesState).add_node("read", read).add_edge(START, "read").compile()
    first = await hitl.run(graph, "go")
    assert first.status == "interrupted", first
    state = hitl.RunState.from_string(graph, first.state.to_string())
    done = await hitl.run(graph, state.answer(state.interrupts[0], True))
    assert "on_chat_model_stream" in str(done.output)


def test_of_calls_that_share_an_id_each_that_was_approved_is_known() -> None:
    """Some servers of models give all calls of a reply one id, and both may be answered before either runs."""
    approvals, restored = Approvals(), Approvals()
    for cents in (1, 2):
        approvals.add("same", "pay", {"cents": cents}, judged=cents == 1)
    approvals.add("other", "pay", {"cents": 3}, judged=True)
    restored.update({"earlier": approvals.to_json()["other"]})
    restored.update(json.loads(json.dumps(approvals.to_json())))
    for known in (approvals, restored):
        assert [known.has("same", "pay", {"cents": cents}) for cents in (1, 2, 3)] == [True, True, False]
        assert [known.is_unjudged("same", "pay", {"cents": cents}) for cents in (1, 2, 3)] == [False, True, False]
        assert not known.has(None, "pay", {"cents": 1})
    assert restored.has("earlier", "pay", {"cents": 3})  # as a journal has it where an id is one call's
