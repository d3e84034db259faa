"""An operator with rules: who may let it restart, scale and delete services, and what happens when nobody answers.

    hitl serve examples.ops_agent:agent --policy examples/ops_policy.toml --interrupt-ttl 3600
    hitl chat http://127.0.0.1:8000 "restart staging-web"

Then try `restart web`, `scale web to 30` and `delete web`. The rules are in a file, `examples/ops_policy.toml`: staging
is free, production is for `group:oncall`, too much is denied, and the model is told why. `--interrupt-ttl` is how long
such a question waits; after it the call is an error that the model reads, and nothing has run.

Deleting escalates: `group:oncall` is asked first, then `group:leads`, and when they say nothing either it is a no.
Groups are those of keys, so make some before the server starts, and say who you are in `HITL_API_KEY`:

    hitl keys create ada --scope read --scope send --scope answer --group oncall --store .hitl/hitl.db

The services are a file, `OPS_SERVICES` (`ops_services.json`), and `OPS_PATIENCE` is how many seconds each group has.
With OPENROUTER_API_KEY or OPENAI_API_KEY a real model drives it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import hitl
from hitl import InterruptExpired, ReActAgent, ToolRejected, tool
from hitl.decisions import DecisionKind
from hitl.examples.demo_model import DemoModel, Plan, choose_model, error_of

SERVICES = Path(os.environ.get("OPS_SERVICES") or "ops_services.json")
PATIENCE = float(os.environ.get("OPS_PATIENCE") or 600)

Services = dict[str, dict[str, int]]


def load() -> Services:
    """What runs: replicas and restarts of each service, by name."""
    if not SERVICES.exists():
        return {"web": {"replicas": 2, "restarts": 0}, "staging-web": {"replicas": 1, "restarts": 0}}
    services: Services = json.loads(SERVICES.read_text(encoding="utf-8"))
    return services


def save(services: Services) -> None:
    """Keep it. Whole or not at all, for a server may be killed at any time."""
    new = SERVICES.with_suffix(".new")
    new.write_text(json.dumps(services, indent=2), encoding="utf-8")
    new.replace(SERVICES)


def is_there(service: str) -> None:
    """A guardrail: nobody is asked about a service that does not run."""
    if service not in load():
        raise ValueError(f"there is no service {service!r}; there are: {', '.join(load())}")


@tool
async def status() -> Services:
    """Show all services."""
    return load()


@tool(input_guardrails=[is_there])
async def restart(service: str) -> str:
    """Restart a service."""
    services = load()
    services[service]["restarts"] += 1
    save(services)
    return f"{service} was restarted"


@tool(input_guardrails=[is_there])
async def scale(service: str, replicas: int) -> str:
    """Run another number of replicas of a service."""
    services = load()
    services[service]["replicas"] = replicas
    save(services)
    return f"{service} runs {replicas} times"


YES_OR_NO: list[DecisionKind] = ["approve", "reject"]
"""Nobody may edit it: another service would be another question."""


@hitl.step(once=True)  # a crash in the middle of it is a question to a person, and no second try
def remove(service: str) -> None:
    """Delete it."""
    services = load()
    del services[service]
    save(services)


@tool(input_guardrails=[is_there])
async def delete(service: str) -> str:
    """Delete a service and its data, for good."""
    for group in ("group:oncall", "group:leads"):
        try:
            await hitl.approval(
                "delete", {"service": service}, approvers=[group], allowed_decisions=YES_OR_NO, expires_in=PATIENCE
            )
        except InterruptExpired:
            continue
        await remove(service)
        return f"{service} is gone"
    raise ToolRejected(f"nobody answered, so {service} stays")


# --- a model without a mind, for those who have no key: see hitl.examples.demo_model --------------------------------


def operate(request: str) -> Plan:
    """`restart web`, `scale web to 5`, `delete web`."""
    verb, service, *rest = request.lower().split()
    arguments: dict[str, object] = {"service": service}
    if verb == "scale":
        arguments["replicas"] = int(rest[-1])
    result = yield verb, arguments
    return f"I was told: {error}" if (error := error_of(result)) else f"Done: {result}."


def show(request: str) -> Plan:
    """What there is."""
    services: Services = yield "status", {}
    return "\n".join(f"{name}: {numbers}" for name, numbers in services.items())


OFFLINE = DemoModel(
    [(r"^(restart|delete) \S+$|^scale \S+ to \d+$", operate), ("status|list|show|what", show)],
    "I can: status, restart NAME, scale NAME to NUMBER, delete NAME.",
)
client, model_name = choose_model(OFFLINE)
agent = ReActAgent(
    client=client,
    model_name=model_name,
    name="operator",
    system_prompt="You operate services. A refusal is final; say what you heard, and the reason.",
    tools=[status, restart, scale, delete],
)
