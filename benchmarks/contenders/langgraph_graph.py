"""The job as a LangGraph graph: two steps and the question are nodes, so that a resume repeats neither step."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from benchmarks.contenders.host import work


class State(TypedDict, total=False):
    """What a thread keeps."""

    message: str
    first: int
    answer: str
    second: int


def first(state: State) -> State:
    """The step before the question."""
    return {"first": work(1)}


def question(state: State) -> State:
    """What a resume runs again: it does nothing but ask."""
    return {"answer": interrupt({"type": "question", "prompt": "Go on?"})}


def second(state: State) -> State:
    """The step after it."""
    return {"second": work(2)}


async def first_async(state: State) -> State:
    """`first` on an event loop: what is no coroutine is called in a thread there."""
    return first(state)


async def question_async(state: State) -> State:
    """`question` there."""
    return question(state)


async def second_async(state: State) -> State:
    """`second` there."""
    return second(state)


def built(*nodes: Any) -> StateGraph[State]:
    """The graph of these three nodes."""
    builder = StateGraph(State)
    for name, node in zip(("first", "question", "second"), nodes, strict=True):
        builder.add_node(name, node)
    builder.add_edge(START, "first")
    builder.add_edge("first", "question")
    builder.add_edge("question", "second")
    builder.add_edge("second", END)
    return builder


builder = built(first, question, second)
asynchronous = built(first_async, question_async, second_async)
graph = builder.compile()
"""What the dev server serves; it brings its own saver."""
