"""Every exception class of ours: one tree, and able to go to another process."""

import importlib
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hitl import client, errors
from hitl.agents.limits import InvalidOutput, MaxStepsExceeded, ReplyCutShort, TokenLimitExceeded
from hitl.agents.seams import HookFailed
from hitl.cli.chat.conversation import SettledElsewhere
from hitl.cli.chat.prompts import PersonLeft
from hitl.cli.chat.turns import SessionGone
from hitl.cli.output import Failure
from hitl.client.errors import ApiError
from hitl.errors import HitlError
from hitl.ext.otel import TelemetryNotConfigured
from hitl.hooks import Interrupt as HookInterrupt
from hitl.hooks import InterruptException
from hitl.journal.codec import _IteratorRefused
from hitl.journal.error_codec import decode_error, encode_error
from hitl.middleware import HITLInterrupt
from hitl.middleware.shapes import InterruptInfo
from hitl.model_settings import InvalidSettings
from hitl.models.provider import ModelNotConfigured
from hitl.models.replies import IncompleteReply
from hitl.planner import PauseDisabled
from hitl.planner.context import _Stopped
from hitl.serving.options import InvalidOption
from hitl.serving.server import ServeError
from hitl.testing import UnexpectedInterrupt
from hitl.testing.live_server import TurnFailed
from hitl.testing.scripted import ScriptExhausted
from hitl.tools.asking import ApprovalMismatch, _NotAllowed
from hitl.tools.mcp import MCPServerError
from hitl.tools.schema import InvalidArguments
from hitl.turn.bodies import NoOutcome
from hitl.turn.resource_parts import NoSuchResource
from hitl.turn.resources import ResourceUnavailable
from hitl.turn.retrying import TryFailed
from tests.python.support.frameworks import modules

ASKED = client.Interrupt("i1", "color", {"type": "color"})
SESSION = client.Session("s1", "error", None, "it broke", "agent_error", (), None, {})
PROBLEM = {"resolved_by": "ann", "errors": [{"loc": ["a"], "msg": "no", "type": "x"}]}

# Not for an agent's `except Exception`, nor for anybody's: they unwind code that must not go on.
UNWINDING = {errors.Parked, _Stopped}
# Between two functions of ours: no code of an agent stands between the one that raises and the one that catches.
OURS = {NoOutcome, _IteratorRefused, _NotAllowed}


def with_text(cls: type[HitlError]) -> tuple[type[HitlError], Callable[[], HitlError]]:
    return cls, lambda: cls("what happened")


def of_the_api(cls: type[ApiError]) -> tuple[type[ApiError], Callable[[], ApiError]]:
    return cls, lambda: cls("what happened", code="why", status=499, problem=PROBLEM)


def waited_for(error: Any) -> Any:
    error.retry_after = 2.5
    return error


def interrupted() -> errors.RunInterrupted:
    error = errors.RunInterrupted("still open")
    error.state = object()  # of a store of this process
    return error


