"""The agent whose sessions are in `schema_3.db.gz`: that of `schema_2.db.gz`, served by what had version 3.

The file has the same sessions, and one more whose tool was approved for the rest of it.
"""

from __future__ import annotations

from tests.python.http.older.schema_2 import agent

__all__ = ["agent"]
