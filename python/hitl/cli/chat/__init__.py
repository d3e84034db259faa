"""`hitl chat`: talk to an agent, and answer what it asks.

`command` reads the command line, `conversation` is the loop on a terminal, `turns` follows a turn as it runs,
`recollection` finds what was said before, `standing` says who may answer, `answers` gets a person's answer to an
interrupt, `prompts` are the widgets, `rendering` prints, `flow` breaks what streams in between words, `headless` is the
chat without a terminal.
"""

from hitl.cli.chat.command import add_to

__all__ = ["add_to"]
