"""The plugin that runs tests in turns sees what goes wrong there, and lets through what does not."""

from __future__ import annotations

import pytest

from tests.python.upstream import running


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> running.Results:
    """What came of the samples, by name."""
    written = tmp_path_factory.mktemp("upstream") / "results.json"
    return running.run("openai_agents", "samples.py", written, left_out="test_is_left_out")


def test_a_test_decides_in_its_frameworks_own_words(results: running.Results) -> None:
    for name in ("test_is_approved_by_its_own_words", "test_is_rejected_by_its_own_words"):
        result = results[name]
        assert result["outcome"] == "passed", result["error"]
        assert result["questions"] == 1
        assert result["steps"] >= 2
        assert result["replays"] == result["entries"]  # from each of them, and so with the question open too


def test_a_decision_of_a_rule_is_never_cut_off_its_question(results: running.Results) -> None:
    result = results["test_is_allowed_by_a_rule"]
    assert result["outcome"] == "passed", result["error"]
    assert result["questions"] == 1
    assert result["replays"] == result["entries"] - 1


def test_a_test_without_steps_is_not_replayed(results: running.Results) -> None:
    result = results["test_needs_no_turn"]
    assert (result["outcome"], result["steps"], result["replays"]) == ("passed", 0, 0)


def test_what_is_left_out_does_not_run(results: running.Results) -> None:
    assert "test_is_left_out" not in results


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_fails_by_itself", ("in a turn", "of its own")),
        ("test_goes_another_way_in_a_replay", ("replayed from", "ReplayMismatch")),
        ("test_has_a_tool_that_does_otherwise_beside_the_turn", ("replayed from", "tool look: ValueError: only in a")),
        ("test_does_more_when_its_question_was_open", ("replayed from", "and did ['step step more'] besides")),
        ("test_does_more_after_a_second_crash", ("a run from 1 has written", "did ['step step more']")),
        ("test_runs_a_finished_step_again", ("replayed from", "finished steps ran again: ~tool:call-1")),
    ],
)
def test_what_goes_wrong_is_seen(results: running.Results, name: str, said: tuple[str, ...]) -> None:
    assert results[name]["outcome"] == "failed"
    for part in said:
        assert part in results[name]["error"]
