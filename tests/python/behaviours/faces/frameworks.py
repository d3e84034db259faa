"""Agents of other frameworks, as they are, in `hitl.run`: a face for each."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from hitl.runs.interrupts import Interrupt
from tests.python.behaviours.faces.face import Waiting
from tests.python.behaviours.faces.run import AgentOfScene, RunConversation, RunFace
from tests.python.behaviours.scenes import Scene


class FrameworkConversation(RunConversation):
    @staticmethod
    def shown(one: Interrupt) -> Waiting:
        """A question of a framework has what it tells an approver beside it in what it shows."""
        if one.type == "tool_approval":
            return RunConversation.shown(one)
        payload = one.payload.get("reason", one.payload)
        beside = {name: payload[name] for name in ("risk",) if name in payload}
        return Waiting(one.id, None, dict(payload), one.agent, one.metadata or beside)


class FrameworkFace(RunFace):
    """A framework's module is imported when an agent of its is wanted: not each is in every environment."""

    conversation = FrameworkConversation
    refuses_shared_ids = False

    @classmethod
    def imports(cls) -> list[str]:
        return [*super().imports(), cls._module()]

    @classmethod
    def _module(cls) -> str:
        return f"tests.python.behaviours.frameworks.{cls.name}"

    def agent_of(self, scene: Scene, *, streaming: bool = False) -> AgentOfScene:
        made: AgentOfScene = import_module(self._module()).agent_of(scene, self.ledger, streaming=streaming)
        return made

    def rejection(self, tool: str, *, reason: str | None = None, message: str | None = None) -> str:
        return message or f"User rejected {tool}" + (f": {reason}" if reason else "")


class PydanticAIFace(FrameworkFace):
    name = "pydantic_ai"
    title = "pydantic-ai"
    step_limit = 50
    out_of_steps = ("UsageLimitExceeded",)
    policy_failure = (LookupError,)
    misused_ids = {"shared": "UnexpectedModelBehavior"}

    def edited(self, result: str, args: str) -> list[str]:
        """A note of its own, behind the results."""
        return [result, f"[A person changed the arguments of this call to {args}]"]

    def answered(self, value: Any) -> str:
        """An answer in the place of a call is its result, and no text of JSON."""
        return value if isinstance(value, str) else "" if value is None else json.dumps(value)


class OpenAIAgentsFace(FrameworkFace):
    name = "openai_agents"
    title = "OpenAI Agents"
    out_of_steps = ("MaxTurnsExceeded",)
    misused_ids = dict.fromkeys(("later", "shared"), "ModelBehaviorError")

    def edited(self, result: str, args: str) -> list[str]:
        """A note of its own, behind the results."""
        return [result, f"[A person changed the arguments of this call to {args}]"]


_REPLACED = (
    "Note: a human reviewer replaced this tool call before it ran. The call recorded in your message is the one you "
    "produced, not the one that executed. This was intentional and authorized. Do not re-issue your original call."
)


class LangGraphFace(FrameworkFace):
    name = "langgraph"
    title = "LangGraph"
    refuses_used_ids = False
    cannot = {
        **RunFace.cannot,
        (17, "may be async"): "`when` is a plain function",
        (17, "asked once"): "`when` is called in a node, which is called again from its top once it is answered",
    }
    out_of_steps = ("ModelCallLimitExceededError",)
    policy_failure = (LookupError,)

    def rejection(self, tool: str, *, reason: str | None = None, message: str | None = None) -> str:
        """In LangChain's words. Without a reason they name the call: the tests reject the first of a script."""
        if said := message or reason:
            return f"User rejected the tool call for `{tool}` with reason: {said}"
        return (
            f"User rejected the tool call for `{tool}` with id call_0_0. The tool was not executed. "
            "Do not retry this tool call unless the user explicitly requests it."
        )

    def edited(self, result: str, args: str) -> list[str]:
        """In LangChain's words, which stand before the result."""
        executed = json.dumps(json.loads(args))
        said = f"Executed instead: charge with arguments {executed}."
        return [f"{_REPLACED} {said}\n\nTool response:\n{result}"]


class StrandsFace(FrameworkFace):
    name = "strands"
    title = "Strands"
    cannot = {
        **RunFace.cannot,
        (9, "null"): "to `interrupt` an answer `None` is none: it asks again",
        (16, "twice in parallel"): "a second call of an agent that is at work is refused, and the model told",
        (19, "step limit"): "a limit is an argument of a call, not an agent's, and what ends by it is no error",
    }
