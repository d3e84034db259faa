"""The file assistant, served for real: what a person says decides what happens on the disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hitl.examples.sample_files import SAMPLES
from hitl.testing import HitlServer, Human, LiveServer
from tests.python.support.chat_completions import API_KEY, ChatCompletionsServer, Reply

AGENT = "hitl.examples.file_agent:agent"


@pytest.fixture
def server(hitl_server: HitlServer, files: Path) -> LiveServer:
    return hitl_server(AGENT)


def what_the_model_was_told(server: LiveServer, session_id: str) -> list[str]:
    return [message.content or "" for message in server.client.get_messages(session_id) if message.role == "tool"]


def paths_below(directory: Path) -> set[str]:
    return {place.relative_to(directory).as_posix() for place in directory.rglob("*") if place.is_file()}


# --- deleting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["process", "task"])
def test_a_yes_deletes_the_file_that_was_shown(
    hitl_server: HitlServer, human: Human, files: Path, isolation: str
) -> None:
    server = hitl_server(AGENT, isolation=isolation)
    human.on("delete_file").approve()

    reply = server.send("delete the old logs file")

    assert reply.content == "Done: old_logs.txt is gone."
    assert human.seen[0].tool_args == {"path": "old_logs.txt"}
    assert human.seen[0].agent == "file_agent"
    assert paths_below(files) == SAMPLES.keys() - {"old_logs.txt"}


def test_a_no_deletes_nothing_and_the_model_hears_why(server: LiveServer, human: Human, files: Path) -> None:
    human.on("delete_file").reject("the auditor wants it")
    session = server.create_session()

    reply = server.send("delete the old logs file", session)

    assert paths_below(files) == SAMPLES.keys()
    assert what_the_model_was_told(server, session.session_id)[-1] == json.dumps(
        {"error": "User rejected delete_file: the auditor wants it"}
    )
    assert reply.content is not None
    assert "the auditor wants it" in reply.content


def test_after_a_no_the_next_turn_may_ask_again(server: LiveServer, human: Human, files: Path) -> None:
    human.on("delete_file").reject().on("delete_file").approve()
    session = server.create_session()

    server.send("delete the old logs file", session)
    assert (files / "old_logs.txt").exists()
    server.send("delete the old logs file", session)
    assert not (files / "old_logs.txt").exists()


def test_nobody_is_asked_about_a_file_that_is_not_there(server: LiveServer, files: Path) -> None:
    reply = server.send("delete the grocery list")

    assert reply.content is not None
    assert "I deleted none" in reply.content
    assert paths_below(files) == SAMPLES.keys()


# --- organising ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "moved"),
    [
        ("By type", {"csv/budget.csv", "csv/measurements.csv", "svg/logo.svg", "txt/lease.txt", "txt/recipe.txt"}),
        (
            "By date",
            {
                "2025-01/budget.csv",
                "2025-01/measurements.csv",
                "2024-09/logo.svg",
                "2024-09/lease.txt",
                "2025-05/recipe.txt",
            },
        ),
        ("By size", {"large/measurements.csv", "budget.csv", "logo.svg", "lease.txt", "recipe.txt"}),
        (
            "put it all into a folder called attic",
            {"attic/budget.csv", "attic/measurements.csv", "attic/logo.svg", "attic/lease.txt", "attic/recipe.txt"},
        ),
    ],
)
def test_downloads_are_organized_as_the_person_answers(
    server: LiveServer, human: Human, files: Path, answer: str, moved: set[str]
) -> None:
    human.on_question("Strategy").answer(answer)
    human.on("move_files").approve()

    reply = server.send("help me organize my downloads")

    assert reply.content is not None
    assert reply.content.startswith("Done: moved")
    assert paths_below(files / "downloads") == moved
    assert [interrupt.type for interrupt in human.seen] == ["user_input", "tool_approval"]


def test_free_text_that_says_nothing_moves_nothing(server: LiveServer, human: Human, files: Path) -> None:
    human.on_question("Strategy").answer("surprise me")

    reply = server.send("help me organize my downloads")

    assert reply.content is not None
    assert '"surprise me"' in reply.content
    assert paths_below(files) == SAMPLES.keys()


def test_a_refused_plan_moves_nothing(server: LiveServer, human: Human, files: Path) -> None:
    human.on_question("Strategy").answer("By type")
    human.on("move_files").reject("not on a Friday")

    reply = server.send("help me organize my downloads")

    assert reply.content is not None
    assert "not on a Friday" in reply.content
    assert paths_below(files) == SAMPLES.keys()


def test_what_an_approver_changed_is_what_it_says_in_the_end(server: LiveServer, human: Human, files: Path) -> None:
    human.on("move_files").edit(moves={"todo.txt": "papers/todo.txt"})
    human.on("delete_file").edit(path="papers/todo.txt")

    assert server.send("move todo.txt to lists/todo.txt").content == "Done: moved 1 file to papers/todo.txt."
    assert (files / "papers/todo.txt").exists()

    assert server.send("delete the old logs file").content == "Done: deleted papers/todo.txt."
    assert (files / "old_logs.txt").exists()


# --- the rest -----------------------------------------------------------------------------------------------------


def test_it_lists_reads_and_says_what_it_is(server: LiveServer, files: Path) -> None:
    listed = server.send("which files are there?").content or ""
    assert all(f"- {path} (" in listed for path in SAMPLES)
    assert SAMPLES["todo.txt"][1] in (server.send("read todo.txt").content or "")
    assert "offline demo model" in (server.send("what is the weather like?").content or "")


def test_a_path_that_leads_out_is_refused_before_anybody_is_asked(server: LiveServer, files: Path) -> None:
    session = server.create_session()

    server.send("move todo.txt to ../stolen.txt", session)

    assert "leads out of the directory" in what_the_model_was_told(server, session.session_id)[-1]
    assert not (files.parent / "stolen.txt").exists()


def test_files_of_its_user_are_not_mixed_with_samples(server: LiveServer, files: Path) -> None:
    files.mkdir()
    (files / "mine.txt").write_text("mine")
    assert server.send("list the files").content == "These are the files:\n- mine.txt (4 bytes)"
    assert paths_below(files) == {"mine.txt"}


@pytest.fixture
def provider() -> Iterator[ChatCompletionsServer]:
    with ChatCompletionsServer().serving() as server:
        yield server


@pytest.mark.parametrize("provider_name", ["OPENAI", "OPENROUTER"])
def test_with_a_key_a_real_client_drives_the_same_tools_and_approvals(
    hitl_server: HitlServer,
    human: Human,
    files: Path,
    provider: ChatCompletionsServer,
    provider_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"{provider_name}_API_KEY", API_KEY)
    monkeypatch.setenv(f"{provider_name}_BASE_URL", provider.url)
    monkeypatch.setenv("HITL_MODEL", "a-model")
    provider.replies = [
        Reply(calls=[("call_1", "list_files", "{}")]),
        Reply(calls=[("call_2", "delete_file", '{"path": "old_logs.txt"}')]),
        Reply(content="I left it alone."),
    ]
    human.on("delete_file").reject("still needed")

    reply = hitl_server(AGENT).send("delete the old logs file")

    assert reply.content == "I left it alone."
    assert (files / "old_logs.txt").exists()
    assert {request.body["model"] for request in provider.received} == {"a-model"}
    assert provider.received[-1].body["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "call_2",
        "content": '{"error": "User rejected delete_file: still needed"}',
    }
