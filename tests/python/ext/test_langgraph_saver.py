"""`HitlSaver`: graphs in a loop of their own, whose checkpoints are in a store of hitl."""

from __future__ import annotations

import asyncio
import operator
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer

import hitl
from hitl.errors import StoreError
from hitl.ext.langgraph import HitlSaver
from tests.python.ext.langgraph_saved import graph as asking_graph
from tests.python.support import postgres
from tests.python.support.frameworks import ROOT


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store that survives its processes; the tests of this file name other threads."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path_factory.mktemp('saver') / 'graphs.db'}"
        return
    with postgres.database() as database:
        yield database


class Notes(TypedDict):
    notes: Annotated[list[str], operator.add]
    large: str


def noting(saver: Any) -> Any:
    """Takes a note of what it is given, and leaves what is large alone."""
    builder = StateGraph(Notes).add_node("note", lambda state: {"notes": [f"{len(state['notes'])}"]})
    return builder.add_edge(START, "note").compile(checkpointer=saver)


def thread(name: str, **more: str) -> Any:
    return {"configurable": {"thread_id": name, **more}}


# -- what every saver has to do ----------------------------------------------------------------------------------------


async def whole(store: str) -> None:
    """The conformance suite of LangGraph, of which nothing is left out."""

    @checkpointer_test(name="HitlSaver")
    async def saver() -> AsyncIterator[HitlSaver]:
        async with HitlSaver(store) as made:
            yield made

    report = await validate(saver)
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    passed = {name for name, result in report.results.items() if result.passed}
    assert passed == {capability.value for capability in ALL_CAPABILITIES}
    assert sum(result.tests_passed for result in report.results.values()) == 81


async def test_it_does_what_every_saver_has_to(address: str) -> None:
    await whole(address)


async def test_so_it_does_in_memory() -> None:
    await whole("memory")


# -- graphs ------------------------------------------------------------------------------------------------------------


