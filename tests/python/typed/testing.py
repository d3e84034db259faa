"""Tests of agents, with the fixtures of the plugin."""

from typing import assert_type

from hitl import Agent, ChatMessage, ReActAgent, tool
from hitl.client import Client, Interrupt
from hitl.testing import (
    HitlServer,
    Human,
    LiveServer,
    ScriptedChatClient,
    ScriptExhausted,
    TurnFailed,
    UnexpectedInterrupt,
)


@tool(requires_approval=True)
async def delete_file(path: str) -> str:
    return path


client = ScriptedChatClient(
    [
        {"tool_calls": [{"name": "delete_file", "args": {"path": "/tmp/x"}}]},
        {"content": "done", "usage": {"input_tokens": 3}},
    ]
)
agent = ReActAgent(client=client, tools=[delete_file])


def deletes_after_approval(hitl_server: HitlServer, hitl_client: Client, human: Human) -> None:
    server = hitl_server(agent, park_after=0, isolation="task")
    assert_type(server, LiveServer)
    human.on(delete_file).approve()
    human.on("delete_file").reject("no")
    human.on("delete_file").edit(path="/tmp/y")
    human.on("delete_file").respond("done")
    human.as_("olga", groups=["ops"]).on(delete_file).approve()
    human.as_("olga").on_type("color_picker").answer(None)
    human.on_question("Strategy").answer("By date")
    human.on_type("color_picker").answer({"hex": "#ff6b6b"})
    assert_type(server.send("delete it"), ChatMessage)
    assert server.send("delete it").content == "done"
    assert_type(human.seen[0], Interrupt)
    assert client.requests[0]["tools"]
    assert hitl_client.health().status == "ok"
    hitl_server("mail:agent")
    hitl_server(agent, prot=3)  # pyright: ignore[reportCallIssue]
    hitl_server(3)  # pyright: ignore[reportArgumentType]
    human.on(3)  # pyright: ignore[reportArgumentType]


def fails(hitl_server: HitlServer, other: Agent) -> str | None:
    try:
        return hitl_server(other).send({"role": "user", "content": "hello"}).content
    except UnexpectedInterrupt as error:
        assert_type(error.interrupt, Interrupt)
        return error.message
    except (TurnFailed, ScriptExhausted) as error:
        return str(error)
