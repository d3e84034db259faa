"""Agents of other frameworks, as they are: one module for each, which is imported when one of its agents is given.

What they share is here: how a model's reply is recorded (``replies``), how a conversation is kept in the framework's
own form (``native``), how a person is asked before a call (``gating``) and what its arguments are (``arguments``), what
is told of steps that a framework traces (``spans``), which versions are supported (``versions``), and whether code runs
in a turn (``turns``). ``hitl.driver.adapters`` finds the module. ``otel`` is no agent's: it tells of turns.
"""
