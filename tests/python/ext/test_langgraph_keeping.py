"""Checkpoints of a turn: the conformance suite of LangGraph, whole."""

from __future__ import annotations

from collections.abc import AsyncIterator

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import BASE_CAPABILITIES

from hitl.ext.langgraph.keeping import TurnSaver


@checkpointer_test(name="TurnSaver")
async def turn_saver() -> AsyncIterator[TurnSaver]:
    yield TurnSaver()


async def test_the_saver_of_a_turn_does_what_every_saver_has_to() -> None:
    report = await validate(turn_saver)
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    passed = {name for name, result in report.results.items() if result.passed}
    assert passed >= {capability.value for capability in BASE_CAPABILITIES}
