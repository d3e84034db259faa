"""Research by several agents: two that look things up at the same time, one that writes, and an answer with a type.

    python -m examples.research "how tall are trees?"
    hitl serve examples.research:agent

The editor sends two researchers out (`as_tool`) and hands over to the writer (`handoffs`), whose answer is a `Report`
(`output_type`): checked, and a value of that class in `result.output`. One researcher wants to buy an article, and that
is asked here, whichever agent it is: all their questions come out on the one run. Say no, and the report says so.

The library is the few lines below. With OPENROUTER_API_KEY or OPENAI_API_KEY a real model drives all of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass

import hitl
from hitl import ReActAgent, tool
from hitl.examples.demo_model import DemoModel, Plan, choose_model, error_of

FREE = {
    "trees": "The tallest known tree is a coast redwood of 116 m. (Field guide)",
    "water": "Water rises in a tree by its own cohesion. (Textbook)",
}
BOUGHT = {"trees": "Theory puts the limit at 122 to 130 m. (Journal of Botany)"}


@dataclass
class Report:
    """What the writer answers."""

    title: str
    findings: list[str]
    sources: list[str]


@tool
def look_up(subject: str) -> str:
    """Look a subject up in the library; it has `trees` and `water`."""
    return FREE.get(subject, f"the library has nothing about {subject}")


@tool(requires_approval=True)
def buy_article(subject: str, cents: int) -> str:
    """Buy an article about a subject; it costs 900 cents."""
    return BOUGHT.get(subject, f"there is no article about {subject}")


# --- a model without a mind, for those who have no key: see hitl.examples.demo_model --------------------------------


def reading(request: str) -> Plan:
    """A researcher who reads what there is."""
    found: str = yield "look_up", {"subject": request.split()[-1]}
    return found


def buying(request: str) -> Plan:
    """A researcher who also buys what is not there."""
    subject = request.split()[-1]
    found: str = yield "look_up", {"subject": subject}
    bought = yield "buy_article", {"subject": subject, "cents": 900}
    return f"{found}\n{'No article: ' + error if (error := error_of(bought)) else bought}"


def editing(request: str) -> Plan:
    """The editor, and the writer, who goes on with the same conversation."""
    found: list[str] = yield [
        ("reader", {"input": "what is known about water"}),
        ("buyer", {"input": "what is known about trees"}),
    ]
    yield "transfer_to_writer", {}
    findings = [line for text in found for line in text.splitlines()]
    sources = [line.rpartition("(")[2].rstrip(")") for line in findings if line.endswith(")")]
    return json.dumps({"title": request, "findings": findings, "sources": sources})


# --- the agents -----------------------------------------------------------------------------------------------------


def researcher(name: str, plan: DemoModel, *tools: hitl.Tool) -> ReActAgent:
    """An agent that looks one thing up."""
    client, model_name = choose_model(plan)
    about = f"Looks one subject up, with {' and '.join(tool.name for tool in tools)}."
    prompt = "Look up what you are asked, and say what you found, each finding with its source in brackets."
    return ReActAgent(client, model_name, name, prompt, tools, description=about)


reader = researcher("reader", DemoModel([(".", reading)]), look_up)
buyer = researcher("buyer", DemoModel([(".", buying)]), look_up, buy_article)
client, model_name = choose_model(DemoModel([(".", editing)]))
writer: ReActAgent[Report] = ReActAgent(
    client,
    model_name,
    "writer",
    "Write a report of what was found. Invent nothing.",
    output_type=Report,
    description="Writes the report, once everything is found.",
)
agent: ReActAgent[Report] = ReActAgent(
    client,
    model_name,
    "editor",
    "Have reader and buyer look things up, both at once, then hand over to the writer.",
    tools=[reader.as_tool(), buyer.as_tool()],
    handoffs=[writer],
    output_type=Report,
)


async def main(question: str) -> None:
    """Ask on the terminal whatever an agent wants to know, until there is a report."""
    result = await hitl.run(agent, question)
    while result.status == "interrupted":
        for asked in result.interrupts:
            said = await asyncio.to_thread(input, f"{asked.agent} wants {asked.tool_name} {asked.tool_args} [y/N] ")
            if said.strip().lower() == "y":
                result.state.approve(asked)
            else:
                result.state.reject(asked, reason=said.strip() or None)
        result = await hitl.run(agent, result.state)
    if result.status == "error":
        sys.exit(f"it failed: {result.error}")
    report = result.output
    print("\n".join([report.title, *(f"- {finding}" for finding in report.findings), f"Sources: {report.sources}"]))


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "how tall are trees?"))
