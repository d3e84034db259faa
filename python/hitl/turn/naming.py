"""What the steps of a turn are called, so that a replay finds each again: by where they stand, or by a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hitl.journal.codec import fingerprint
from hitl.journal.ports import StepIdentity
from hitl.turn.places import Place


def check_text(what: str, text: str) -> None:
    """ValueError, naming ``what``, for text that cannot be stored: as the names of files may be, which are bytes."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"{what} holds a lone surrogate, which UTF-8 cannot carry\n\n"
                "hint: of the name of a file, os.fsencode(name).decode('utf-8', 'replace') makes text"
            ) from None


class StepNames:
    """The names that a turn has given so far."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}
        """How often each key was used, by the path that its first use has."""

    def identify(
        self,
        place: Place,
        kind: str,
        name: str,
        key: str | None,
        location: str | None,
        arguments: Mapping[str, Any] | None,
    ) -> StepIdentity:
        """The identity of the next step at ``place``, or the next one with this ``key``."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a {kind} step must be a str, got {type(name).__name__}")
        if key is None:
            path = place.next_step()
        else:
            check_text(f"the key of {kind} {name!r}", key)
            # A decorated step that is called in a loop has one key: later uses are told apart by their number.
            named = place.keyed_step(key)
            path = self.numbered(named)
            self._uses[named] = self._uses.get(named, 0) + 1
        return {
            "path": path,
            "key": key,
            "kind": kind,
            "name": name,
            "location": location,
            "arguments": {} if arguments is None else {n: fingerprint(v) for n, v in arguments.items()},
        }

    def numbered(self, path: str) -> str:
        """The path of the next use of a key whose first use has ``path``."""
        uses = self._uses.get(path, 0) + 1
        return path if uses <= 1 else f"{path}#{uses}"
