import collections
import dataclasses
import enum
import functools
import hashlib
import json
import pathlib
import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from hitl import _core
from hitl.journal.codec import decode, encode, fingerprint
from hitl.journal.plain import NOT_PLAIN, copy_plain
from hitl.messages import ChatMessage


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Order:
    id: UUID
    lines: list["Order"] = dataclasses.field(default_factory=list)
    total: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        self.total += 1


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    name: str


class City(BaseModel):
    name: str
    founded: date | None = None


class Trip(BaseModel):
    model_config = ConfigDict(extra="allow")
    cities: list[City]
    code: str = Field(alias="tripCode")
    _secret: int = PrivateAttr(default=1)

    @field_validator("code", mode="after")
    @classmethod
    def mark(cls, value: str) -> str:
        return f"{value}!"


class Host(BaseModel):
    address: IPv4Address


def through_json(value: Any) -> Any:
    text = json.dumps(encode(value), ensure_ascii=False, allow_nan=False)
    text.encode()
    return decode(json.loads(text))


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters())
    | st.text(alphabet=st.characters(categories=["Cs"]))
    | st.binary()
    | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3, seconds=7)), None]))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.sampled_from([*Color, *Access, Access.READ | Access.WRITE, Access(0), Level.LOW, Point(1, 2), Frozen("x")])
)
hashables = st.recursive(
    scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5
)
values = st.recursive(
    hashables,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.just("$hitl") | st.integers(), inner, max_size=4)
        | st.sets(hashables, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=20,
)


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types all the way down: 1, 1.0 and True are different answers."""
    if type(left) is not type(right) or left != right:
        return False
    if isinstance(left, list | tuple):
        return all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return True


@given(values)
def test_what_comes_back_is_what_went_in(value: Any) -> None:
    assert same(through_json(value), value)


@given(values)
def test_equal_values_have_equal_fingerprints(value: Any) -> None:
    assert fingerprint(value) == fingerprint(through_json(value))


def test_plain_json_stands_for_itself() -> None:
    value = {"a": [1, 2.5, "x", None, True], "b": {}}
    assert encode(value) == value


def test_the_copy_shares_nothing() -> None:
    value = {"list": [1]}
    encoded = encode(value)
    copy = decode(encoded)
    value["list"].append(2)
    assert encoded == copy == {"list": [1]}
    copy["list"].append(3)
    assert encoded == {"list": [1]}


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 2**63, -(2**63) - 1, 10**400, "\ud800", {"$hitl": "x"}])
def test_what_other_readers_of_json_would_damage_is_tagged(value: Any) -> None:
    assert encode(value) != value
    assert through_json(value) == value


def test_nan_comes_back_as_nan() -> None:
    back = through_json(float("nan"))
    assert back != back


def test_named_zones_and_fold_are_kept() -> None:
    moment = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    back = through_json(moment)
    assert back.tzinfo is moment.tzinfo
    assert (back.fold, back.utcoffset()) == (1, moment.utcoffset())
    assert through_json(time(1, 2, tzinfo=UTC)) == time(1, 2, tzinfo=UTC)


def test_a_dataclass_is_rebuilt_field_by_field() -> None:
    order = Order(UUID(int=1), [Order(UUID(int=2))])
    assert through_json(order) == order  # __post_init__ did not add to the total again
    assert through_json(Frozen("n")) == Frozen("n")
    assert through_json(ChatMessage.user_message(content="x")) == ChatMessage.user_message(content="x")


class Noted:
    """A base that is no dataclass."""

    def __init__(self) -> None:
        self.note = "from the base"


@dataclasses.dataclass
class Counted(Noted):
    items: list[int]

    def __post_init__(self) -> None:
        super().__init__()
        self.total = sum(self.items)

    @functools.cached_property
    def average(self) -> float:
        return self.total / len(self.items)


@dataclasses.dataclass
class Marks(set[int]):
    name: str


def test_a_dataclass_keeps_what_it_holds_beside_its_fields() -> None:
    counted = Counted([1, 2])
    assert counted.average == 1.5
    again = decode(encode(counted))
    assert (again.total, again.note, vars(again).keys()) == (3, "from the base", {"items", "total", "note"})
    assert again.average == 1.5
    counted.total = object()  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"value\.total is of type object"):
        encode(counted)


def test_a_dataclass_that_is_a_collection_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Marks, which cannot be stored; make it a plain set"):
        encode(Marks("m"))


def test_a_dataclass_field_that_was_added_later_gets_its_default() -> None:
    encoded = encode(Order(UUID(int=1)))
    del encoded["value"]["lines"]
    assert decode(encoded).lines == []
    del encoded["value"]["id"]
    with pytest.raises(ValueError, match="has no field 'id'"):
        decode(encoded)


def test_a_pydantic_model_is_rebuilt_without_validating_twice() -> None:
    trip = Trip(tripCode="a", cities=[City(name="Rome")], mood="good")
    trip._secret = 7
    back = through_json(trip)
    assert back == trip
    assert back.code == "a!"
    assert back.mood == "good"
    assert back._secret == 7
    assert back.model_fields_set == {"code", "cities", "mood"}
    assert type(back.cities[0]) is City


def test_a_pydantic_field_type_that_only_pydantic_knows_goes_through_its_json() -> None:
    assert through_json(Host(address=IPv4Address("127.0.0.1"))) == Host(address=IPv4Address("127.0.0.1"))


def test_paths_are_kept() -> None:
    assert through_json({"p": pathlib.PurePosixPath("/a")}) == {"p": pathlib.PurePosixPath("/a")}
    assert through_json(pathlib.Path("/a")) == pathlib.Path("/a")


class Plain:
    pass


class Text(str):
    __slots__ = ()


@dataclasses.dataclass
class Labelled(dict[str, int]):
    label: str


class Moment(datetime):
    """As those of other libraries are."""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, Plain()]}, r"^value\.a\[1\] is of type .*\.Plain, which cannot be stored$"),
        ((object(),), r"^value\[0\] is of type object"),
        ({1: {2: print}}, r"^value\[1\]\[2\] is of type builtin_function_or_method"),
        (collections.OrderedDict(), r"is of type collections.OrderedDict, .* make it a plain dict\(\.\.\.\)"),
        (Text("x"), r"make it a plain str"),
        (Labelled("a"), r"make it a plain dict"),
        (Moment(2026, 1, 5), r"make it a plain datetime\(\.\.\.\)"),
        (Order(UUID(int=1), [Plain()]), r"^value\.lines\[0\]"),
        ({Plain(): 1}, r"^key <.*> of value is of type"),
        (
            datetime(2024, 1, 1, tzinfo=type("Odd", (type(UTC).__base__,), {"utcoffset": lambda *_: timedelta(0)})()),
            "tzinfo",
        ),
        (City, "cannot be stored"),
        (iter([]), "list_iterator"),
        (Host.model_construct(address=Plain()), "value.address"),
    ],
)
def test_everything_else_is_a_type_error_that_names_the_path(value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        encode(value)


def test_a_class_that_cannot_be_found_again_is_refused() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    with pytest.raises(TypeError, match="define it at the top level"):
        encode(Local(1))


def test_a_cycle_is_a_value_error() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(ValueError, match="contains itself"):
        encode(cycle)


@pytest.mark.parametrize(
    "stored",
    [
        {"$hitl": "spaceship", "value": 1},
        {"$hitl": "dataclass", "type": "os:getcwd", "value": {}},
        {"$hitl": "dataclass", "type": "no_such_module:Thing", "value": {}},
        {"$hitl": "dataclass", "type": f"{__name__}:Gone", "value": {}},
        {"$hitl": "enum", "type": f"{__name__}:Plain", "value": "A"},
        {"$hitl": "enum", "type": f"{__name__}:Color", "value": "GREEN"},
        {"$hitl": "path", "type": "builtins:exec", "value": "1"},
    ],
)
def test_what_it_cannot_have_written_is_refused(stored: Any) -> None:
    with pytest.raises(ValueError, match="stored value"):
        decode(stored)


# -- nothing is imported ----------------------------------------------------------------------------------------------


@pytest.fixture
def unimported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that could be imported, and says so when it is."""
    (tmp_path / "drop_db.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return "drop_db"


@pytest.mark.parametrize("kind", ["dataclass", "enum", "model", "model_fields", "model_json", "namedtuple", "path"])
def test_a_stored_value_imports_nothing(kind: str, unimported: str) -> None:
    with pytest.raises(ValueError, match="the module drop_db is not imported here; import it where the agent is"):
        decode({"$hitl": kind, "type": f"{unimported}:Thing", "value": {}})
    assert unimported not in sys.modules


def test_a_stored_value_makes_no_module_compute_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sys.modules[__name__], "__getattr__", asked.append, raising=False)
    with pytest.raises(ValueError, match="has no Gone"):
        decode({"$hitl": "dataclass", "type": f"{__name__}:Gone", "value": {}})
    assert asked == []


