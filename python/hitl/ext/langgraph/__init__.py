"""Graphs of LangGraph and agents of LangChain, as they are: ``hitl serve app:graph``, ``hitl.run(graph, ...)``; with
options ``as_agent``. Of graphs that run in a loop of your own ``HitlSaver`` keeps the checkpoints, in a store of hitl.

>>> from hitl.ext.langgraph import as_agent                                           # doctest: +SKIP
>>> served = as_agent(graph, context=lambda params: Context(params["tenant"]))        # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from hitl.ext.langgraph.serving import LangGraph as LangGraph
from hitl.ext.langgraph.serving import as_agent as as_agent
from hitl.ext.langgraph.serving import is_agent as is_agent

if TYPE_CHECKING:
    from hitl.ext.langgraph.saver import HitlSaver as HitlSaver

__all__ = ["HitlSaver", "LangGraph", "as_agent", "is_agent"]


def __getattr__(name: str) -> Any:
    if name == "HitlSaver":
        # Start-up time and memory of workers: they serve graphs, and need neither a saver nor the stores that it opens.
        from hitl.ext.langgraph.saver import HitlSaver

        return HitlSaver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
