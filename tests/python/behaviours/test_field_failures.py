"""Failures with decisions that were reproduced in other systems, each a test of the faces it could come back in.

Those that concern the wire are in tests/python/http/test_field_failures.py.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl import Decision, ReActAgent, RunContext, RunState, hooks, tool
from hitl.middleware import Command, HumanInTheLoopMiddleware, ToolCallAgent
from hitl.testing import ScriptedChatClient
from tests.python.behaviours.faces.every import FACES
from tests.python.behaviours.faces.face import Face
from tests.python.behaviours.faces.frameworks import FrameworkFace
from tests.python.behaviours.faces.hooks import Gate
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import DONE, Scene, call, calls, charge

APPROVE = Decision.approve()


def faces(*numbers: int, without: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """The faces that can express all of these behaviours. Agents of other frameworks are runs, which are among them."""
    ours = [face for face in FACES if not issubclass(face, FrameworkFace)]
    chosen = [face for face in ours if face.name not in without and not any(map(face.reason, numbers))]
    return pytest.mark.parametrize("face", chosen, indirect=True, ids=[face.name for face in chosen])


@faces(without=("server", "run"))
def test_the_same_pause_resumed_by_two_processes_runs_its_tool_once(face: Any) -> None:
    """There the second resume of a saved state ran the tool again, in three frameworks."""
    scene = Scene([calls(charge(5)), DONE], gated=["charge"])
    talk = face.open(scene, durable=True)
    talk.say("pay")
    [asked] = talk.waiting()
    late = face.reopen(scene, talk.kept())
    talk.decide(APPROVE)
    with pytest.raises((*_listed(face.errors["nothing pending"]), hitl.AlreadyResumed)):
        late.answer([(asked.id, APPROVE)])
    assert face.ledger.lines == ["charge 5"]


def test_one_state_resumed_by_many_threads_runs_its_tool_once(tmp_path: Path) -> None:
    """There two approvals at the same time ran `pay` twice."""
    ledger = Ledger(tmp_path)
    agent = _shop(_pay(ledger), calls(call("pay", cents=5)))
    store = hitl.Store(tmp_path / "runs.db")
    paused = hitl.run_sync(agent, "pay", store=store)
    assert paused.state is not None
    text = paused.state.approve(paused.interrupts[0]).to_string()

    def resume(_: int) -> str:
        try:
            return hitl.run_sync(agent, RunState.from_string(agent, text), store=store).status
        except hitl.AlreadyResumed:
            return "already resumed"

    with ThreadPoolExecutor(4) as threads:
        outcomes = sorted(threads.map(resume, range(4)))
    assert outcomes == ["already resumed"] * 3 + ["idle"]
    assert ledger.lines == ["pay 5"]


@faces(4)
def test_an_answer_goes_to_its_own_question_whatever_the_order(face: Face) -> None:
    """There interrupts were matched by position, and an answer went to another question."""
    questions = ["a", "b", "c", "d"]
    script = [calls(*[call("ask", question=question) for question in questions]), DONE]
    talk = face.open(Scene(script, free=["ask"]))
    talk.say("go")
    asked = {one.args["question"]: one.id for one in talk.waiting()}
    talk.answer([(asked["c"], "c!")])
    talk.answer([(asked["d"], "d!"), (asked["a"], "a!")])
    talk.answer([(asked["b"], "b!")])
    assert [json.loads(told) for told in talk.told()] == ["a!", "b!", "c!", "d!"]


@faces(4)
def test_a_second_parallel_pause_is_not_lost(face: Face) -> None:
    """There the pause of a sibling call was overwritten."""
    script = [calls(call("ask", question="a"), charge(5)), DONE]
    talk = face.open(Scene(script, gated=["charge"], free=["ask"]))
    talk.say("go")
    asked = {one.tool: one.id for one in talk.waiting()}
    assert asked.keys() == {None, "charge"}
    talk.answer([(asked[None], "a")])
    assert [one.id for one in talk.waiting()] == [asked["charge"]]
    talk.decide(APPROVE)
    assert (talk.told(), talk.output) == (['"a"', "charged 5"], "done")


@faces(5)
def test_too_few_decisions_are_no_approvals(face: Face) -> None:
    """There the calls that nobody had decided on ran."""
    talk = face.open(Scene([calls(charge(1), charge(2)), DONE], gated=["charge"]))
    talk.say("pay")
    first, second = talk.waiting()
    if face.reason(4) is None:
        talk.answer([(first.id, APPROVE)])
        assert (face.ledger.lines, talk.waiting()) == (["charge 1"], [second])
    else:
        with pytest.raises(face.errors["wrong kind"]):
            talk.answer([(first.id, APPROVE)])
        assert (face.ledger.lines, talk.waiting()) == ([], [first, second])


class TestWhatWasShownIsWhatRuns:
    """There the person saw `/a`, and `/rewritten/a` was deleted; or was shown 100, and 50 ran."""

    @pytest.fixture
    def ledger(self, tmp_path: Path) -> Ledger:
        return Ledger(tmp_path)

    def test_in_a_run(self, ledger: Ledger) -> None:
        agent = _shop(_pay(ledger, input_guardrails=[half]), calls(call("pay", cents=100)))
        paused = hitl.run_sync(agent, "pay")
        assert paused.interrupts[0].tool_args == {"cents": 50}
        assert paused.state is not None
        hitl.run_sync(agent, paused.state.approve(paused.interrupts[0]))
        assert ledger.lines == ["pay 50"]

    def test_in_the_middleware(self, ledger: Ledger) -> None:
        pay = _pay(ledger, requires_approval=False, input_guardrails=[half])
        client = ScriptedChatClient([calls(call("pay", cents=100)), DONE])
        agent = ToolCallAgent(client, tools=[pay], middleware=[HumanInTheLoopMiddleware({"pay": True})])
        paused = agent.invoke("pay")
        assert paused["__interrupt__"][0]["value"]["action_requests"][0]["args"] == {"cents": 50}
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}))
        assert ledger.lines == ["pay 50"]

    def test_in_a_hook(self, ledger: Ledger) -> None:
        """A hook sees what the model wrote: a call that something rewrites afterwards is not the one that was shown."""
        pay = _pay(ledger, requires_approval=False, input_guardrails=[half])
        client = ScriptedChatClient([calls(call("pay", cents=100)), DONE])
        agent = hooks.Agent(client, tools=[pay], hooks=[Gate(Scene([], gated=["pay"]), ledger)])
        result = agent("pay")
        shown = [asked.reason["args"]["cents"] for asked in result.interrupts]
        agent([{"interruptResponse": {"interruptId": asked.id, "response": "yes"}} for asked in result.interrupts])
        assert ledger.lines in ([f"pay {cents}" for cents in shown], [])

    def test_whatever_a_policy_does_to_its_copy_of_the_arguments(self, ledger: Ledger) -> None:
        async def generous(context: RunContext[Any], args: dict[str, Any]) -> bool:
            args["cents"] = 1
            return True

        async def modest(context: RunContext[Any], args: dict[str, Any]) -> str:
            args["cents"] = 2
            return "Pay"

        pay = _pay(ledger, requires_approval=generous, approval_description=modest)
        agent = _shop(pay, calls(call("pay", cents=100)))
        paused = hitl.run_sync(agent, "pay")
        assert paused.interrupts[0].tool_args == {"cents": 100}
        assert paused.state is not None
        hitl.run_sync(agent, paused.state.approve(paused.interrupts[0]))
        assert ledger.lines == ["pay 100"]

    def test_a_state_whose_arguments_were_changed_on_the_way_runs_nothing(self, ledger: Ledger) -> None:
        agent = _shop(_pay(ledger), calls(call("pay", cents=100)))
        paused = hitl.run_sync(agent, "pay")
        assert paused.state is not None
        text = paused.state.approve(paused.interrupts[0]).to_string()
        changed = json.dumps(_with_more_cents(json.loads(text)))
        assert json.loads(changed) != json.loads(text)
        result = hitl.run_sync(agent, RunState.from_string(agent, changed))
        assert result.status == "error"
        assert ledger.lines == []


@pytest.mark.parametrize("value", [{"approved": "false"}, {"approved": 1}, {"approved": None}, "approve", True, []])
def test_what_is_no_decision_approves_nothing_and_poisons_nothing(tmp_path: Path, value: Any) -> None:
    """There `{"approved": "false"}` approved, and a malformed payload made the right answer afterwards fail too."""
    ledger = Ledger(tmp_path)
    agent = _shop(_pay(ledger), calls(call("pay", cents=5)))
    paused = hitl.run_sync(agent, "pay")
    state = paused.state
    assert state is not None
    with pytest.raises(hitl.InvalidAnswer):
        state.answer(paused.interrupts[0], value)
    assert hitl.run_sync(agent, state).status == "interrupted"
    assert ledger.lines == []
    assert hitl.run_sync(agent, state.answer(paused.interrupts[0], {"approved": True})).output == "done"
    assert ledger.lines == ["pay 5"]


def test_an_edit_cannot_make_it_a_call_of_another_tool(tmp_path: Path) -> None:
    """There it did, and escaped the other tool's policy."""
    ledger = Ledger(tmp_path)
    agent = _shop(_pay(ledger), calls(call("pay", cents=5)))
    paused = hitl.run_sync(agent, "pay")
    assert paused.state is not None
    before = paused.state.to_string()
    with pytest.raises(hitl.InvalidAnswer):
        paused.state.answer(paused.interrupts[0], {"type": "edit", "name": "wire", "args": {"cents": 5}})
    assert paused.state.to_string() == before