class Rows(BaseModel):
    rows: Iterable[int]
    note: Any = None


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda rows: rows, "value.rows"),
        (lambda rows: Rows.model_construct(rows=[], note=[rows.rows]), r"value.note\[0\]"),
        (lambda rows: Rows.model_construct(rows=[], note=rows), "value.note.rows"),
    ],
)
def test_an_iterator_in_a_model_is_refused_and_not_used_up(make: Any, place: str) -> None:
    rows = Rows(rows=[1, 2])
    with pytest.raises(
        TypeError, match=f"{place} is of type .* which cannot be stored; make it a plain list"
    ) as refused:
        encode(make(rows))
    assert refused.type is TypeError
    fingerprint(make(rows))
    assert list(rows.rows) == [1, 2]


# -- fingerprints ---------------------------------------------------------------------------------------------------


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": (1, 2)}) == fingerprint({"b": (1, 2), "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert len(fingerprint(None)) == 32


def test_what_has_no_json_is_known_by_its_class() -> None:
    assert fingerprint(Plain()) == fingerprint(Plain()) != fingerprint(object())
    assert fingerprint(sys) == fingerprint(json)


plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(plain_json)
def test_the_core_writes_the_fingerprints_that_python_writes(value: Any) -> None:
    written = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    try:
        written.encode()
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate is left to Python
        assert _core.fingerprint(value) is None
    else:
        assert _core.fingerprint(value) == hashlib.sha256(written.encode()).hexdigest()[:32]
    assert fingerprint(value) == hashlib.sha256(written.encode()).hexdigest()[:32]


