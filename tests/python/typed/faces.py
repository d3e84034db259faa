"""The words of hitl.hooks, hitl.middleware and hitl.planner."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, assert_type

from pydantic import BaseModel

from hitl import RunContext, hooks, middleware, planner
from hitl.hooks import (
    AgentResult,
    BeforeToolCallEvent,
    HookProvider,
    HookRegistry,
    InterruptException,
    InterruptResponse,
    InterruptResponseContent,
    ToolUse,
)
from hitl.middleware import (
    ActionRequest,
    AgentMiddleware,
    AgentRuntime,
    ApprovalDecision,
    ApprovalRequest,
    Command,
    DecisionInput,
    HITLInterrupt,
    HITLManager,
    HumanInTheLoopMiddleware,
    InterruptInfo,
    InterruptOnConfig,
    InterruptValue,
    ModelRequest,
    ModelResponse,
    ParsedInterruptConfig,
    ResumeData,
    ReviewConfig,
    ToolCallAgent,
    ToolCallRequest,
    create_hitl_middleware,
    format_tool_call_description,
)
from hitl.planner import (
    MemoryKey,
    ModelRegistry,
    Node,
    NodeSpec,
    PauseDisabled,
    PlannerEvent,
    PlannerFinish,
    PlannerPause,
    ReactPlanner,
    StateStore,
    SupportsPlannerClaims,
    SupportsPlannerState,
    build_catalog,
)
from hitl.testing import ScriptedChatClient

client = ScriptedChatClient([{"content": "done"}])

# -- hooks ------------------------------------------------------------------------------------------------------------


class Approves:
    """A provider of hooks: its parameter may leave out the keywords that nobody gives."""

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.approve)
        registry.add_callback(BeforeToolCallEvent, self.log)

    def approve(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] != "delete":
            return
        answer = event.interrupt("approval", reason={"paths": event.tool_use["input"]}, approvers=["ana"])
        assert_type(answer, Any)
        if answer != "y":
            event.cancel_tool = "no"

    async def log(self, event: BeforeToolCallEvent) -> None:
        assert_type(event.tool_use, ToolUse)


@hooks.tool(context=True)
def delete(path: str, tool_context: hooks.ToolContext) -> str:
    if tool_context.interrupt("sure", reason=path) != "y":
        return "kept"
    return "gone"


@hooks.tool
def keep(path: str) -> str:
    return path


provider: HookProvider = Approves()
hooked = hooks.Agent(client=client, tools=[delete, keep], hooks=[provider], system_prompt="Be brief.")


def hooked_run() -> None:
    result = hooked("delete a")
    assert_type(result, AgentResult)
    while result.stop_reason == "interrupt":
        answers: list[InterruptResponseContent] = []
        for asked in result.interrupts:
            assert_type(asked, hooks.Interrupt)
            response: InterruptResponse = {"interruptId": asked.id, "response": "y"}
            answers.append({"interruptResponse": response})
        result = hooked(answers)
    hooked(3)  # pyright: ignore[reportArgumentType]
    wrong: InterruptResponse = {"interruptId": "a", "answer": "y"}  # pyright: ignore[reportAssignmentType]
    print(wrong)


def needs_person(error: InterruptException) -> dict[str, Any]:
    return error.interrupt.to_dict()


# -- middleware -------------------------------------------------------------------------------------------------------


def look(path: str) -> str:
    return path


class Counts(AgentMiddleware):
    def before_model(self, state: dict[str, Any], runtime: AgentRuntime) -> dict[str, Any] | None:
        return {"asked": state.get("asked", 0) + 1}

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        return handler(request)


def costly(request: ToolCallRequest) -> bool:
    return bool(request.tool_call["args"]["cents"] > 5)


def in_a_persons_place(asked: ApprovalRequest) -> ApprovalDecision | DecisionInput | None:
    return ApprovalDecision.APPROVE if asked.tool_name == "look" else None


config: InterruptOnConfig = {"allowed_decisions": ["approve", "respond"], "when": costly}
gate = HumanInTheLoopMiddleware({"look": True, "pay": config}, approval_callback=in_a_persons_place)
caller = ToolCallAgent(client, tools=[look], middleware=[gate, Counts(), create_hitl_middleware("look")])


async def invoked() -> None:
    result = caller.invoke({"messages": [{"role": "user", "content": "look"}]}, {"configurable": {"thread_id": "1"}})
    assert_type(result, dict[str, Any])
    shown: InterruptInfo = result["__interrupt__"][0]
    assert_type(shown.value, InterruptValue | dict[str, Any])
    assert isinstance(shown.value, InterruptValue)
    for action, review in zip(shown.value.action_requests, shown.value.review_configs, strict=True):
        assert_type(action, ActionRequest)
        assert_type(review, ReviewConfig)
    await caller.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}))


def wrong_words() -> None:
    bad: InterruptOnConfig = {"allowed_decisions": ["perhaps"]}  # pyright: ignore[reportAssignmentType]
    HumanInTheLoopMiddleware({"look": True}, interrupt_mode="all")  # pyright: ignore[reportArgumentType]
    HumanInTheLoopMiddleware(["look"])  # pyright: ignore[reportArgumentType]
    print(bad)


def managed(manager: HITLManager) -> None:
    assert_type(manager.create_interrupt(), InterruptInfo)
    assert_type(manager.get_config("look"), ParsedInterruptConfig | None)
    manager.apply_decisions([DecisionInput("approve")], [{"name": "look", "args": {}, "id": "1"}])
    print(ResumeData, HITLInterrupt, format_tool_call_description)


# -- planner ----------------------------------------------------------------------------------------------------------


class Request(BaseModel):
    path: str


class Reply(BaseModel):
    text: str


@planner.tool(desc="Writes a file.", side_effects="write")
async def write(args: Request, ctx: planner.ToolContext) -> Reply:
    await ctx.pause("approval_required", {"path": args.path})
    return Reply(text=args.path)


@dataclass
class Kept:
    """A store of pauses."""

    records: dict[str, dict[str, Any]]

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        self.records[token] = payload

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        return self.records.get(token)


registry = ModelRegistry()
registry.register("write", Request, Reply)


class Shared(Kept):
    async def claim_planner_state(self, token: str) -> bool:
        return token in self.records


store: StateStore = Kept({})
claims: SupportsPlannerClaims = Shared({})
supports: SupportsPlannerState = store


def heard(event: PlannerEvent) -> None:
    assert_type(event.event_type, Literal["pause", "resume", "finish"])


catalog: list[NodeSpec] = build_catalog([Node(write, name="write")], registry)
planned = ReactPlanner(
    llm=client,
    catalog=catalog,
    state_store=store,
    event_callback=heard,
)


async def plan() -> str | None:
    assert_type(PauseDisabled.code, str)
    outcome = await planned.run("write", tool_context={"user": "ana"}, memory_key=MemoryKey(session_id="1"))
    assert_type(outcome, PlannerFinish | PlannerPause)
    print(outcome.resume_token)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    if isinstance(outcome, PlannerPause):
        outcome = await planned.resume(outcome.resume_token, user_input="yes")
    return outcome.reason


def context_of(ctx: RunContext) -> object:
    return ctx.context, hooks.__all__, middleware.__all__, planner.__all__
