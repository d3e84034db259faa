"""What `HitlSaver` reads back of the values that graphs have stored; nothing but their classes is called for it."""

from __future__ import annotations

import enum
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ormsgpack
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from langgraph.types import Send
from pydantic import BaseModel, SecretStr
from pydantic.v1 import BaseModel as OldModel

from hitl.ext.langgraph import HitlSaver
from tests.python.ext.test_langgraph_saver import Reverses, thread


@dataclass
class Order:
    text: str


class Customer(BaseModel):
    name: str
    orders: list[Order] = []


class Former(OldModel):
    name: str


class Color(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Names(set):  # type: ignore[type-arg]
    """A set of the program's own."""


VALUES = [
    Order("two chairs"),
    Customer(name="Ada", orders=[Order("a table")]),
    Former(name="Bob"),
    Color.RED,
    Point(1, 2),
    Names({"a"}),
    AIMessage("hello", tool_calls=[{"name": "pay", "args": {"cents": 5}, "id": "c1"}]),
    Document("a page"),
    SecretStr("hush"),
    Send("node", Order("a lamp")),
    deque([Order("a bed")]),
    Path("/srv"),
]


def put(saver: HitlSaver, value: Any) -> None:
    """Store a checkpoint of one channel."""
    checkpoint = {**empty_checkpoint(), "channel_values": {"kept": value}, "channel_versions": {"kept": "1"}}
    saver.put(thread("t", checkpoint_ns=""), checkpoint, {"source": "input", "step": 0}, {"kept": "1"})  # type: ignore[arg-type]


def kept(saver: HitlSaver) -> Any:
    found = saver.get_tuple(thread("t"))
    assert found is not None
    return found.checkpoint["channel_values"]["kept"]


class Evil(JsonPlusSerializer):
    """Writes for a value what somebody has put into the row: a call."""

    def __init__(self, code: int, *call: Any) -> None:
        super().__init__()
        self.row = ormsgpack.packb([ormsgpack.Ext(code, ormsgpack.packb(call))])

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return ("msgpack", self.row) if obj == "evil" else super().dumps_typed(obj)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "serde", [None, JsonPlusSerializer(), EncryptedSerializer(Reverses())], ids=lambda serde: type(serde).__name__
)
def test_values_of_classes_that_are_imported_are_read(value: Any, serde: Any, tmp_path: Path) -> None:
    with HitlSaver(tmp_path / "graphs.db", serde=serde) as saver:
        put(saver, [value])
    with HitlSaver(tmp_path / "graphs.db", serde=serde) as saver:
        (read,) = kept(saver)
    assert (type(read), read) == (type(value), value)


CALLS = [
    (EXT_CONSTRUCTOR_SINGLE_ARG, "os", "system", "touch {}"),
    (EXT_CONSTRUCTOR_POS_ARGS, "os", "system", ["touch {}"]),
    (EXT_CONSTRUCTOR_KW_ARGS, "subprocess", "run", {"args": "touch {}", "shell": True}),
    (EXT_CONSTRUCTOR_KW_ARGS, "subprocess", "Popen", {"args": "touch {}", "shell": True}),
    (EXT_PYDANTIC_V1, "subprocess", "run", {"args": "touch {}", "shell": True}),
    (EXT_PYDANTIC_V2, "subprocess", "run", {"args": "touch {}", "shell": True}),
]


def put_in(call: Any, file: Path) -> Any:
    if isinstance(call, str):
        return call.format(file)
    if isinstance(call, dict):
        return {name: put_in(value, file) for name, value in call.items()}
    return [put_in(each, file) for each in call] if isinstance(call, list | tuple) else call


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("is_inside", [False, True], ids=["alone", "inside of a value"])
def test_what_somebody_has_written_into_a_row_is_not_called(call: Any, is_inside: bool, tmp_path: Path) -> None:
    code, *rest = put_in(call, tmp_path / "ran")
    evil = Evil(code, *rest)
    if is_inside:
        inner = ormsgpack.Ext(code, ormsgpack.packb(rest))
        evil = Evil(EXT_CONSTRUCTOR_KW_ARGS, __name__, "Order", {"text": inner})
    with HitlSaver(tmp_path / "graphs.db", serde=evil) as saver:
        put(saver, "evil")
    for serde in (None, JsonPlusSerializer(), EncryptedSerializer(Reverses())):
        with (
            HitlSaver(tmp_path / "graphs.db", serde=serde) as saver,
            pytest.raises(ValueError, match=f"of {rest[0]}.{rest[1]}, which is no class of values"),
        ):
            kept(saver)
    assert not (tmp_path / "ran").exists()


def test_nothing_is_imported_because_a_row_says_so(tmp_path: Path) -> None:
    assert "antigravity" not in sys.modules
    with HitlSaver(tmp_path / "graphs.db", serde=Evil(EXT_CONSTRUCTOR_SINGLE_ARG, "antigravity", "Point", 1)) as saver:
        put(saver, "evil")
        with pytest.raises(ValueError, match="the module antigravity is not imported here; import it where"):
            kept(saver)
    assert "antigravity" not in sys.modules


def test_of_a_class_that_is_gone_what_was_in_it_is_read_as_ever(tmp_path: Path) -> None:
    with HitlSaver(tmp_path / "graphs.db", serde=Evil(EXT_CONSTRUCTOR_KW_ARGS, __name__, "Gone", {"a": 1})) as saver:
        put(saver, "evil")
        assert kept(saver) == [{"a": 1}]


def test_a_serializer_that_says_what_it_reads_is_left_as_it_is(tmp_path: Path) -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[Order])
    with HitlSaver(tmp_path / "graphs.db", serde=serde) as saver:
        assert saver.serde is serde
        put(saver, [Order("two chairs"), Customer(name="Ada")])
        assert kept(saver) == [Order("two chairs"), {"name": "Ada", "orders": []}]
