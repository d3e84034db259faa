"""An agent whose model calls a tool that ends when the test lets it."""

from __future__ import annotations

from hitl import ReActAgent, tool
from tests.python.faults.slow_step_agent import work
from tests.python.support.puppet import PuppetModel

agent = ReActAgent(client=PuppetModel(), model_name="puppet", name="slow", tools=[tool(work)])
