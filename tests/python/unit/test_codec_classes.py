"""journal/codec.py: what reading, other Pythons and pydantic must not change of a value."""

import dataclasses
import enum
import functools
import pathlib
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, Field, PrivateAttr, computed_field

from hitl.journal.codec import decode, encode, fingerprint
from tests.python.unit.test_codec import Access, Counted, Level, same, through_json


class Page(BaseModel):
    words: int

    @functools.cached_property
    def minutes(self) -> float:
        return self.words / 200

    @computed_field  # type: ignore[prop-decorator]
    @functools.cached_property
    def is_long(self) -> bool:
        return self.words > 1000


def test_that_a_cached_property_was_read_changes_nothing() -> None:
    page, counted = Page(words=100), Counted([1, 2])
    before = [encode(page), encode(counted)]
    prints = [fingerprint(page), fingerprint(counted)]
    assert (page.minutes, page.is_long, counted.average) == (0.5, False, 1.5)
    assert [encode(page), encode(counted)] == before
    assert [fingerprint(page), fingerprint(counted)] == prints
    assert vars(through_json(page)) == {"words": 100}


def test_a_path_is_stored_under_one_name_whichever_python_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    path = pathlib.PurePosixPath("/a")
    stored = {"$hitl": "path", "type": "pathlib:PurePosixPath", "value": "/a"}
    assert encode(path) == stored
    monkeypatch.setattr(pathlib.PurePosixPath, "__module__", "pathlib._local")  # as in Python 3.13
    assert encode(path) == stored
    assert decode({**stored, "type": "pathlib._local:PurePosixPath"}) == path


class Meeting(BaseModel):
    begins: datetime
    at: time


@pytest.mark.parametrize(("said", "offset"), [("Z", 0), ("+01:30", 5400), ("-05:00", -18000)])
def test_a_zone_that_pydantic_has_read_is_a_fixed_offset(said: str, offset: int) -> None:
    meeting = Meeting.model_validate_json(f'{{"begins": "2024-01-01T00:00:00{said}", "at": "10:00:00{said}"}}')
    for value in (meeting.begins, meeting.at):
        back = through_json(value)
        assert back == value
        assert back.tzinfo == timezone(timedelta(seconds=offset))
        assert type(back.tzinfo) is timezone
        assert fingerprint(back) == fingerprint(value)
    assert encode(meeting.begins) == encode(datetime(2024, 1, 1, tzinfo=timezone(timedelta(seconds=offset))))
    assert through_json(meeting) == meeting


class Bits(enum.Flag, boundary=enum.KEEP):
    NONE = 0
    A = 1
    HIGH = 1 << 70


class Modes(enum.IntFlag):
    READ = 4
    ALL = 7


class Masked(enum.Flag, boundary=enum.CONFORM):
    A = 1
    PAIR = 6


@pytest.mark.parametrize("flags", [Bits, Modes, Masked])
def test_flags_are_kept_with_bits_that_have_no_name(flags: type[enum.Flag]) -> None:
    made = [flags(value) for value in (*range(16), 1 << 70, 1 << 70 | 3)]
    for member in made:
        back = through_json(member)
        assert (type(back), back.value) == (flags, member.value)  # Python 3.11.2 makes a new one of each `Bits(2)`
    assert encode(Access.READ | Access.WRITE)["value"] == "READ|WRITE"


class Sealed:
    __slots__ = ("__code",)

    def seal(self, code: int) -> None:
        self.__code = code

    @property
    def code(self) -> int:
        return self.__code


@dataclasses.dataclass
class Letter(Sealed):
    __slots__ = ("__own", "to")
    to: str

    def sign(self, own: str) -> None:
        self.__own = own

    @property
    def own(self) -> str:
        return self.__own


class Slotted(BaseModel):
    __slots__ = ("__mark", "seen")
    x: int


def test_private_slots_are_kept() -> None:
    letter = Letter("ada")
    assert "others" not in encode(letter)
    letter.seal(7)
    letter.sign("me")
    back = through_json(letter)
    assert (back.to, back.code, back.own) == ("ada", 7, "me")
    slotted = Slotted(x=1)
    object.__setattr__(slotted, "_Slotted__mark", 5)
    assert object.__getattribute__(through_json(slotted), "_Slotted__mark") == 5


@dataclasses.dataclass
class Refused(Exception):
    reason: str


def test_a_dataclass_that_is_an_exception_is_refused_as_every_exception_is() -> None:
    with pytest.raises(TypeError, match=r"^value\.e is of type .*\.Refused, which cannot be stored: it is an exc"):
        encode({"e": Refused("no")})
    with pytest.raises(TypeError, match=r"ValueError, which cannot be stored"):
        encode(ValueError("no"))


class Booking(BaseModel):
    host: IPv4Address
    anything: Any = None
    begins: datetime | None = None
    ratio: float = 1.0
    hosts: list[IPv4Address] = Field(default_factory=list)
    _note: Any = PrivateAttr(default=None)


@pytest.mark.parametrize(
    "beside",
    [
        {"anything": Level.LOW},
        {"anything": [Decimal("1.50"), (1, 2), {"k": Level.LOW}]},
        {"begins": datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin"))},
        {"begins": datetime(2024, 7, 1, tzinfo=UTC)},
        {"hosts": [IPv4Address("127.0.0.2")], "anything": UUID(int=1)},
    ],
    ids=lambda beside: str(list(beside)),
)
def test_beside_a_field_that_only_pydantic_can_write_others_keep_their_types(beside: dict[str, Any]) -> None:
    booking = Booking(host=IPv4Address("127.0.0.1"), **beside)
    booking._note = (1, 2)
    back = through_json(booking)
    assert back == booking
    assert list(vars(back)) == list(vars(booking))
    assert all(same(vars(back)[name], vars(booking)[name]) for name in vars(booking))
    assert (back.model_fields_set, back._note) == (booking.model_fields_set, (1, 2))
    if booking.begins is not None:
        assert back.begins.tzinfo is booking.begins.tzinfo
    assert same(getattr(back.anything, "__class__", None), getattr(booking.anything, "__class__", None))
    assert fingerprint(back) == fingerprint(booking)


class Loose(BaseModel):
    value: Any
    host: IPv4Address


def test_what_neither_can_write_truthfully_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"^value\.value is of type ipaddress\.IPv4Address, which cannot be stored"):
        encode(Loose(value=IPv4Address("127.0.0.1"), host=IPv4Address("127.0.0.1")))
