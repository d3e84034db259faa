import pytest

from hitl import errors
from hitl.errors import HitlError, Parked, UnknownInterrupt, error_for_refusal
from hitl.journal.error_codec import decode_error, encode_error

TREE = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, HitlError)]


def test_every_error_has_a_stable_snake_case_code_of_its_own() -> None:
    codes = [cls.code for cls in TREE]
    assert len(set(codes)) == len(codes)
    assert all(code.isidentifier() and code == code.lower() for code in codes)


@pytest.mark.parametrize("cls", TREE, ids=lambda cls: cls.__name__)
def test_every_error_survives_the_journal(cls: type[HitlError]) -> None:
    error = cls("KeyError", "gone") if cls is errors.StepError else cls("what happened")
    rebuilt = decode_error(encode_error(error))
    assert type(rebuilt) is cls
    assert str(rebuilt) == str(error)
    assert isinstance(rebuilt, HitlError)
    assert rebuilt.code == error.code


def test_built_in_bases_are_where_callers_expect_them() -> None:
    assert issubclass(errors.InvalidAnswer, ValueError)
    assert issubclass(errors.NothingPending, ValueError)
    assert issubclass(UnknownInterrupt, KeyError)
    assert str(UnknownInterrupt("Unknown interrupt_id: 7")) == "Unknown interrupt_id: 7"


def test_parked_passes_an_except_exception() -> None:
    assert not issubclass(Parked, Exception)


def test_a_refusal_becomes_the_class_with_its_code() -> None:
    refused = error_for_refusal("payload_too_large", "17 KiB")
    assert type(refused) is errors.PayloadTooLarge
    assert isinstance(refused, ValueError)


def test_an_unknown_refusal_keeps_its_code() -> None:
    refused = error_for_refusal("store_is_full", "no space")
    assert type(refused) is HitlError
    assert (refused.code, str(refused)) == ("store_is_full", "no space")
