"""Agents of pydantic-ai, as they are: ``hitl serve app:agent``, ``hitl.run(agent, ...)``; with options ``as_agent``.

>>> from hitl.ext.pydantic_ai import as_agent                                  # doctest: +SKIP
>>> served = as_agent(agent, deps=lambda params: Deps(params["tenant"]))       # doctest: +SKIP
"""

from hitl.ext.pydantic_ai.durability import HitlDurability as HitlDurability
from hitl.ext.pydantic_ai.serving import PydanticAI as PydanticAI
from hitl.ext.pydantic_ai.serving import as_agent as as_agent
from hitl.ext.pydantic_ai.serving import is_agent as is_agent

__all__ = ["HitlDurability", "PydanticAI", "as_agent", "is_agent"]
