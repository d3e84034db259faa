"""Outcomes of steps that are no plain result.

A crash that hit a once step in flight is a question to a person: nobody can know whether its effect happened.

A tool that has run must not look as if it had failed: a model that reads an error calls it again. So what the codec
does not take is stored as the JSON that pydantic makes of it, which is all that a model would read of it; and where
there is none, the outcome says that the tool did run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from hitl import _core
from hitl.errors import ResultNotStored, StepError
from hitl.journal.codec import encode
from hitl.journal.error_codec import encode_error, error_message
from hitl.journal.inner_attachments import attachments_in, with_attachments

OF_FRAMEWORKS: Final = frozenset({"langchain", "openai_agents", "pydantic_ai", "strands"})
"""Members that an adapter (`hitl.ext`) keeps a call's outcome under, in the form of its framework."""

KINDS_OF_FRAMEWORKS: Final = frozenset(
    {"tool-return", "audio-url", "binary", "document-url", "image-url", "uploaded-file", "video-url"}
)
"""The ``kind`` of what pydantic-ai reads as more than data: a file, or a result with words of the user's beside it."""

PARTS_OF_FRAMEWORKS: Final = {
    "text": frozenset({"text"}),
    "image": frozenset({"image_url", "file_id"}),
    "file": frozenset({"file_data", "file_url", "file_id"}),
}
"""The ``type`` of what the OpenAI Agents SDK shows a model as it is, not as JSON, with the members of which it needs
one: a text, or a file, which it has fetched."""

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "oneOf": [
        {
            "properties": {"outcome": {"const": "done"}, "result": {}},
            "required": ["outcome", "result"],
            "additionalProperties": False,
        },
        {"properties": {"outcome": {"const": "not_done"}}, "required": ["outcome"], "additionalProperties": False},
        {
            "properties": {"outcome": {"const": "failed"}, "message": {"type": "string"}},
            "required": ["outcome", "message"],
            "additionalProperties": False,
        },
    ],
}


def question(
    name: str, arguments: Mapping[str, Any] | None, began: int, max_payload: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Payload and response schema. ``began``: ms since 1970. Arguments that are no JSON, or too large, are left out."""
    started = datetime.fromtimestamp(began / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    payload = {"type": "unknown_outcome", "tool_name": name, "tool_args": dict(arguments or {}), "started_at": started}
    try:
        checked: dict[str, Any] = json.loads(_core.check_payload(payload, max_payload))
    except (TypeError, ValueError):
        checked = {**payload, "tool_args": None}
    return checked, _SCHEMA


def result_of(answer: Any, kind: str) -> dict[str, Any] | None:
    """The result that an answer stands for, of a step of this kind; None when the step is to run."""
    if answer["outcome"] == "done":
        result = answer["result"]
        return {"value": encode(_as_said(result) if kind == "tool" else result)}
    if answer["outcome"] == "failed":
        return {"error": encode_error(StepError("StepFailed", answer["message"], "hitl"))}
    return None


def _as_said(result: Any) -> Any:
    """What a person says came of a call, as models read it. Never what an adapter has kept of one: that may say where a
    graph goes on, and so have other calls made, which nobody has approved; or put words into the user's mouth."""
    is_kept = isinstance(result, dict) and not OF_FRAMEWORKS.isdisjoint(result)
    is_read = is_kept or _has_kind(result) or _is_shown(result)
    return json.dumps(result, ensure_ascii=False) if is_read else result


def _has_kind(value: Any) -> bool:
    """Whether a framework would read it, or a part of it, as more than the data it is."""
    if isinstance(value, dict):
        kind = value.get("kind")
        return (isinstance(kind, str) and kind in KINDS_OF_FRAMEWORKS) or any(map(_has_kind, value.values()))
    return isinstance(value, list) and any(map(_has_kind, value))


def _is_shown(value: Any) -> bool:
    """Whether a framework would show it to a model as more than JSON: one part, or a list of nothing else."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, dict) and _is_shown(each) for each in value)
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    return not PARTS_OF_FRAMEWORKS.get(value["type"], frozenset()).isdisjoint(value)


class OnceRuns(NamedTuple):
    """How often the body of a once step without a result began."""

    doubtful: list[int]
    """When each run began that somebody was asked about, or is to be (ms since 1970)."""
    goes_on: bool
    """Whether one came after them and left something in the journal: it is gone through again, and nobody is asked.
    So the matcher has it (``mark_inner`` in ``src/domain/replay/order.rs``)."""


def begun(journal: list[dict[str, Any]]) -> dict[str, OnceRuns]:
    """The once steps that have no result, by path; those aside of which nobody has to be asked anything."""
    times: dict[str, list[int]] = {}
    last: dict[str, int] = {}
    for position, entry in enumerate(journal):
        if entry["entry"] == "intent":
            path = entry["step"]["path"]
            times.setdefault(path, []).append(entry["at"])
            last[path] = position
    if not times:
        return {}
    asked: Counter[str] = Counter()
    got_on: set[str] = set()
    for position, entry in enumerate(journal):
        if entry["entry"] == "step":
            times.pop(entry["step"]["path"], None)
        for path in _paths(entry):
            for outer, inner in _around(path):
                if inner.startswith("?"):
                    asked[outer] += 1
                elif position > last.get(outer, position):
                    got_on.add(outer)
    runs = {}
    for path, began in times.items():
        # What was asked is asked again, whatever has come after it: the journal has it.
        doubtful = began[: max(asked[path], len(began) - (path in got_on))]
        if doubtful:
            runs[path] = OnceRuns(doubtful, len(doubtful) < len(began))
    return runs


def _paths(entry: dict[str, Any]) -> list[str]:
    """The places that an entry is about."""
    if entry["entry"] == "wakes":
        return [wake["task"] for wake in entry["wakes"]]
    if "step" in entry:
        return [entry["step"]["path"]]
    return [entry["path"]] if entry["entry"] == "timer" else []


def _around(path: str) -> Iterator[tuple[str, str]]:
    """The paths of the steps around one, innermost first, each with what is inside of it."""
    outer, slash, _ = path.rpartition("/")
    while slash:
        yield outer, path[len(outer) + 1 :]
        outer, slash, _ = outer.rpartition("/")


def stored_as_json(name: str, value: Any, why: Exception) -> dict[str, Any]:
    """The outcome of the tool ``name``, which returned a value that the codec refused with ``why``."""
    from pydantic_core import to_jsonable_python

    try:
        try:
            plain = to_jsonable_python(value, by_alias=True, inf_nan_mode="strings", fallback=str)
        except UnicodeDecodeError:  # bytes that are no text, beside what made it unstorable
            plain = to_jsonable_python(value, by_alias=True, inf_nan_mode="strings", bytes_mode="base64", fallback=str)
        if inner := attachments_in(value):  # which stay what they are: the model is shown them
            plain = with_attachments(plain, inner, lambda attachment: attachment)
        return {"value": encode(plain, f"result of tool {name!r}")}
    except Exception:  # noqa: BLE001 - serializers and __str__ of anybody's run here; the value was refused before
        return {"error": encode_error(not_stored(name, why))}


def not_stored(name: str, why: Exception) -> ResultNotStored:
    """The error of a tool that ran, and whose result could not be kept."""
    return ResultNotStored(f"the tool {name} ran; its result could not be stored: {error_message(why)}")
