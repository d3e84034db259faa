"""Agents of the OpenAI Agents SDK, as they are: ``hitl serve app:agent``, ``hitl.run(agent, ...)``; with options
``as_agent``.

>>> from hitl.ext.openai_agents import as_agent                                       # doctest: +SKIP
>>> served = as_agent(agent, context=lambda params: Account(params["customer"]))      # doctest: +SKIP
"""

from hitl.ext.openai_agents.serving import OpenAIAgents as OpenAIAgents
from hitl.ext.openai_agents.serving import as_agent as as_agent
from hitl.ext.openai_agents.serving import is_agent as is_agent
from hitl.ext.openai_agents.serving import message_of as message_of

__all__ = ["OpenAIAgents", "as_agent", "is_agent", "message_of"]