def saved(*arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.python.ext.langgraph_saved", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_graph_that_asked_and_was_killed_goes_on_in_another_process(address: str, tmp_path: Path) -> None:
    told = tmp_path / "ran"
    with saved(address, told) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "Send it?\n"
        asking.send_signal(signal.SIGKILL)
    with saved(address, told, "yes") as going_on:
        done, _ = going_on.communicate()
    assert (going_on.returncode, done) == (0, "['first', 'yes', 'book', 'send']\n")
    # What was finished beside the question did not run again.
    assert told.read_text().split() == ["first", "book", "yes", "send"]


async def test_threads_and_loops_use_one_saver(address: str, tmp_path: Path) -> None:
    async with hitl.Store(address) as store:
        saver = HitlSaver(store)
        compiled = asking_graph(saver, tmp_path / "ran")
        await asyncio.gather(*(compiled.ainvoke({"done": []}, thread(f"at once {n}")) for n in range(4)))
        # The plain methods block the loop, as those of every saver do, and no more than that.
        assert compiled.get_state(thread("at once 3")).next == ("ask",)
        await asyncio.to_thread(compiled.invoke, {"done": []}, thread("in a thread"))
        await saver.aclose()
        assert (await compiled.aget_state(thread("in a thread"))).interrupts[0].value == "Send it?"
        # Runs of agents and their sessions are beside them.
        result = await hitl.run(noted, "hello", store=store)
        assert result.output == "noted"


async def noted(message: hitl.ChatMessage, state: list[hitl.ChatMessage]) -> Any:
    return hitl.ChatMessage(role="assistant", content="noted"), state


def test_branches_of_a_thread_keep_their_own_values(address: str) -> None:
    with HitlSaver(address) as saver:
        compiled = noting(saver)
        compiled.invoke({"notes": ["a"], "large": "x"}, thread("branches"))
        fork = compiled.get_state(thread("branches")).config
        branches = [compiled.update_state(fork, {"notes": [name]}, as_node="note") for name in ("left", "right")]
        notes = [compiled.get_state(each).values["notes"] for each in branches]
        assert notes == [["a", "1", "left"], ["a", "1", "right"]]
        history = [*compiled.get_state_history(thread("branches"), limit=3, filter={"source": "update"})]
        assert [each.values["notes"][-1] for each in history] == ["right", "left"]


def test_what_did_not_change_is_stored_once_and_what_nobody_names_goes(tmp_path: Path) -> None:
    path = tmp_path / "graphs.db"
    large = "x" * 100_000

    def rows(table: str) -> int:
        # One that is left to be collected would be closed while the saver has the file, and take its log away.
        with closing(sqlite3.connect(path)) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def values(channel: str) -> str:
        return f"graph_values WHERE channel = '{channel}'"

    with HitlSaver(path) as saver:
        compiled = noting(saver)
        compiled.invoke({"notes": [], "large": large}, thread("long"))
        for _ in range(10):
            compiled.invoke({"notes": ["n"]}, thread("long"))
    assert (rows("graph_checkpoints"), rows(values("large"))) == (33, 1)
    assert rows(values("notes")) > 20
    with HitlSaver(path) as saver:
        compiled = noting(saver)
        steps = [each.metadata["step"] for each in saver.list(None)]
        assert steps == [*range(31, -2, -1)]
        inputs = [each.metadata["step"] for each in saver.list(thread("long"), filter={"source": "input"}, limit=9)]
        assert inputs == steps[2::3][:9]
        before = compiled.get_state(thread("long"))
        saver.prune(["long"])
        after = compiled.get_state(thread("long"))
        assert (after.values, after.config) == (before.values, before.config)
        assert after.values["large"] == large
        compiled.invoke({"notes": ["one more"]}, thread("long"))
    assert (rows("graph_checkpoints"), rows(values("large"))) == (4, 1)
    assert rows(values("notes")) <= 4
    with HitlSaver(path) as saver:
        saver.delete_thread("long")
    assert [rows(table) for table in ("graph_checkpoints", "graph_values", "graph_writes")] == [0, 0, 0]


def test_pruning_leaves_what_a_delta_channel_is_made_of() -> None:
    class Chat(TypedDict):
        messages: Annotated[list[Any], DeltaChannel(_messages_delta_reducer, snapshot_frequency=7)]

    saver = HitlSaver("memory")
    builder = StateGraph(Chat).add_node("reply", lambda state: {"messages": [AIMessage(f"{len(state['messages'])}")]})
    compiled = builder.add_edge(START, "reply").compile(checkpointer=saver)

    def said() -> list[str]:
        return [each.content for each in compiled.get_state(thread("chat")).values["messages"]]

    for turn in range(5):
        compiled.invoke({"messages": [HumanMessage(f"turn {turn}")]}, thread("chat"))
    before, count = said(), len([*saver.list(thread("chat"))])
    saver.prune(["chat"])
    assert said() == before
    assert 1 < len([*saver.list(thread("chat"))]) < count
    compiled.invoke({"messages": [HumanMessage("after")]}, thread("chat"))
    assert said() == [*before, "after", f"{len(before) + 1}"]


async def test_a_graph_that_hitl_runs_leaves_its_saver_alone() -> None:
    saver = HitlSaver("memory")
    result = await hitl.run(noting(saver), "{}", context=None)
    assert result.status == "idle"
    assert [each async for each in saver.alist(None)] == []


# -- what is refused ---------------------------------------------------------------------------------------------------


class Pickles(JsonPlusSerializer):
    """A serializer that does so without saying it."""

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        return "pickle", b""

    def loads_typed(self, stored: tuple[str, bytes]) -> Any:
        assert stored[0] != "pickle", "somebody else's code would run here"
        return super().loads_typed(stored)


class Reverses:
    """A cipher of a kind."""

    def encrypt(self, plain: bytes) -> tuple[str, bytes]:
        return "reversed", plain[::-1]

    def decrypt(self, name: str, encrypted: bytes) -> bytes:
        return encrypted[::-1]


def test_nothing_is_pickled_and_nothing_pickled_is_read(tmp_path: Path) -> None:
    pickling = JsonPlusSerializer(pickle_fallback=True)
    for serde in (pickling, EncryptedSerializer(Reverses(), pickling)):
        with pytest.raises(ValueError, match="pickle_fallback"):
            HitlSaver("memory", serde=serde)
    with pytest.raises(ValueError, match="pickles a dict"):
        noting(HitlSaver("memory", serde=Pickles())).invoke({"notes": []}, thread("t"))
    path = tmp_path / "graphs.db"
    with HitlSaver(path) as saver:
        noting(saver).invoke({"notes": []}, thread("t"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE graph_values SET type = 'pickle' WHERE channel = 'notes'")
    with HitlSaver(path, serde=Pickles()) as saver, pytest.raises(ValueError, match="pickled value"):
        saver.get_tuple(thread("t"))


def test_values_can_be_encrypted(tmp_path: Path) -> None:
    path = tmp_path / "graphs.db"
    with HitlSaver(path, serde=EncryptedSerializer(Reverses())) as saver:
        noting(saver).invoke({"notes": ["secret note"]}, thread("t"))
        assert noting(saver).get_state(thread("t")).values["notes"] == ["secret note", "1"]
    assert b"secret note" not in path.read_bytes()
    assert b"secret note"[::-1] in path.read_bytes()


def test_what_is_wrong_is_said_and_changes_nothing(tmp_path: Path) -> None:
    saver = HitlSaver("memory")
    compiled = noting(saver)
    with pytest.raises(ValueError, match="names no thread"):
        saver.get_tuple({"configurable": {}})
    with pytest.raises(ValueError, match="null character"):
        compiled.invoke({"notes": []}, thread("a\0b"))
    with pytest.raises(ValueError, match="the thread_id holds a lone surrogate"):
        compiled.invoke({"notes": []}, thread("a\udcff"))
    with pytest.raises(ValueError, match="larger than the 268435456"):
        compiled.update_state(thread("large"), {"large": bytes(256 * 1024 * 1024 + 1)})
    with pytest.raises(ValueError, match="'keep_latest' or 'delete', got 'some'"):
        saver.prune(["t"], strategy="some")
    with pytest.raises(TypeError, match="thread_ids must be a list, got the str 'letter 7'"):
        saver.prune("letter 7")
    with pytest.raises(TypeError, match="run_ids must be a list, got the str 'run'"):
        saver.delete_for_runs("run")
    with pytest.raises(TypeError, match="store must be a Store, an address or a path, got int"):
        HitlSaver(7)  # type: ignore[arg-type]
    assert [*saver.list(None)] == []


def test_a_store_that_cannot_be_opened_or_is_closed_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as missing:
        HitlSaver(tmp_path / "no" / "such" / "graphs.db").get_tuple(thread("t"))
    assert missing.value.code == "store_parent_missing"
    with HitlSaver(tmp_path / "graphs.db") as saver:
        assert saver.get_tuple(thread("t")) is None
    with pytest.raises(ValueError, match="is closed"):
        saver.get_tuple(thread("t"))
