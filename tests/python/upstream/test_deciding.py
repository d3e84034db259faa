"""Tests of pydantic-ai decide in its own words, and what they decide is asked and answered in the turn."""

from __future__ import annotations

import pytest

from tests.python.upstream import running


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> running.Results:
    """What came of the samples, by name."""
    written = tmp_path_factory.mktemp("upstream") / "results.json"
    return running.run("pydantic_ai", "samples_pydantic_ai.py", written, alone="test_is_without_a_turn")


@pytest.mark.parametrize(
    ("name", "questions"),
    [
        ("test_is_approved", 2),
        ("test_is_approved_with_other_arguments", 2),
        ("test_is_denied", 2),
        ("test_runs_without_a_loop_of_its_own", 2),
        ("test_is_iterated", 0),
    ],
)
def test_what_is_decided_is_asked_once_and_not_again_in_a_replay(
    results: running.Results, name: str, questions: int
) -> None:
    result = results[name]
    assert result["outcome"] == "passed", result["error"]
    assert result["questions"] == questions
    assert result["steps"] >= 1
    assert result["replays"] >= 1


def test_what_is_named_so_runs_without_a_turn(results: running.Results) -> None:
    result = results["test_is_without_a_turn"]
    assert result["outcome"] == "passed", result["error"]
    assert result["entries"] == 0
