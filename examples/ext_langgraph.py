"""The agent of LangChain's documentation that runs SQL once somebody approves it, served by hitl as it is.

    hitl serve examples.ext_langgraph:agent

Try `delete the old records`: the statement waits for somebody, in the inbox at http://127.0.0.1:8000 or in `hitl chat`.
Kill the server with `kill -9` meanwhile: what was read is not read again, and the statement runs once.

With OPENAI_API_KEY set, and HITL_MODEL for another model than the one below, a real model answers
(`pip install 'hitl-runtime[langgraph]' langchain-openai`).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

RECORDS = os.environ.get("RECORDS", "records.db")
OLD = "delete from records where year < 2020"


class Offline(BaseChatModel):
    """A model without a mind, for those who have no key: it reads the records, and deletes the old ones."""

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """It knows them."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        begin = max(n for n, message in enumerate(messages) if message.type == "human")
        results = [message for message in messages[begin:] if isinstance(message, ToolMessage)]
        if not results:
            calls: list[dict[str, Any]] = [{"name": "read_data", "args": {}, "id": f"read-{begin}"}]
            if "delete" in str(messages[begin].content):
                calls.append({"name": "execute_sql", "args": {"query": OLD}, "id": f"delete-{begin}"})
            reply = AIMessage("", tool_calls=calls)
        else:
            reply = AIMessage("\n".join(str(message.content) for message in results))
        return ChatResult(generations=[ChatGeneration(message=reply)])


def run_sql(query: str) -> tuple[int, list[Any]]:
    """How many records a statement has changed, and which it has found."""
    with closing(sqlite3.connect(RECORDS)) as database, database:
        # Two tools may be the first at the same time, and one may be killed before it has made all records.
        database.execute("begin immediate")
        if not database.execute("select 1 from sqlite_master where name = 'records'").fetchone():
            database.execute("create table records (id integer, year integer)")
            database.executemany("insert into records values (?, ?)", ((n, 2000 + n) for n in range(1, 31)))
        cursor = database.execute(query)
        return cursor.rowcount, cursor.fetchall()


@tool
def read_data() -> str:
    """How many records there are."""
    (count, first) = run_sql("select count(*), min(year) from records")[1][0]
    return f"There are {count} records, the first of {first}."


@tool
def execute_sql(query: str) -> str:
    """Run a statement on the table `records` (id, year)."""
    return f"{run_sql(query)[0]} records changed."


agent = create_agent(
    model=f"openai:{os.environ.get('HITL_MODEL', 'gpt-5-mini')}" if os.environ.get("OPENAI_API_KEY") else Offline(),
    tools=[read_data, execute_sql],
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={"execute_sql": {"allowed_decisions": ["approve", "edit", "reject"]}, "read_data": False},
            description_prefix="Tool execution pending approval",
        )
    ],
    checkpointer=InMemorySaver(),
    name="records",
)
