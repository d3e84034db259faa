"""Agents of Strands, as they are: ``hitl serve app:agent``, ``hitl.run(agent, ...)``; with options ``as_agent``.

>>> from hitl.ext.strands import as_agent                                                        # doctest: +SKIP
>>> served = as_agent(agent, approvals={"pay": {"approvers": ["group:finance"]}})                # doctest: +SKIP
"""

from hitl.ext.strands.serving import Strands as Strands
from hitl.ext.strands.serving import as_agent as as_agent
from hitl.ext.strands.serving import is_agent as is_agent

__all__ = ["Strands", "as_agent", "is_agent"]
