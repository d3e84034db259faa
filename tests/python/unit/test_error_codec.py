"""Errors of steps as they are stored, and what is made of them again."""

import asyncio
import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import openai
import pytest
from pydantic import BaseModel

import hitl
from hitl.errors import StepError
from hitl.journal.error_codec import decode_error, encode_error


class Plain:
    """Cannot be stored."""


class Page(BaseModel):
    number: int


class Custom(Exception):
    def __init__(self, code: int, *, where: object) -> None:
        super().__init__(f"{code} in {where}")
        self.where = where


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class Short(Exception):
    """Needs more than its arguments, and keeps all that it needs."""

    def __init__(self, balance: int, *, needed: int) -> None:
        super().__init__(f"{balance} of {needed}")
        self.balance = balance
        self.needed = needed


class NoSuchPage(FileNotFoundError):
    def __init__(self, page: str) -> None:
        super().__init__(2, "no such page", f"/pages/{page}")
        self.page = page


class Parsed(Exception):
    """Has something of its own under the name of the arguments."""

    args = None  # type: ignore[assignment]  # that is the point


class Made(Exception):
    """Would be made again by a call of something that is no class."""

    def __reduce__(self) -> Any:
        return NOTED.append, ("called",)


class Restored(Exception):
    """Would be made again by code of its own."""

    def __setstate__(self, state: Any) -> None:
        NOTED.append("called")


NOTED: list[str] = []


class Shouting(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def caught(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is looked at
        return error
    raise AssertionError("nothing was raised")


def with_members(error: BaseException, **members: Any) -> BaseException:
    vars(error).update(members)
    return error


def noted(error: BaseException) -> BaseException:
    error.add_note("while reading the third file")
    return error


def error_through_json(error: BaseException) -> BaseException:
    return decode_error(json.loads(json.dumps(encode_error(error))))


NOT_THERE = caught(pathlib.Path("/nope").read_text)
FAILING = [sys.executable, "-c", "import sys; print('out'); print('no disk', file=sys.stderr); sys.exit(3)"]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x", 1),
        KeyError("k"),
        OSError(2, "No such file"),
        SystemExit(3),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        NOT_THERE,
        caught(lambda: pathlib.Path("/nope").rename("/never")),
        caught(pathlib.Path("/nope").stat),
        caught(lambda: json.loads("{]")),
        caught(lambda: "\udcff".encode()),
        caught(lambda: subprocess.run(FAILING, check=True, capture_output=True)),
        caught(lambda: __import__("no_such_module")),
        subprocess.TimeoutExpired(["sleep", "9"], 1.5, output=b"half"),
        asyncio.IncompleteReadError(b"ab", 4),
        noted(ValueError("x")),
        with_members(ValueError("x"), status=503, headers={"retry-after": "3"}),
        Short(3, needed=5),
        NoSuchPage("a"),
    ],
    ids=repr,
)
def test_an_error_is_rebuilt_by_its_class_with_its_members(error: BaseException) -> None:
    back = error_through_json(error)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.args == error.args
    assert vars(back) == vars(error)
    assert public_members(back) == public_members(error)


def public_members(error: BaseException) -> dict[str, Any]:
    """`errno`, `filename`, `doc`, `stderr` and so on, also those that are in no `__dict__`."""
    names = [name for name in dir(error) if not name.startswith("_")]
    return {name: value for name in names if not callable(value := getattr(error, name, None))}


def test_an_error_group_is_rebuilt_with_its_members() -> None:
    group = ExceptionGroup("two", [ValueError("x"), ExceptionGroup("inner", [FileNotFoundError(2, "gone", "/nope")])])
    back = error_through_json(group)
    assert isinstance(back, ExceptionGroup)
    assert (back.message, str(back)) == ("two", str(group))
    matched, rest = back.split(FileNotFoundError)
    assert matched is not None
    assert rest is not None
    assert [type(error) for error in rest.exceptions] == [ValueError]


def test_an_error_keeps_its_class_when_a_member_cannot_be_stored() -> None:
    back = error_through_json(with_members(TimeoutError("slow"), response=Plain(), status=504))
    assert type(back) is TimeoutError
    assert vars(back) == {"status": 504}


