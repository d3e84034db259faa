"""The agents of the journals that release 0.2 recorded: decisions about tool calls, and agents that work together.
Never edit an agent here: its journals would not fit it.

A gated call whose argument `early` is a decision gets that one before the pause; every other waits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hitl
from hitl import ApprovalRequest, ChatMessage, Decision, ReActAgent, interrupt, tool
from hitl.agents.seams import HookCall
from hitl.models import ModelReply, ModelRequest
from hitl.testing import ScriptedChatClient

State = list[ChatMessage]


def _calls(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args} for name, args in calls]}


def _at_most_50(cents: int) -> dict[str, int] | None:
    return {"cents": 50} if cents > 50 else None


@tool(
    requires_approval=True,
    allowed_decisions=["approve", "edit", "reject", "respond"],
    input_guardrails=[_at_most_50],
    approval_description=lambda ctx, args: f"Pay {args['cents']}.",
)
async def pay(cents: int, early: dict[str, Any] | None = None) -> str:
    """Pay something."""
    return f"paid {cents}"


decides = ReActAgent(
    client=ScriptedChatClient(
        [
            _calls(
                ("pay", {"cents": 1, "early": {"type": "approve"}}),
                ("pay", {"cents": 2, "early": {"type": "edit", "args": {"cents": 3}}}),
                ("pay", {"cents": 4, "early": {"type": "edit", "args": {"cents": 80}}}),
                ("pay", {"cents": 5, "early": {"type": "reject", "reason": "no"}}),
                ("pay", {"cents": 6, "early": {"type": "respond", "message": "by hand"}}),
            ),
            {"content": "All were decided."},
        ]
    ),
    tools=[pay],
    name="decides",
)
"""Each kind of decision was made; an edit that a guardrail changed is asked about again, and waits."""


def _decide(request: ApprovalRequest) -> Decision | None:
    return {1: Decision.approve(), 2: Decision.edit({"cents": 7}), 3: Decision.reject("no")}.get(
        request.tool_args["cents"]
    )


decides_in_code = ReActAgent(
    client=ScriptedChatClient(
        [
            _calls(*(("pay", {"cents": cents}) for cents in (1, 2, 3, 4))),
            {"content": "One of them asked a person."},
        ]
    ),
    tools=[tool(pay, on_approval=_decide, requires_approval=lambda ctx, args: True)],
    name="decides_in_code",
)
"""A policy, and decisions in code: three at once, the fourth waits for a person."""


async def _ask_first(call: HookCall) -> str | None:
    if call.args.get("cents") == 1:
        return "not that one"
    return None if await interrupt({"type": "later", "cents": call.args["cents"]}) else "no"


has_hooks = ReActAgent(
    client=ScriptedChatClient([_calls(("look", {"cents": 1}), ("look", {"cents": 2})), {"content": "Looked."}]),
    tools=[tool(lambda cents: f"{cents} is there", name="look", schema={"properties": {"cents": {"type": "integer"}}})],
    hooks=[_ask_first],
    name="has_hooks",
)
"""A hook that cancels one call and asks about another."""


class _Review:
    async def awrap_model_call(self, request: ModelRequest, handler: Any) -> ModelReply:
        reply: ModelReply = await handler(request)
        if reply.message.content is None:
            return reply
        remark = await interrupt({"type": "later", "text": reply.message.content})
        return replace(reply, message=ChatMessage.assistant_message(content=f"{reply.message.content} ({remark})"))


has_middleware = ReActAgent(
    client=ScriptedChatClient([{"content": "A draft."}]), middleware=[_Review()], name="has_middleware"
)
"""A middleware that asks about a reply."""


_team = ScriptedChatClient(
    [
        _calls(("transfer_to_clerk", {})),
        _calls(("pay", {"cents": 1, "early": {"type": "approve"}})),
        _calls(("transfer_to_desk", {})),
        _calls(("transfer_to_clerk", {})),
        _calls(("pay", {"cents": 2})),
        {"content": "The clerk paid twice."},
    ]
)
_clerk = ReActAgent(client=_team, tools=[pay], name="clerk")
hands_over = ReActAgent(client=_team, handoffs=[_clerk], name="desk")
_clerk.handoffs.append(hands_over)
"""The conversation went to and fro; whom it came to last waits for an approval."""


class _Echo(ScriptedChatClient):
    async def complete(self, request: ModelRequest) -> ModelReply:
        cents = int(request.messages[0].content or "")
        early = {"early": {"type": "approve"}} if cents == 1 else {}
        script = [_calls(("pay", {"cents": cents, **early})), {"content": f"{cents} done"}]
        return await ScriptedChatClient(script).complete(request)


_worker = ReActAgent(client=_Echo([]), tools=[pay], name="worker")
delegates_twice = ReActAgent(
    client=ScriptedChatClient(
        [_calls(("worker", {"input": "1"}), ("worker", {"input": "2"})), {"content": "Both workers are done."}]
    ),
    tools=[_worker.as_tool()],
    name="delegates_twice",
)
"""One agent at work twice at once: one is done, the other waits."""


async def gates_by_hand(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """The gate without our agent: one approval is there, the other waits."""
    first = await hitl.approval("transfer", {"cents": 1, "early": {"type": "approve"}})
    second = await hitl.approval("transfer", {"cents": 2}, key="second", args_schema={"type": "object"})
    response = ChatMessage.assistant_message(content=f"{first.args['cents']} and {second.args['cents']}")
    return response, [*state, message, response]


@hitl.requires_approval
def _transfer(cents: int, early: dict[str, Any] | None = None) -> str:
    return f"transferred {cents}"


def gates_functions(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """A plain agent and gated functions."""
    done = [_transfer(1, early={"type": "approve"}), _transfer(2)]
    response = ChatMessage.assistant_message(content=", ".join(done))
    return response, [*state, message, response]


AGENTS: dict[str, Any] = {
    "decides": decides,
    "decides_in_code": decides_in_code,
    "has_hooks": has_hooks,
    "has_middleware": has_middleware,
    "hands_over": hands_over,
    "delegates_twice": delegates_twice,
    "gates_by_hand": gates_by_hand,
    "gates_functions": gates_functions,
}
