"""A conversation with an agent of this process, of which a store in a file is all that lasts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from hitl.testing import ScriptedChatClient
from tests.python.behaviours.faces.disk import full_disk, newer_file
from tests.python.behaviours.faces.elsewhere import Elsewhere
from tests.python.behaviours.faces.face import Conversation, Face
from tests.python.behaviours.faces.native import last_request
from tests.python.behaviours.scenes import Scene


class InAFile(Conversation):
    file: ClassVar[str]
    """What it is called, in the face's folder."""

    face: Face
    scene: Scene
    client: ScriptedChatClient

    def messages(self) -> list[dict[str, Any]]:
        return last_request(self.client)

    def in_another_process(self) -> Conversation:
        return Elsewhere(self.face, self.scene, self.kept(), self.waiting())

    def kept(self) -> dict[str, Any]:
        return {}

    def failing_store(self) -> AbstractContextManager[None]:
        return full_disk()

    def from_the_future(self) -> None:
        newer_file(self.face.folder / self.file)
        self.face.reopen(self.scene, {})
