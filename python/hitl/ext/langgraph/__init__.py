"""Graphs of LangGraph and agents of LangChain, as they are: ``hitl serve app:graph``, ``hitl.run(graph, ...)``; with
options ``as_agent``.

>>> from hitl.ext.langgraph import as_agent                                           # doctest: +SKIP
>>> served = as_agent(graph, context=lambda params: Context(params["tenant"]))        # doctest: +SKIP
"""

from hitl.ext.langgraph.serving import LangGraph as LangGraph
from hitl.ext.langgraph.serving import as_agent as as_agent
from hitl.ext.langgraph.serving import is_agent as is_agent

__all__ = ["LangGraph", "as_agent", "is_agent"]
