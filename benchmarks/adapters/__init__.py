"""One agent in the words of each framework: its model wants `look` called so many times, one after the other.

A module for each has `make(calls)`, the agent, and `alone(agent)`, a run of it by the framework itself. The message
says how many calls, so that one agent does turns of every length.
"""
