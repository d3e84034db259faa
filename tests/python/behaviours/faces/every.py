"""Every face of the package."""

from __future__ import annotations

from typing import Final

from tests.python.behaviours.faces.face import Face
from tests.python.behaviours.faces.frameworks import LangGraphFace, OpenAIAgentsFace, PydanticAIFace, StrandsFace
from tests.python.behaviours.faces.hooks import HooksFace
from tests.python.behaviours.faces.middleware import BatchedFace, PerCallFace
from tests.python.behaviours.faces.planner import PlannerFace
from tests.python.behaviours.faces.run import RunFace
from tests.python.behaviours.faces.server import ServerFace
from tests.python.support.frameworks import ELSEWHERE

FACES: Final[list[type[Face]]] = [
    ServerFace,
    RunFace,
    BatchedFace,
    PerCallFace,
    HooksFace,
    PlannerFace,
    PydanticAIFace,
    OpenAIAgentsFace,
    LangGraphFace,
    StrandsFace,
]
"""In the order of the page."""

FACES_HERE: Final = [face for face in FACES if face.name not in ELSEWHERE]
"""Those whose framework this environment has: the others are run where theirs is."""
