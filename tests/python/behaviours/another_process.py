"""Run as a program: one request to a conversation that another process began. JSON in, JSON out; see `Elsewhere`."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from hitl import Decision
from tests.python.behaviours.scenes import Scene


def answer(given: dict[str, Any]) -> Any:
    """A decision, or the answer to a question."""
    return Decision(**given["decision"]) if "decision" in given else given["value"]


def main() -> None:
    request = json.load(sys.stdin)
    with ExitStack() as cleanup:
        kind: Any = getattr(import_module(request["module"]), request["class"])
        face = kind(Path(request["folder"]), cleanup)
        talk = face.reopen(Scene.from_json(request["scene"]), request["kept"])
        found = [one.to_json() for one in talk.waiting()]
        if found != request["left"]:
            raise AssertionError(f"{request['left']} was left, and {found} is here")
        if "answer" in request:
            talk.answer([(id, answer(value)) for id, value in request["answer"]])
        else:
            talk.decide(*[answer(value) for value in request["decide"]])
        said = {
            "waiting": [one.to_json() for one in talk.waiting()],
            "output": talk.output,
            "messages": talk.messages(),
            "told": talk.told(),
            "kept": talk.kept(),
        }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
