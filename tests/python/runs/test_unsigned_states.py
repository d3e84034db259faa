"""What an unsigned run state names is not imported, whichever way it is said."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hitl import Server
from tests.python.runs.support import Files
from tests.python.runs.test_transfers import KEY, options, paused_state, post, settled

MODULE = "named_by_a_state"
TAGGED = ["dataclass", "model", "model_fields", "model_json", "enum", "namedtuple", "path"]


def value(tag: str) -> dict[str, Any]:
    return {"$hitl": tag, "type": f"{MODULE}:Class", "value": {"x": 1}}


def with_value(document: dict[str, Any], tag: str) -> None:
    """The reply of the model is of that class."""
    step = next(entry for entry in document["journal"] if entry["entry"] == "step")
    step["result"] = {"value": value(tag)}


def with_error(document: dict[str, Any], tag: str) -> None:
    """The model failed with an error of that class, whose argument is another one."""
    step = next(entry for entry in document["journal"] if entry["entry"] == "step")
    error = {"type": "Class", "module": MODULE, "message": "x", "args": [value(tag)], "state": {}, "bases": []}
    step["result"] = {"error": error}


def with_context(document: dict[str, Any], tag: str) -> None:
    document["context"] = value(tag)


def with_pause(document: dict[str, Any], tag: str) -> None:
    """A context at a pause, as an older release may have written it."""
    document["journal"][-1]["context"] = value(tag)


def with_answer(document: dict[str, Any], tag: str) -> None:
    (asked,) = document["interrupts"]
    answer = {"at": 0, "entry": "answer", "interrupt_id": asked["id"], "value": value(tag)}
    document["journal"].append(answer)


@pytest.mark.parametrize("tag", TAGGED)
@pytest.mark.parametrize("forge", [with_value, with_error, with_context, with_pause, with_answer])
async def test_a_module_that_an_unsigned_state_names_is_not_imported(
    forge: Any, tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "imported"
    (tmp_path / f"{MODULE}.py").write_text(f"open({str(trace)!r}, 'w').close()\nclass Class(Exception): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    files = Files()
    document = json.loads((await paused_state(files, "/a")).to_string())
    forge(document, tag)
    async with Server(files.agent("/a"), **options(allow_import=True, state_key=KEY)) as server:
        reply = await post(server.url, {"run_state": document})
        if reply.status_code == 201:
            found = await settled(server.url, document["session_id"])
            assert found["status"] in ("error", "interrupted")
        else:
            assert reply.json()["code"] == "run_state_invalid"
    assert not trace.exists()
    assert MODULE not in sys.modules
    assert files.deleted == []
