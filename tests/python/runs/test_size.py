"""What a state weighs: at most 1.5 KB beyond its messages for one pending call, and as much again for each more."""

from __future__ import annotations

import json

import hitl
from tests.python.runs.support import Files


async def size(calls: int) -> tuple[int, int]:
    """Bytes of the whole state, and without its messages and what the model said."""
    result = await hitl.run(Files().agent(*(f"/{number:02}" for number in range(calls))), "clean up")
    assert result.state is not None
    text = result.state.to_string()
    document = json.loads(text)
    said = sum(
        len(json.dumps(entry["result"]["value"]["message"], separators=(",", ":")))
        for entry in document["journal"]
        if entry["entry"] == "step" and entry["step"]["kind"] == "model"
    )
    return len(text), len(text) - said - len(json.dumps(document["message"], separators=(",", ":")))


async def test_one_pending_call_weighs_at_most_one_and_a_half_kilobytes() -> None:
    _, beyond = await size(1)
    assert beyond <= 1536


async def test_it_grows_linearly_with_the_pending_calls() -> None:
    sizes = [(await size(calls))[0] for calls in (1, 2, 11, 21)]
    each = sizes[1] - sizes[0]
    assert each <= 1100
    assert sizes[3] - sizes[2] <= 10 * each * 1.02
    assert sizes[2] - sizes[1] <= 9 * each * 1.02
