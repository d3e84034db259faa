"""Attachments: the images and other files of a message, and of what a tool returns."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Required, TypedDict

# The first characters of base64 data tell the image type.
_IMAGE_TYPES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}


class AttachmentDict(TypedDict, total=False):
    """An attachment as JSON: `media_type`, and either `data` or `url`."""

    media_type: Required[str]
    data: str
    url: str
    name: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or another file, in a message (`ChatMessage.attachments`) or as what a tool returns.

    Exactly one of `data` and `url` is there. A model is shown what its provider takes, and told of the rest by name:
    docs/models.md says which provider takes what. Two attachments are equal when all four fields are.

    Raises TypeError for a field that is no text, ValueError for anything else that is wrong; both name the field.

    Example:
        @tool
        async def chart(year: int) -> list[str | Attachment]:
            return [f"Sales of {year}:", Attachment.of_file(f"sales-{year}.png")]
    """

    media_type: str
    """What it is, without parameters: `image/png`, `application/pdf`."""

    data: str | None = None
    """Its bytes, base64 of the standard alphabet, padded."""

    url: str | None = None
    """Where it is, `https://` or `http://`, for the model's provider to fetch: hitl never does."""

    name: str | None = None
    """What people call it, and what a model is told: `report.pdf`."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str) and (value is not None or field.name == "media_type"):
                wanted = "a str" if field.name == "media_type" else "a str or None"
                raise TypeError(f"Attachment.{field.name} must be {wanted}, got {type(value).__name__}")
        # Late: a client of the HTTP API reads messages, and most of them attach nothing.
        from hitl._core import check_attachment

        try:
            check_attachment(self.media_type, self.data, self.url)
        except ValueError as error:
            if not str(error).startswith("Attachment.data"):
                raise
            raise ValueError(f"{error}\n\nhint: Attachment.of_bytes() takes bytes") from None

    @classmethod
    def of_bytes(cls, data: bytes, media_type: str, *, name: str | None = None) -> Attachment:
        """One whose bytes are at hand. Raises TypeError and ValueError, as `Attachment` does.

        Example:
            Attachment.of_bytes(figure, "image/png", name="sales.png")
        """
        return cls(media_type, data=base64.b64encode(data).decode(), name=name)

    @classmethod
    def of_file(cls, path: str | os.PathLike[str], media_type: str | None = None) -> Attachment:
        """A file, read now, under its own name; its type is told by the name unless `media_type` says it.

        Raises OSError where it cannot be read, ValueError where the name tells no type.

        Example:
            ChatMessage.user_message("What does it say?", attachments=[Attachment.of_file("report.pdf")])
        """
        from mimetypes import guess_type  # late: it reads the system's tables, and few programs attach files

        file = Path(path)
        name = file.name
        guessed = media_type or guess_type(name)[0]
        if guessed is None:
            raise ValueError(f"the name {name!r} tells no media type\n\nhint: give media_type=")
        return cls.of_bytes(file.read_bytes(), guessed, name=name)

    @classmethod
    def of_base64_image(cls, image: str) -> Attachment:
        """What the member `base64_image` of a message has: base64 alone, whose beginning tells the type, or a `data:`
        URL. Raises ValueError where it is neither.

        Example:
            Attachment.of_base64_image("data:image/png;base64,iVBORw0KGgo=")
        """
        image = "".join(image.split())  # as programs write it, in lines
        if image.startswith("data:"):
            head, _, data = image.partition(",")
            return cls(head.removeprefix("data:").partition(";")[0] or "image/png", data=data)
        kind = next((kind for start, kind in _IMAGE_TYPES.items() if image.startswith(start)), "image/png")
        return cls(kind, data=image)

    @property
    def is_image(self) -> bool:
        """Whether it is an image of any format."""
        return self.media_type.startswith("image/")

    @property
    def described(self) -> str:
        """Its name and type, as a model is told of what it is not shown: `report.pdf, application/pdf`."""
        return f"{self.name}, {self.media_type}" if self.name else self.media_type

    @property
    def data_url(self) -> str:
        """Its address: `url`, or a `data:` URL of its bytes."""
        return self.url if self.url is not None else f"data:{self.media_type};base64,{self.data}"

    def to_bytes(self) -> bytes | None:
        """Its bytes; None where only its address is known."""
        return None if self.data is None else base64.b64decode(self.data)

    def to_dict(self) -> AttachmentDict:
        """The attachment as JSON, fields that are None left out."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}  # type: ignore[return-value]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attachment:
        """The attachment that `to_dict` or the HTTP API wrote. TypeError for an unknown field or a wrong type,
        ValueError for what else is wrong."""
        known = {field.name for field in fields(cls)}
        if not data.keys() <= known:
            raise TypeError(f"Attachment has no field {min(map(str, data.keys() - known))!r}")
        if "media_type" not in data:
            raise TypeError("Attachment.media_type is missing")
        return cls(**data)