@pytest.mark.parametrize(
    "error",
    [
        Custom(4, where=Plain()),
        Slotted(4),
        ValueError(object()),
        type("Local", (Exception,), {})("x"),
        caught(lambda: Page(number="none")),  # type: ignore[arg-type]  # pydantic's refusal is what is wanted
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_cannot_be_rebuilt_is_a_step_error_that_knows_its_class(error: Exception) -> None:
    back = error_through_json(noted(error))
    assert type(back) is StepError
    assert back.type == type(error).__name__
    assert back.message == str(error)
    assert back.is_a(type(error))
    assert back.is_a(Exception)
    assert back.is_a((KeyError, type(error)))
    assert back.is_a(ValueError) is isinstance(error, ValueError)
    assert not back.is_a(KeyError)
    assert back.__notes__ == ["while reading the third file"]
    again = error_through_json(back)  # raised by a step in a step
    assert isinstance(again, StepError)
    assert again.classes == back.classes


def test_an_error_with_args_of_its_own_is_stored_all_the_same() -> None:
    assert encode_error(Parsed("x"))["args"] == ["x"]


@pytest.mark.parametrize("error", [Made("x"), Restored("x")], ids=repr)
def test_no_code_that_an_error_names_is_called_for_it(error: Exception) -> None:
    back = error_through_json(error)
    assert (type(back), str(back)) == (type(error), "x")
    assert NOTED == []


def test_an_error_of_an_older_journal_is_made_from_its_arguments_alone() -> None:
    plain = {"type": "ValueError", "module": "builtins", "message": "x", "args": ["x"]}
    assert repr(decode_error(plain)) == "ValueError('x')"
    message = "[Errno 2] No such file: '/nope'"
    file = {"type": "FileNotFoundError", "module": "builtins", "message": message, "args": [2, "No such file"]}
    back = decode_error(file)
    assert type(back) is StepError
    assert back.is_a(FileNotFoundError)
    own = {"type": "Short", "module": __name__, "message": "3 of 5", "args": ["3 of 5"]}
    assert type(decode_error(own)) is StepError


def test_an_error_of_ours_is_found_where_its_class_has_been_moved_since() -> None:
    for module, name in (
        ("hitl.tool_schema", "InvalidArguments"),
        ("hitl.asking", "ApprovalMismatch"),
        ("hitl.mcp_tools", "MCPServerError"),
    ):
        here = getattr(hitl, name)
        back = decode_error({"type": name, "module": module, "message": "x", "args": ["x"]})
        assert (type(back), str(back)) == (here, "x")
        unmade = decode_error({"type": name, "module": module, "message": "x", "args": None})
        assert isinstance(unmade, StepError)
        assert unmade.is_a(here)


def test_an_error_that_cannot_even_be_printed() -> None:
    assert encode_error(Shouting())["message"] == "<RuntimeError in Shouting.__str__>"


def test_a_stored_error_can_only_name_an_exception() -> None:
    back = decode_error({"type": "getcwd", "module": "os", "message": "x", "args": []})
    assert type(back) is StepError


def test_a_stored_error_imports_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "drop_table.py").write_text("class Boom(Exception): ...")
    monkeypatch.syspath_prepend(tmp_path)
    back = decode_error({"type": "Boom", "module": "drop_table", "message": "x", "args": []})
    assert type(back) is StepError
    assert "drop_table" not in sys.modules


# -- errors of clients of models --------------------------------------------------------------------------------------

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
RESPONSE = httpx2.Response(429, request=REQUEST)


@pytest.mark.parametrize(
    ("error", "classes"),
    [
        (caught(RESPONSE.raise_for_status), (httpx2.HTTPStatusError, httpx2.HTTPError)),
        (
            openai.RateLimitError("slow down", response=RESPONSE, body=None),
            (openai.RateLimitError, openai.APIStatusError, openai.OpenAIError),
        ),
        (openai.APIConnectionError(request=REQUEST), (openai.APIConnectionError, openai.APIError)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_that_needs_its_response_is_matched_by_its_classes(error: Exception, classes: Sequence[type]) -> None:
    back = error_through_json(error)
    assert isinstance(back, StepError)
    assert [back.is_a(cls) for cls in classes] == [True] * len(classes)
    assert not back.is_a((openai.APITimeoutError, TimeoutError))


class Weighed(Exception):
    __slots__ = ("__grams",)

    def weigh(self, grams: int) -> None:
        self.__grams = grams

    @property
    def grams(self) -> int:
        return self.__grams

    @functools.cached_property
    def scale(self) -> Plain:
        return Plain()


def test_private_slots_are_kept_and_what_a_cached_property_keeps_is_not() -> None:
    error = Weighed("heavy")
    error.weigh(7)
    before = encode_error(error)
    assert isinstance(error.scale, Plain)
    assert encode_error(error) == before
    again = decode_error(before)
    assert isinstance(again, Weighed)
    assert (again.args, again.grams) == (("heavy",), 7)


@dataclasses.dataclass
class Denied(Exception):
    who: str
    code: int = 0


@pytest.mark.parametrize("error", [Denied("ada", 5), Denied(who="ada"), Denied("ada", code=7)])
def test_a_dataclass_that_is_an_exception_is_the_same_again(error: Denied) -> None:
    error.code += 1
    again = decode_error(encode_error(error))
    assert isinstance(again, Denied)
    assert (again, again.args, str(again)) == (error, error.args, str(error))


def test_an_error_is_stored_under_one_name_whichever_python_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Weighed, "__module__", "pathlib._abc")  # where Python 3.13 has `pathlib.UnsupportedOperation`
    assert encode_error(Weighed("x"))["module"] == "pathlib"