EXAMPLES: dict[type[BaseException], Callable[[], BaseException]] = dict(
    [
        *map(
            with_text,
            [
                errors.InterruptExpired,
                errors.InterruptCancelled,
                errors.InvalidPayload,
                errors.PayloadTooLarge,
                errors.InvalidSchema,
                errors.UnknownInterrupt,
                errors.NothingPending,
                errors.AlreadyResolved,
                errors.AlreadyResumed,
                errors.ModelUnavailable,
                errors.ReplayMismatch,
                errors.ReplayTimeout,
                errors.ResultNotStored,
                errors.UnreadableJournal,
                errors.WorkerProtocolError,
                ApprovalMismatch,
                HookFailed,
                IncompleteReply,
                InvalidArguments,
                InvalidOutput,
                InvalidSettings,
                MaxStepsExceeded,
                MCPServerError,
                ModelNotConfigured,
                NoSuchResource,
                PauseDisabled,
                PersonLeft,
                ResourceUnavailable,
                ScriptExhausted,
                SessionGone,
                TelemetryNotConfigured,
                TokenLimitExceeded,
            ],
        ),
        *map(
            of_the_api,
            [
                ApiError,
                client.BadRequest,
                client.Conflict,
                client.Forbidden,
                client.Gone,
                client.Invalid,
                client.MethodNotAllowed,
                client.NotFound,
                client.ServerFault,
                client.TooLarge,
                client.Unauthorized,
            ],
        ),
        (client.RateLimited, lambda: waited_for(client.RateLimited("slow down", "rate", 429, PROBLEM))),
        (client.Unavailable, lambda: waited_for(client.Unavailable("full", "queue_full", 503, PROBLEM))),
        (client.ClientError, lambda: client.ClientError("what happened", code="why", status=418)),
        (client.ConnectionFailed, lambda: client.ConnectionFailed("refused", code="timed_out")),
        (client.UnexpectedResponse, lambda: client.UnexpectedResponse("<html>", status=200)),
        (errors.HitlError, lambda: HitlError("store full", code="store_is_full")),
        (errors.ToolRejected, lambda: errors.ToolRejected("no", "too dear")),
        (errors.InvalidAnswer, lambda: errors.InvalidAnswer("no", errors=[{"loc": [], "msg": "no", "type": "x"}])),
        (errors.RunInterrupted, interrupted),
        (errors.RunStateError, lambda: errors.RunStateError("later", code="run_state_newer")),
        (errors.StepError, lambda: errors.StepError("Boom", "it broke", "shop", ("shop.Boom", "builtins.ValueError"))),
        (errors.TransientError, lambda: errors.TransientError("overloaded", 2.5)),
        (errors.PythonUntested, lambda: errors.PythonUntested("another Python", "use one of these")),
        (ReplyCutShort, lambda: ReplyCutShort("cut off", "length")),
        (TryFailed, lambda: TryFailed("overloaded", 2.5, 1, "0#1")),
        (errors.AgentLoadError, lambda: errors.AgentLoadError("no agent", "write one")),
        (errors.StoreError, lambda: errors.StoreError("in use", "stop the other", "store_in_use")),
        (ServeError, lambda: ServeError("no port", "usage", "take another")),
        (Failure, lambda: Failure("no", "try again", 3)),
        (SettledElsewhere, lambda: SettledElsewhere(ASKED)),
        (InvalidOption, lambda: InvalidOption("--workers", "0 workers run no turn", "at least 1")),
        (UnexpectedInterrupt, lambda: UnexpectedInterrupt("nobody answers", ASKED)),
        (TurnFailed, lambda: TurnFailed("it broke", SESSION)),
        (InterruptException, lambda: InterruptException(HookInterrupt("i1", "approve", {"a": 1}))),
        (HITLInterrupt, lambda: HITLInterrupt(InterruptInfo({"action_requests": [{"name": "pay"}]}, "i1"))),
    ]
)


def classes() -> Iterator[type[BaseException]]:
    """Every exception class that a module of hitl defines."""
    for name in modules():
        with warnings.catch_warnings():  # an old path says that it is one
            warnings.simplefilter("ignore", DeprecationWarning)
            module = importlib.import_module(name)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == name:
                yield value


CLASSES = sorted(set(classes()) - UNWINDING - OURS, key=lambda cls: (cls.__module__, cls.__name__))


def test_every_class_has_an_example_here() -> None:
    assert len(CLASSES) > 40
    assert set(CLASSES) == set(EXAMPLES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_is_a_hitl_error_with_a_code_of_its_own(cls: type[HitlError]) -> None:
    assert issubclass(cls, HitlError)
    code = EXAMPLES[cls]().code  # type: ignore[attr-defined]  # all of them are, as the line before says
    assert code.isidentifier()
    assert code == code.lower()
    assert code != "error"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_survives_pickling(cls: type[HitlError]) -> None:
    error = EXAMPLES[cls]()
    error.add_note("seen by ann")
    same(pickle.loads(pickle.dumps(error)), error)  # noqa: S301 - what was just pickled


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_with_plain_members_survives_the_journal(cls: type[HitlError]) -> None:
    error = EXAMPLES[cls]()
    back = decode_error(encode_error(error))
    if cls is HITLInterrupt:  # its member is a dict of a kind of its own
        assert isinstance(back, errors.StepError)
        assert back.is_a(HITLInterrupt)
    else:
        same(back, error)


@pytest.mark.parametrize("cls", sorted(UNWINDING, key=str))
def test_what_unwinds_code_is_no_exception_that_an_agent_catches(cls: type[BaseException]) -> None:
    assert not issubclass(cls, Exception)


@pytest.mark.parametrize(
    ("cls", "base"),
    [
        (InvalidOption, ValueError),
        (InvalidArguments, ValueError),
        (InvalidSettings, ValueError),
        (IncompleteReply, ConnectionError),
        (PauseDisabled, RuntimeError),
        (UnexpectedInterrupt, AssertionError),
    ],
)
def test_built_in_bases_stay(cls: type[HitlError], base: type[Exception]) -> None:
    assert issubclass(cls, base)


def same(back: Any, error: Any) -> None:
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.code == error.code
    members = dict(vars(error))
    members.pop("state", None)  # of `RunInterrupted`
    assert vars(back) == members