def test_a_tool_that_is_changed_stays_gated(tmp_path: Path) -> None:
    """There decorating it again dropped its approval without a word."""
    ledger = Ledger(tmp_path)
    agent = _shop(tool(tool(_pay(ledger), description="Pay somebody."), timeout=5), calls(call("pay", cents=5)))
    assert hitl.run_sync(agent, "pay").status == "interrupted"
    assert ledger.lines == []


def half(cents: int) -> dict[str, int]:
    """A guardrail that rewrites the arguments."""
    return {"cents": cents // 2}


def _pay(ledger: Ledger, **options: Any) -> Any:
    @tool(**{"requires_approval": True, **options})
    async def pay(cents: int) -> str:
        """Pay."""
        ledger.write(f"pay {cents}")
        return f"paid {cents}"

    return pay


def _shop(pay: Any, *replies: dict[str, Any]) -> ReActAgent:
    return ReActAgent(client=ScriptedChatClient([*replies, DONE]), model_name="scripted", tools=[pay])


def _with_more_cents(value: Any) -> Any:
    """The state with other arguments in the model's call."""
    if isinstance(value, dict):
        return {name: _with_more_cents(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_more_cents(item) for item in value]
    return value.replace('"cents": 100', '"cents": 999') if isinstance(value, str) else value


def _listed(errors: Any) -> tuple[Any, ...]:
    return errors if isinstance(errors, tuple) else (errors,)
