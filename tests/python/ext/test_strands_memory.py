"""What of Strands' memory works in a turn, and what is refused: whatever is saved when nobody waits for it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from strands import Agent
from strands.memory import MemoryManager
from strands.memory.extraction.triggers import InvocationTrigger
from strands.memory.types import MemoryEntry

import hitl
from hitl.driver.shapes import as_agent as load
from hitl.errors import AgentLoadError
from tests.python.ext.strands_runs import says


class Facts:
    """A store of Strands' memory."""

    name, description, writable, max_search_results = "facts", "Facts.", True, 3

    def __init__(self, extraction: Any = None) -> None:
        self.extraction = extraction
        self.entries = ["likes tea"]

    async def search(self, query: str, options: Any = None) -> list[MemoryEntry]:
        return [MemoryEntry(content=each) for each in self.entries]

    async def add(self, content: str, metadata: Any = None) -> None:
        self.entries.append(content)

    async def add_messages(self, messages: Any, *context: Any) -> None:
        self.entries.append(f"{len(messages)} messages")


SAVES_LATER: list[tuple[Any, Any, str]] = [
    (True, False, "has a memory with extraction (facts)"),
    ({"trigger": InvocationTrigger()}, False, "has a memory with extraction (facts)"),
    (None, {"wait_for_writes": False}, "has a memory whose tool does not wait for its writes"),
]


@pytest.mark.parametrize(("extraction", "add", "what"), SAVES_LATER)
def test_a_memory_that_saves_behind_a_turn_is_refused(extraction: Any, add: Any, what: str) -> None:
    memory = MemoryManager([Facts(extraction)], add_tool_config=add)
    served: Any = load(Agent(says(), name="odd", memory_manager=memory)).target
    with pytest.raises(AgentLoadError, match=re.escape(f"cannot be served: it {what}")) as caught:
        served.prepare()
    assert "make" in (caught.value.hint or "")


async def test_any_other_memory_is_read_and_written_by_its_tools() -> None:
    facts = Facts()
    memory = MemoryManager([facts], add_tool_config=True)
    model = says([("add_memory", {"entries": ["lives in Rome"]})], [("search_memory", {"query": "all"})])
    result = await hitl.run(Agent(model, name="odd", memory_manager=memory), "go")
    assert "lives in Rome" in (result.output or "")
    assert facts.entries == ["likes tea", "lives in Rome"]
