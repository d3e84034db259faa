"""Every face of the package."""

from __future__ import annotations

from typing import Final

from tests.python.behaviours.faces.face import Face
from tests.python.behaviours.faces.hooks import HooksFace
from tests.python.behaviours.faces.middleware import BatchedFace, PerCallFace
from tests.python.behaviours.faces.planner import PlannerFace
from tests.python.behaviours.faces.run import RunFace
from tests.python.behaviours.faces.server import ServerFace

FACES: Final[list[type[Face]]] = [ServerFace, RunFace, BatchedFace, PerCallFace, HooksFace, PlannerFace]
"""In the order of the page."""