@pytest.mark.parametrize("value", [0.5, 2**64, {1: "a"}, object(), Level.LOW, Decimal(1), {"a": b""}])
def test_the_core_leaves_to_python_what_it_does_not_write_alike(value: Any) -> None:
    assert _core.fingerprint(value) is None
    assert len(fingerprint(value)) == 32


@pytest.mark.parametrize(
    "stored",
    [
        {"$hitl": "datetime"},
        {"$hitl": "datetime", "value": 5},
        {"$hitl": "timedelta", "value": [10**30]},
        {"$hitl": "tuple", "value": None},
        {"$hitl": ["tuple"], "value": []},
        {"$hitl": "dataclass", "type": 7},
    ],
)
def test_what_cannot_have_been_written_is_a_value_error(stored: Any) -> None:
    with pytest.raises(ValueError, match="a stored value"):
        decode(stored)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("$hitl"), inner) | st.tuples(inner),
)


@given(_json)
def test_a_plain_copy_is_what_is_stored_and_what_comes_back(value: Any) -> None:
    copied = copy_plain(value)
    stored = encode(value)
    if copied is not NOT_PLAIN:
        assert stored == copied == decode(stored)
        assert json.dumps(copied) == json.dumps(stored) == json.dumps(decode(stored))
    elif isinstance(value, dict | list):  # something in it is tagged, and nothing else is given up
        assert "$hitl" in json.dumps(stored)


@pytest.mark.parametrize("depth", [101, 102])
def test_a_plain_copy_goes_as_deep_as_the_codec(depth: int) -> None:
    nested: list[Any] = []
    for _ in range(depth - 1):
        nested = [nested]
    if depth == 101:
        assert copy_plain(nested) == encode(nested) == nested
    else:
        assert copy_plain(nested) is NOT_PLAIN
        with pytest.raises(ValueError, match="nested deeper"):
            encode(nested)


def test_a_plain_copy_shares_nothing_that_can_be_changed() -> None:
    value = {"a": [1, {"b": []}]}
    copied = copy_plain(value)
    value["a"][1]["b"].append(2)  # type: ignore[index]
    assert copied == {"a": [1, {"b": []}]}
