"""Where this adapter meets the SDK's inside: every name of it that is no public one, and what is put in its place.

The SDK has no interface for what we do: its models and tools can be wrapped, but then agents, tools and hooks see
copies of each other. So a few of its functions are replaced once, by ours, which outside of a turn call them. A release
that has them no more is an ImportError that says so: ``hitl.driver.adapters`` shows it.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

from openai.types.responses import ResponseOutputItem


def _find(module: str, name: str, *parameters: str) -> Any:
    """Something of the SDK's, with these parameters where it is a function that we replace."""
    try:
        found = getattr(importlib.import_module(module), name)
        missing = set(parameters) - set(inspect.signature(found).parameters if parameters else ())
    except (ImportError, AttributeError) as error:
        raise ImportError(f"openai-agents {version('openai-agents')} has no {module}.{name}") from error
    if missing:
        raise ImportError(f"{module}.{name} of openai-agents {version('openai-agents')} takes no {sorted(missing)}")
    return found


_EXECUTION = "agents.run_internal.tool_execution"

get_model: Callable[..., Any] = _find("agents.run_internal.run_loop", "get_model", "agent", "run_config")
needs_approval: Callable[..., Any] = _find(
    _EXECUTION, "function_needs_approval", "function_tool", "context_wrapper", "tool_call"
)
invoke: Callable[..., Any] = _find(
    _EXECUTION, "_invoke_function_tool_with_metadata", "function_tool", "context", "arguments"
)
get_all_tools: Callable[..., Any] = _find("agents.agent", "AgentBase").get_all_tools
mcp_tools: Callable[..., Any] = _find("agents.mcp", "MCPUtil").get_all_function_tools

InvocationResult: Any = _find("agents.tool", "_FunctionToolInvocationResult", "output", "is_sdk_generated_error")
timeout_message: Callable[..., str] = _find(
    "agents.tool", "default_tool_timeout_error_message", "tool_name", "timeout_seconds"
)
Evaluation: Any = _find("agents._function_tool_arguments", "FunctionToolApproval", "outcome", "tool", "invoker")
usage_of: Callable[[Any], Any] = _find("agents.usage", "_response_usage_to_usage", "response_usage")
_construct: Callable[..., Any] = _find("openai._models", "construct_type", "value", "type_")
_namespace: Callable[..., Any] = _find("agents._tool_identity", "get_tool_call_namespace")
_lookup_key: Callable[..., Any] = _find("agents._tool_identity", "get_function_tool_lookup_key_for_call")
_namespace_of: Callable[..., Any] = _find("agents._tool_identity", "get_explicit_function_tool_namespace", "tool")
_is_deferred: Callable[..., Any] = _find("agents._tool_identity", "is_deferred_top_level_function_tool")
server_name: Callable[[str], str] = _find("agents.mcp._logging", "get_mcp_server_log_name", "name")
"""The name of an MCP server without what may be secret in it: one that has none is called by its address."""
_owner_of: Callable[..., Any] = _find("agents.run_state", "RunState")._find_nested_approval_state
_scope_of: Callable[..., Any] = _find("agents.agent_tool_state", "get_agent_tool_state_scope", "context")
_nested: Callable[..., Any] = _find("agents.agent_tool_state", "peek_agent_tool_run_result", "tool_call", "scope_id")
_drop_nested: Callable[..., Any] = _find(
    "agents.agent_tool_state", "drop_agent_tool_run_result", "tool_call", "scope_id"
)
_WithSession: Any = _find("agents.mcp.server", "_MCPServerWithClientSession")
begin_conversation: Callable[[Any], Any] = _find("agents.memory", "OpenAIConversationsSession")._get_session_id
"""The id of a session's conversation at OpenAI, which is begun where there is none."""
takes_wrapper: Callable[[Any], bool] = _find("agents.memory.session", "_session_method_accepts_wrapper", "method")
"""Whether a method of a session is told of the run."""
origin_of: Callable[..., Any] = _find("agents.tool", "get_function_tool_origin")


def put(module: str, name: str, replacement: Any) -> None:
    """Replace a function of the SDK's."""
    setattr(importlib.import_module(module), name, replacement)


def put_model(replacement: Any) -> None:
    """Who finds the model of an agent."""
    put("agents.run_internal.run_loop", "get_model", replacement)


def put_tools(needs: Any, invoke: Any) -> None:
    """Who finds out whether a call needs approval, and who makes it."""
    put(_EXECUTION, "function_needs_approval", needs)
    put(_EXECUTION, "_invoke_function_tool_with_metadata", invoke)


def lenient_item(wire: dict[str, Any]) -> Any:
    """An item of a model's output, as the client of the API makes one that its types do not describe."""
    return _construct(value=wire, type_=ResponseOutputItem)


def lookup_of(tool: Any, call: Any) -> tuple[str | None, Any]:
    """By what the SDK finds the decision about a call: the namespace of the tool, and its key."""
    namespace = _namespace(call)
    if _is_deferred(tool):
        return namespace or tool.name, ("deferred_top_level", tool.name)
    return namespace, _lookup_key(call)


def namespace_of(tool: Any) -> str | None:
    """The namespace that a tool is in: two may have tools of one name."""
    namespace: str | None = _namespace_of(tool)
    return namespace


def begin_anew(context: Any, arguments: str) -> None:
    """Let a call see other arguments than those that the model wrote."""
    context.tool_arguments = arguments
    context._function_tool_arguments = None


def is_agent_tool(tool: Any) -> bool:
    """Whether it is an agent as a tool."""
    return bool(tool._is_agent_tool)


def server_of(tool: Any) -> str | None:
    """The name of the MCP server that a tool is of."""
    binding = tool._mcp_tool_binding
    return None if binding is None else str(binding[0])


def copy_of(server: Any) -> Any:
    """An MCP server of its own with what this one was made with, unconnected; None where nobody knows how that is done.
    All of the SDK's own keep what a connection is in the same attributes."""
    if not isinstance(server, _WithSession):
        return None
    made = copy.copy(server)
    made.session = made.server_initialize_result = made._get_session_id = made._v2_session_id = None
    made.exit_stack = AsyncExitStack()
    made._cleanup_lock, made._request_lock = asyncio.Lock(), asyncio.Lock()
    made.cache_tools_list = False  # who says that the list is old says it to the other one
    return made


def is_undecided(state: Any, item: Any) -> bool:
    """Whether nothing was decided about a call that waits in a state. UserError where the SDK cannot tell it from
    another one."""
    state, item = _owner_of(state, item) or (state, item)
    status = state._context.get_approval_status(
        item.tool_name or "", item.call_id, tool_namespace=item.tool_namespace, existing_pending=item
    )
    return status is None


def waiting_in_tools(state: Any) -> list[list[Any]]:
    """The calls that wait in runs of agents as tools, by the call of the tool."""
    response, scope = state._last_processed_response, state._agent_tool_state_scope_id
    pending = [_nested(run.tool_call, scope_id=scope) for run in (response.functions if response else ())]
    return [list(getattr(each, "interruptions", ())) for each in pending]


def forget_waiting(context: Any) -> None:
    """Let a call of an agent as a tool have its output: while calls wait in that, as they did before it went on, the
    SDK takes the output for none, and makes the call again."""
    call, scope = context.tool_call, _scope_of(context)
    if getattr(_nested(call, scope_id=scope), "interruptions", ()):
        _drop_nested(call, scope_id=scope)
