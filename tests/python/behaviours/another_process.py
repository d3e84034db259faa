"""Run as a program: requests to conversations that another process began, a line of JSON each; see `Elsewhere`.

Each request is handled in a process of its own. That is forked from this one, which has imported what the agents need
and done nothing else: to import a framework takes longer than all that the tests do with it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from hitl import Decision
from tests.python.behaviours.scenes import Scene


def answer(given: dict[str, Any]) -> Any:
    """A decision, or the answer to a question."""
    return Decision(**given["decision"]) if "decision" in given else given["value"]


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Decide what the request says, and go on; what the conversation comes to."""
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
        return {
            "waiting": [one.to_json() for one in talk.waiting()],
            "output": talk.output,
            "messages": talk.messages(),
            "told": talk.told(),
            "kept": talk.kept(),
        }


def in_child(request: dict[str, Any]) -> None:
    """Handle the request in a process of its own, which says what came of it."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    try:
        print(json.dumps(handle(request)), flush=True)
    except BaseException:
        print(json.dumps({"failed": traceback.format_exc()}), flush=True)
        raise
    finally:
        os._exit(0)  # what this process began with is the other one's to end


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        for module in request["imports"]:
            import_module(module)
        in_child(request)


if __name__ == "__main__":
    main()
