"""Attachments: the images and other files of a message, and of what a tool returns."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Required, TypedDict

from hitl.strict_json import sendable

if TYPE_CHECKING:
    from pathlib import Path

# The first characters of base64 data tell the image type.
_IMAGE_TYPES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
_FIELDS = ("media_type", "data", "url", "name")  # those of `Attachment` itself: a class made of it may have others
_USUAL = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/mp3": "audio/mpeg",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
}


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

    data: str | None = field(default=None, repr=False)
    """Its bytes, base64 of the standard alphabet, padded."""

    url: str | None = None
    """Where it is, `https://` or `http://`, for the model's provider to fetch: hitl never does."""

    name: str | None = None
    """What people call it, and what a model is told: `report.pdf`."""

    def __post_init__(self) -> None:
        for name in _FIELDS:
            value = getattr(self, name)
            if not isinstance(value, str) and (value is not None or name == "media_type"):
                wanted = "a str" if name == "media_type" else "a str or None"
                raise TypeError(f"Attachment.{name} must be {wanted}, got {type(value).__name__}")
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
        from pathlib import Path  # late: with what it imports it takes longer than this module

        file = Path(path)
        kind = media_type or _type_of(file)
        if kind is None:
            raise ValueError(f"the name {file.name!r} tells no media type\n\nhint: give media_type=")
        return cls.of_bytes(file.read_bytes(), kind, name=sendable(file.name))

    @classmethod
    def of_base64_image(cls, image: str) -> Attachment:
        """What the member `base64_image` of a message has: base64 alone, whose beginning tells the type, or a `data:`
        URL of it; in lines or without padding too. Raises ValueError where it is neither.

        Example:
            Attachment.of_base64_image("data:image/png;base64,iVBORw0KGgo=")
        """
        image, kind = image.strip(), ""
        if image[:5].lower() == "data:":
            head, _, image = image[5:].partition(",")
            kind, _, rest = "".join(head.lower().split()).partition(";")
            if rest.rpartition(";")[2] != "base64":
                raise ValueError("the data: URL of an image must have ;base64 before its comma")
        if not kind:
            kind = next((kind for start, kind in _IMAGE_TYPES.items() if image.startswith(start)), "image/png")
        try:
            return cls.of_bytes(base64_bytes(image), _USUAL.get(kind, kind))
        except ValueError as error:
            raise ValueError(f"an image must be base64 or a data: URL of it: {error}") from error

    @property
    def is_image(self) -> bool:
        """Whether it is an image of any format."""
        return self.usual_type.startswith("image/")

    @property
    def usual_type(self) -> str:
        """Its media type as providers know it: in lower case, and `image/jpeg` for what is called `image/jpg`."""
        kind = self.media_type.lower()
        return _USUAL.get(kind, kind)

    @property
    def described(self) -> str:
        """Its name and type, as a model is told of what it is not shown: `report.pdf, application/pdf`."""
        return described(self.media_type, self.name)

    @property
    def data_url(self) -> str:
        """Its address: `url`, or a `data:` URL of its bytes."""
        return self.url if self.url is not None else f"data:{self.usual_type};base64,{self.data}"

    def to_bytes(self) -> bytes | None:
        """Its bytes; None where only its address is known."""
        return None if self.data is None else base64.b64decode(self.data)

    def to_dict(self) -> AttachmentDict:
        """The attachment as JSON, fields that are None left out."""
        data: Any = {name: value for name in _FIELDS if (value := getattr(self, name)) is not None}
        if self.name is not None:
            data["name"] = sendable(self.name)  # the name of a file may hold what is no text
        return data  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attachment:
        """The attachment that `to_dict` or the HTTP API wrote. TypeError for an unknown field or a wrong type,
        ValueError for what else is wrong."""
        if not data.keys() <= set(_FIELDS):
            raise TypeError(f"Attachment has no field {min(map(str, data.keys() - set(_FIELDS)))!r}")
        if "media_type" not in data:
            raise TypeError("Attachment.media_type is missing")
        return cls(**data)


def described(media_type: str, name: str | None) -> str:
    """A name and a type on one line, as a model is told of them, and whoever reads a journal."""
    from hitl import _core  # late, as above

    # The name of a file may hold what is no text.
    return _core.described(media_type, name and name.encode("utf-8", "replace").decode())


def image_of(base64_image: str) -> Attachment:
    """The image that a message has as `base64_image`. What cannot be read is one without bytes, of no type that a model
    is shown: so it is told in words, and a session that has one goes on."""
    try:
        return Attachment.of_base64_image(base64_image)
    except ValueError:
        return Attachment("application/octet-stream", data="", name="image")


def base64_bytes(text: str) -> bytes:
    """The bytes of base64 as programs write it: in lines, or without the padding at its end, too. ValueError for what
    is none."""
    text = "".join(text.split())
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def _type_of(file: Path) -> str | None:
    """The media type of a file of this name; that of the packing, where it is packed: `a.pdf.gz` is no PDF."""
    ending = file.suffix.lower()
    if ending in _TYPES:
        return _TYPES[ending]
    from mimetypes import guess_type  # late: it reads the system's tables, and few programs attach files

    kind, packing = guess_type(file.name)
    if packing is not None:
        return "application/gzip" if packing == "gzip" else f"application/x-{packing}"
    return kind


# What the system's tables leave out, or have otherwise, from one machine to the next.
_OFFICE = "application/vnd.openxmlformats-officedocument."
_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".txt": "text/plain",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".json": "application/json",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}presentationml.presentation",
}
