"""The page of an application's own: questions are on it, also after a kill, and what is answered there runs once."""

from __future__ import annotations

import html
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import HTTPException

import hitl
from examples import fastapi_app
from tests.python.support.served import ROOT, clean_environment


class Application:
    """The application in a process of its own, and somebody who has its page open."""

    def __init__(self, folder: Path, files: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "examples.fastapi_app:app", "--port", "0"],
            cwd=ROOT,
            env={**clean_environment(), "APP_DATA": str(folder / "data"), "HITL_FILES": str(files)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        self._lines: list[str] = []
        url = None
        for line in self._process.stdout:
            self._lines.append(line)
            if found := re.search(r"running on (http://\S+)", line):
                url = found[1]
                break
        assert url is not None, "".join(self._lines)
        self.http = httpx2.Client(base_url=url, follow_redirects=True, timeout=100, trust_env=False)

    def send(self, conversation: str, content: str) -> httpx2.Response:
        """Fill in the form for messages."""
        return self.http.post("/messages", data={"conversation": conversation, "content": content})

    def questions(self) -> list[tuple[str, str]]:
        """The conversation and the id of each question on the page."""
        page = self.http.get("/").text
        found = re.findall(
            r'name="conversation" value="([^"]*)"><input type="hidden" name="interrupt" value="(.*?)"', page
        )
        return [(html.unescape(name), interrupt) for name, interrupt in found]

    def answer(self, question: tuple[str, str], **fields: str) -> httpx2.Response:
        """Fill in the form of a question."""
        return self.http.post("/answers", data={"conversation": question[0], "interrupt": question[1], **fields})

    def end(self, number: signal.Signals) -> None:
        self.http.close()
        self._process.send_signal(number)
        self._process.communicate(timeout=100)


@contextmanager
def running(folder: Path, files: Path, number: signal.Signals = signal.SIGTERM) -> Iterator[Application]:
    application = Application(folder, files)
    try:
        yield application
    finally:
        application.end(number)


def test_what_waits_is_on_the_page_also_after_a_kill_and_runs_once(tmp_path: Path, files: Path) -> None:
    with running(tmp_path, files, signal.SIGKILL) as first:
        page = first.send("files", "delete the old logs file").text
        assert "delete_file" in page
        assert "old_logs.txt" in page
    with running(tmp_path, files) as second:
        (question,) = second.questions()
        assert (files / "old_logs.txt").exists()
        assert "Done: old_logs.txt is gone." in second.answer(question, decision="yes").text
        assert not (files / "old_logs.txt").exists()
        assert second.answer(question, decision="yes").status_code == 409
        assert second.questions() == []


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    folder = tmp_path_factory.mktemp("application")
    with running(folder, folder / "files") as application:
        yield application


def test_a_question_of_the_model_is_answered_and_a_no_has_its_reason(application: Application) -> None:
    application.send("downloads", "help me organize my downloads")
    (question,) = application.questions()
    page = application.answer(question, **{"How should I organize the files?": "By type"}).text
    assert "move_files" in page
    (question,) = application.questions()
    page = application.answer(question, decision="no", reason="not on a Friday").text
    assert "User rejected move_files: not on a Friday" in page


def test_an_answer_that_is_none_changes_nothing(application: Application) -> None:
    application.send("notes", "help me organize my downloads")
    (question,) = application.questions()
    assert application.answer(question).status_code == 422
    assert application.send("notes", "read todo.txt").status_code == 409
    assert application.questions() == [question]
    application.answer(question, **{"How should I organize the files?": "surprise me"})
    assert application.questions() == []


def test_nothing_that_is_said_becomes_part_of_the_page(application: Application) -> None:
    page = application.send("<script>1</script>", "move todo.txt to <script>2</script>").text
    assert html.escape("<script>1</script>") in page
    assert "<script>" not in page
    for question in application.questions():
        application.answer(question, decision="no")


def test_another_site_answers_nothing(application: Application) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    data = {"conversation": "files", "content": "list the files"}
    assert application.http.post("/messages", data=data, headers=headers).status_code == 403


NOT_OPEN = (
    hitl.UnknownInterrupt,
    hitl.NothingPending,
    hitl.AlreadyResolved,
    hitl.AlreadyResumed,
    hitl.InterruptExpired,
    hitl.InterruptCancelled,
)


@pytest.mark.parametrize("error", NOT_OPEN)
async def test_an_answer_to_what_is_not_open_is_a_conflict_whatever_became_of_it(error: type[Exception]) -> None:
    class Office:
        async def answer(self, *given: object) -> None:
            raise error("not open")

    class Request:
        async def form(self) -> dict[str, str]:
            return {"decision": "yes"}

    answer: Any = fastapi_app.answer
    with pytest.raises(HTTPException) as refused:
        await answer(Request(), Office(), "files", "1")
    assert refused.value.status_code == 409


@pytest.mark.parametrize("error", NOT_OPEN)
def test_the_page_about_it_catches_the_same(error: type[Exception]) -> None:
    page = (ROOT / "docs" / "fastapi.md").read_text(encoding="utf-8")
    caught = re.search(r"^NOT_OPEN = \((.*?)^\)", page, re.MULTILINE | re.DOTALL)
    assert caught is not None
    assert f"hitl.{error.__name__}," in caught[1]
    assert "except NOT_OPEN:" in page
