"""The agent of a scene as `hitl serve` imports it: the scene comes by the environment."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.python.behaviours.faces.native import native_agent
from tests.python.behaviours.ledger import Ledger
from tests.python.behaviours.scenes import Scene

agent, _ = native_agent(
    Scene.from_json(json.loads(os.environ["BEHAVIOUR_SCENE"])), Ledger(Path(os.environ["BEHAVIOUR_FOLDER"]))
)
