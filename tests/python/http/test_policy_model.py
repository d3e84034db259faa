"""Random rules, calls, answers, "always" and changes of the file, through a real server, against a model of who may
let a call run. The server is never laxer, nor stricter, and says the same of each call: effect, rule and approvers.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from hitl import _core
from tests.python.http.policy_model import EXPRESSIONS, GATED, Args, Rule, means, ruling
from tests.python.support.api import Api, Json, ok
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

CASES = int(os.environ.get("HITL_FUZZ_CASES", "0"))
"""How many runs of the machine, where somebody has the time; CI makes some, always the same."""

SCOPES = {"ada": ["read", "send", "answer"], "bob": ["read", "send", "answer"], "root": ["admin"]}


def some_rules(prefix: str) -> st.SearchStrategy[list[Rule]]:
    effects = st.sampled_from(["allow", "ask", "deny"])
    approvers = st.sampled_from([(), (), ("ada",), ("group:finance",)])
    tools = st.sampled_from(["charge", "charge", "note", "*", "other"])
    made = st.tuples(effects, tools, st.sampled_from(list(EXPRESSIONS)), approvers)

    def named(rows: list[tuple[str, str, str | None, tuple[str, ...]]]) -> list[Rule]:
        return [
            Rule(f"{prefix}{number}", effect, tool, when, approvers if effect == "ask" else ())
            for number, (effect, tool, when, approvers) in enumerate(rows)
        ]

    return st.lists(made, max_size=3).map(named)


calls = st.lists(st.tuples(st.sampled_from(list(GATED)), st.integers(0, 8)), min_size=1, max_size=3)
answers = st.sampled_from(["yes", "yes", "no", "always", "never", "edit", "edit"])


class World:
    """A server with keys and a policy file."""

    def __init__(self, folder: Path) -> None:
        self.ledgers = folder / "ledgers"
        self.ledgers.mkdir()
        self._policy = folder / "policy.toml"
        self._policy.write_text('rules = "none"')
        self._generation = 0
        store = f"sqlite:{folder / 'hitl.db'}"
        groups: dict[str, list[str]] = {"bob": ["finance"]}
        keys = {name: _core.create_key(store, name, scopes, groups.get(name, []))[1] for name, scopes in SCOPES.items()}
        self.server = Served("puppet", store=store, policy=self._policy, park_after=3600)
        self.people = {name: Api(self.server.url, api_key=key) for name, key in keys.items()}

    def close(self) -> None:
        for api in self.people.values():
            api.close()
        self.server.stop()

    def set_rules(self, rules: list[Rule]) -> list[Rule]:
        """The rules of the server from now on, under names that no rule had before."""
        self._generation += 1
        rules = [Rule(**{**vars(one), "name": f"g{self._generation}-{one.name}"}) for one in rules]
        lines = [f"# generation {self._generation}"]
        for one in rules:
            lines += ["[[rule]]", *(f"{name} = {json.dumps(value)}" for name, value in one.as_json().items())]
        # A last rule, which is for nothing, says which generation it is.
        lines += ["[[rule]]", f'name = "g{self._generation}"', 'effect = "deny"', 'tool = "nothing"']
        before = self.loaded_at()
        other = self._policy.with_suffix(".new")
        other.write_text("\n".join(lines) + "\n")
        other.replace(self._policy)
        eventually(lambda: self.loaded_at() != before, True)
        return rules

    def loaded_at(self) -> Any:
        health = ok(self.people["root"].get("/health"))["policy"]
        assert health["error"] is None, health
        return health["loaded_at"]


@dataclass
class Question:
    """What waits for a person."""

    tool: str
    args: Args
    approvers: tuple[str, ...]


class Machine(RuleBasedStateMachine):
    """One session, and what the model knows of it."""

    world: World

    @initialize(server=some_rules("s"), own=some_rules("o"))
    def begin(self, server: list[Rule], own: list[Rule]) -> None:
        self.server, self.own = self.world.set_rules(server), own
        created = self.root.post("/sessions", {"rules": [one.as_json() for one in own]})
        assert created.status_code == 201, created.text
        self.session: str = created.json()["session_id"]
        self.ledger = self.world.ledgers / self.session
        self.open: dict[str, Question] = {}
        self.made: set[str] = set()
        self.expected: dict[str, Json] = {}
        self.grants: dict[str, tuple[str, bool]] = {}
        self.effects: Counter[str] = Counter()
        self.number = 0
        self.has_changed = False

    @property
    def root(self) -> Api:
        return self.world.people["root"]

    @rule(rows=calls)
    @precondition(lambda self: not self.open)
    def the_model_calls_tools(self, rows: list[tuple[str, int]]) -> None:
        made: dict[str, tuple[str, Args]] = {}
        for tool, cents in rows:
            self.number += 1
            own = {"cents": cents} if tool == "charge" else {"text": f"note {self.number}"}
            made[f"call-{self.number}"] = (tool, {"ledger": str(self.ledger), **own})
        expected = {id: self.expect(tool, args) for id, (tool, args) in made.items()}
        message = json.dumps([[{"id": id, "name": tool, "args": args} for id, (tool, args) in made.items()]])
        sent = self.world.people["ada"].send(self.session, message)
        assert sent.status_code == 202, sent.text
        self.made = set(made)
        self.expected = {id: said for id, said in expected.items() if said is not None}
        eventually(lambda: {id: self.said(record) for id, record in self.records(made).items()}, self.expected, 60)
        records = self.records(made)
        for id, (tool, args) in made.items():
            record = records.get(id)
            if record is None or (record["status"] == "resolved" and record["value"]["type"] == "approve"):
                self.effects[self.effect(tool, args)] += 1
            elif record["status"] == "pending":
                self.open[record["interrupt_id"]] = Question(tool, args, tuple(record.get("approvers", [])))
        self.compare()

    def expect(self, tool: str, args: Args) -> Json | None:
        """The record of a call that is made now; None where nobody has to decide."""
        said = ruling(self.own, self.server, tool, args)
        effect, name = said.deciding
        record: Json = {"status": "resolved", "rule": name, "approvers": [], "is_unsure": said.is_unsure}
        if effect in ("deny", "allow"):
            return record
        if effect is None and not GATED[tool]:
            return None
        granted = self.grants.get(tool)
        if granted is not None and not said.is_unsure and not said.approvers:
            return {**record, "rule": f"grant:{granted[0]}"}
        return {**record, "status": "pending", "approvers": list(said.approvers[0]) if said.approvers else []}

    @rule(data=st.data(), who=st.sampled_from(["ada", "bob"]), answer=answers, cents=st.integers(0, 8))
    @precondition(lambda self: self.open)
    def somebody_answers(self, data: st.DataObject, who: str, answer: str, cents: int) -> None:
        id = data.draw(st.sampled_from(sorted(self.open)))
        question = self.open[id]
        args = dict(question.args)
        if answer == "edit":
            args |= {"cents": cents} if question.tool == "charge" else {"text": f"edited {question.args['text']}"}
        said_yes = answer in ("yes", "always", "edit")
        now = ruling(self.own, self.server, question.tool, args)
        takes = means(question.approvers, who) and (not said_yes or now.lets(who))
        value = {"approved": said_yes, "always": answer in ("always", "never")}
        reply = self.world.people[who].resume(
            self.session, id, {"type": "edit", "args": args} if answer == "edit" else value
        )
        assert reply.status_code in ((200,) if takes else (403, 422)), (who, answer, question, args, reply.text)
        if takes:
            self.settle(id, args, said_yes)
        if takes and answer in ("always", "never"):
            self.decide_for_the_rest(question.tool, who, said_yes)
        left = ok(self.root.get(f"/sessions/{self.session}"))["interrupts"] or []
        assert {record["interrupt_id"] for record in left} == set(self.open), (who, answer, question, args)
        self.compare()

    def settle(self, id: str, args: Args, runs: bool) -> None:
        question = self.open.pop(id)
        if runs:
            self.effects[self.effect(question.tool, args)] += 1

    def decide_for_the_rest(self, tool: str, who: str, runs: bool) -> None:
        """A grant, and what waits already and may be settled by it."""
        (grant,) = [grant for grant in ok(self.root.get(f"/sessions/{self.session}/grants")) if grant["tool"] == tool]
        assert (grant["created_by"], grant["decision"]) == (who, "approve" if runs else "reject")
        self.grants[tool] = (grant["grant_id"], runs)
        for id, question in list(self.open.items()):
            now = ruling(self.own, self.server, tool, question.args)
            may = means(question.approvers, who) and (not runs or (now.lets(who) and not now.is_unsure))
            if question.tool == tool and may:
                self.settle(id, question.args, runs)

    @rule(server=some_rules("s"))
    @precondition(lambda self: self.open and not self.has_changed)
    def the_file_changes(self, server: list[Rule]) -> None:
        """While a question waits: the server takes more than a second to be sure that a file is whole."""
        self.server, self.has_changed = self.world.set_rules(server), True

    @rule(tool=st.sampled_from(list(GATED)))
    @precondition(lambda self: self.grants)
    def a_grant_is_revoked(self, tool: str) -> None:
        grant = self.grants.pop(tool, None)
        if grant is not None:
            reply = self.root.http.delete(f"/sessions/{self.session}/grants/{grant[0]}")
            assert reply.status_code in (200, 204), reply.text

    def records(self, calls: Collection[str]) -> dict[str, Json]:
        """What is written down about these calls."""
        listed: list[Json] = ok(self.root.get("/interrupts", session_id=self.session, limit=500))
        return {record["tool_call_id"]: record for record in listed if record["tool_call_id"] in calls}

    @staticmethod
    def said(record: Json) -> Json:
        """What is compared of a record."""
        said = {"status": record["status"], "rule": record["rule"], "approvers": record.get("approvers", [])}
        return {**said, "is_unsure": "rule_failed" in record}

    @staticmethod
    def effect(tool: str, args: Args) -> str:
        return f"charged {args['cents']}" if tool == "charge" else str(args["text"])

    def happened(self) -> Counter[str]:
        return Counter(self.ledger.read_text().splitlines()) if self.ledger.exists() else Counter()

    def compare(self) -> None:
        """What ran is what may run: at once nothing else, and all of it when the turn is over."""
        assert self.happened() <= self.effects
        if not self.open:
            assert self.root.wait(self.session)["status"] == "idle"
            assert self.happened() == self.effects
            assert self.records(self.made).keys() == self.expected.keys()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@pytest.mark.slow
@pytest.mark.timeout(max(240, CASES * 30))
def test_a_server_lets_run_what_the_model_lets_run(world: World) -> None:
    class Here(Machine):
        pass

    Here.world = world
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=CASES or 8,
            stateful_step_count=12,
            derandomize=not CASES,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # To shrink takes minutes, with a server; what is shown is short enough.
            phases=[Phase.generate],
            report_multiple_bugs=False,
        ),
    )
