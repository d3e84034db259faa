"""Claude Agent SDK: what its agent may do is asked of a person by hitl, who may change what it does.

    hitl serve examples.recipe_claude_agent_sdk:agent

Its loop runs in a child process that nobody can replay: a turn that waits stays in memory, and one that loses its
server is an error that says so (`replay=False`). What was asked and answered is kept all the same. A person is asked
about what Claude Code would ask about: not about reading, nor about what `allowed_tools` or its settings let run.
"""

from __future__ import annotations

from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    TextBlock,
    ToolPermissionContext,
)

import hitl
from hitl import ChatMessage


async def can_use_tool(
    tool_name: str, tool_input: dict[str, Any], context: ToolPermissionContext
) -> PermissionResultAllow | PermissionResultDeny:
    try:
        given = await hitl.approval(
            tool_name, tool_input, allowed_decisions=["approve", "reject", "edit"], tool_call_id=context.tool_use_id
        )
    except hitl.ToolRejected as no:
        return PermissionResultDeny(message=str(no))
    return PermissionResultAllow(updated_input=given.args)


@hitl.agent(replay=False)
async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    said: list[str] = []
    async with ClaudeSDKClient(ClaudeAgentOptions(can_use_tool=can_use_tool)) as client:
        await client.query(message.content or "")
        async for each in client.receive_response():
            if isinstance(each, AssistantMessage):
                said += [block.text for block in each.content if isinstance(block, TextBlock)]
    reply = ChatMessage.assistant_message(content="\n".join(said))
    return reply, [*state, message, reply]
