"""docs/behaviours.md is what the suite says, and no behaviour is left out."""

from __future__ import annotations

import pytest

from tests.python.behaviours.catalogue import BEHAVIOURS
from tests.python.behaviours.faces.every import FACES
from tests.python.behaviours.faces.face import Face
from tests.python.behaviours.page import PAGE, marked_tests, page


def test_the_page_is_what_the_suite_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python -m tests.python.behaviours.page"


def test_every_behaviour_has_a_test() -> None:
    assert list(BEHAVIOURS) == list(range(1, 28))
    assert {test.number for test in marked_tests()} == set(BEHAVIOURS)


@pytest.mark.parametrize("kind", FACES, ids=[face.name for face in FACES])
def test_a_face_gives_reasons_only_for_what_is_tested(kind: type[Face]) -> None:
    numbers: set[object] = {test.number for test in marked_tests()}
    parts: set[object] = {(test.number, test.part) for test in marked_tests()}
    assert set(kind.cannot) <= numbers | parts
    for reason in kind.cannot.values():
        assert reason
        assert not reason.endswith(".")
        assert "not implemented" not in reason.lower()


@pytest.mark.parametrize("number", BEHAVIOURS)
def test_some_face_expresses_all_of_it(number: int) -> None:
    about = [test for test in marked_tests() if test.number == number]
    for test in about:
        assert any(face.reason(number, test.part) is None for face in FACES), test
