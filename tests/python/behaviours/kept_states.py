"""States as releases have written them: every later release reads them and goes on.

`python -m tests.python.behaviours.kept_states` adds the states of this release, once; a kept file is never changed.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import hitl
from hitl import Decision
from tests.python.behaviours.faces.run import RunConversation, RunFace
from tests.python.behaviours.scenes import DONE, Scene, call, calls, charge, says

FOLDER: Final = Path(__file__).with_name("kept_states")

APPROVE: Final = Decision.approve()
CLERK: Final = Scene([calls(charge(10)), says("clerk: done")], gated=["charge"])
PAYING: Final = Scene([calls(charge(1), charge(2), call("note", text="a")), DONE], gated=["charge"], free=["note"])

Kept = tuple[Scene, list[list[Decision]], dict[str, Any]]
"""A scene, what is decided before its state is kept, pause by pause, and options of the conversation."""

STATES: Final[dict[str, Kept]] = {
    "fresh": (PAYING, [], {}),
    "after a pause": (Scene([calls(charge(1)), calls(charge(2)), DONE], gated=["charge"]), [[APPROVE]], {}),
    "edited": (
        Scene([calls(charge(1)), calls(charge(2)), DONE], gated=["charge"]),
        [[Decision.edit({"cents": 3})]],
        {},
    ),
    "rejected": (
        Scene([calls(charge(1)), calls(charge(2)), DONE], gated=["charge"]),
        [[Decision.reject(reason="no")]],
        {},
    ),
    "always": (
        Scene([calls(charge(1)), calls(call("refund", cents=2)), calls(charge(3)), DONE], gated=["charge", "refund"]),
        [[Decision.approve(always=True)]],
        {},
    ),
    "nested": (Scene([calls(call("clerk", input="a")), DONE], inner={"clerk": CLERK}), [], {}),
    "nested twice": (
        Scene([calls(call("clerk", input="a"), call("clerk", input="b")), DONE], inner={"clerk": CLERK}),
        [],
        {},
    ),
    "context": (
        Scene([calls(charge(1)), calls(call("whose")), DONE], gated=["charge"], free=["whose"]),
        [],
        {"context": {"user": "ada", "limits": [1, 2.5, None]}},
    ),
}


def go_on(talk: RunConversation, effects_before: int = 0) -> dict[str, Any]:
    """Approve of everything until it is over: what came of it."""
    while talk.waiting():
        talk.decide(*[APPROVE for _ in talk.waiting()])
    return {"output": talk.output, "told": talk.told(), "effects": sorted(talk.face.ledger.lines[effects_before:])}


def keep(name: str) -> dict[str, Any]:
    """One state of this release, and what comes of it."""
    scene, decided, options = STATES[name]
    with TemporaryDirectory() as folder, ExitStack() as cleanup:
        face = RunFace(Path(folder), cleanup)
        talk = face.open(scene, **options)
        talk.say("pay")
        for decisions in decided:
            talk.decide(*decisions)
        state = json.loads(talk.kept()["state"])
        return {"scene": scene.to_json(), "state": state, "then": go_on(talk, len(face.ledger.lines))}


def main() -> None:
    """Add what this release writes."""
    folder = FOLDER / hitl.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for name in STATES:
        file = folder / f"{name.replace(' ', '_')}.json"
        if not file.exists():
            file.write_text(json.dumps(keep(name), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
