"""`hitl chat` on a pseudo-terminal, as a person meets it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.python.cli.conversation import APPROVAL, Open, Serve, answers_sent, asks, in_capitals, leave, start_turn
from tests.python.cli.terminal import CTRL_C, DOWN, ENTER, SPACE, UP
from tests.python.client.fake_server import Turn, problem

COLOR = {"type": "color_picker", "prompt": "Pick a brand color", "presets": ["#FF6B6B", "#4ECDC4"]}
STRATEGY = "How would you like to organize the files?"


def question(text: str = STRATEGY, *, several: bool = False, previews: dict[str, str] | None = None) -> dict[str, Any]:
    options = [
        {"label": "By date", "description": "Group files by year and month"},
        {"label": "By type", "description": "Group files by extension"},
        {"label": "By size", "description": "Move large files apart"},
    ]
    for option in options:
        if previews and option["label"] in previews:
            option["markdown"] = previews[option["label"]]
    return {"question": text, "header": "Strategy", "multiSelect": several, "options": options}


# --- talking ---


def test_a_response_streams_and_is_not_said_twice(serve: Serve, terminal: Open) -> None:
    async def agent(turn: Turn) -> str:
        for piece in ("It is ", "sunny", " today."):
            turn.delta(piece)
        return "It is sunny today."

    chat = terminal("chat", serve(agent).url)
    start_turn(chat)
    chat.expect("It is sunny today.")
    assert leave(chat) == 0
    assert chat.seen.count("sunny") == 1
    assert "hitl chat http://127.0.0.1:" in chat.seen


def test_a_response_that_was_not_streamed_is_printed(serve: Serve, terminal: Open) -> None:
    chat = terminal("chat", serve(in_capitals).url)
    start_turn(chat, "one")
    chat.expect("ONE")
    start_turn(chat, "two")
    chat.expect("TWO")
    assert leave(chat) == 0


def test_a_step_that_runs_again_says_it_again_on_a_new_line(serve: Serve, terminal: Open) -> None:
    async def agent(turn: Turn) -> str:
        turn.delta("Half an ans", attempt=1)
        turn.delta("A whole answer", attempt=2)
        turn.delta("late", attempt=1)
        return "A whole answer"

    chat = terminal("chat", serve(agent).url)
    start_turn(chat)
    assert chat.expect("A whole answer").endswith("Half an ans\r\n")
    assert leave(chat) == 0
    assert "late" not in chat.seen


def test_tools_are_shown_at_work(serve: Serve, terminal: Open) -> None:
    async def agent(turn: Turn) -> str:
        turn.delta("One moment.")
        turn.tool("started", "look_up", stored=False, args={"order": "A-1", "deep": True})
        turn.tool("finished", "look_up", result={"status": "lost"})
        turn.tool("started", "pay", args=None)
        turn.tool("finished", "pay", error="ValueError: no money")
        return "It was lost."

    chat = terminal("chat", serve(agent).url)
    start_turn(chat)
    assert chat.expect('look_up(order="A-1", deep=true) ...').endswith("One moment.\r\n")
    chat.expect('look_up: {"status": "lost"}')
    chat.expect("pay() ...")
    chat.expect("pay failed: ValueError: no money")
    chat.expect("It was lost.")
    assert leave(chat) == 0


def test_what_tools_do_fits_a_line_and_cannot_reach_the_terminal(serve: Serve, terminal: Open) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jevil\u202e\n" + "x" * 5000

    async def agent(turn: Turn) -> str:
        turn.tool("started", f"rm{evil[:20]}", args={f"k{evil[:20]}": evil})
        turn.tool("finished", "rm", result=evil)
        turn.tool("finished", "rm", error=evil)
        return "done"

    chat = terminal("chat", serve(agent).url)
    start_turn(chat)
    chat.expect("done")
    assert leave(chat) == 0
    for character in ("\x07", "\u202e", "\x1b]0", "\x1b[2J"):
        assert character not in chat.seen
    assert chat.seen.count("x") < 1000


def test_a_failed_turn_is_told_and_the_chat_goes_on(serve: Serve, terminal: Open) -> None:
    async def agent(turn: Turn) -> str:
        if turn.text == "fail":
            raise ValueError("no such luck")
        return "fine"

    chat = terminal("chat", serve(agent).url)
    start_turn(chat, "fail")
    chat.expect("error: ValueError: no such luck")
    start_turn(chat, "again")
    chat.expect("fine")
    assert leave(chat) == 0


def test_with_a_message_there_is_one_turn(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url, "delete it")
    chat.expect("Enter to choose")
    chat.send(DOWN + ENTER)
    chat.expect("heard")
    assert chat.finish() == 0


def test_with_a_message_a_failed_turn_is_the_exit_code(serve: Serve, terminal: Open) -> None:
    async def agent(turn: Turn) -> str:
        raise ValueError("no such luck")

    chat = terminal("chat", serve(agent).url, "go")
    assert chat.finish() == 1


def test_what_agents_write_cannot_reach_the_terminal(serve: Serve, terminal: Open) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jevil\u202e"

    async def agent(turn: Turn) -> str:
        turn.delta(evil[:3])
        turn.delta(evil[3:])
        await turn.ask({"type": "tool_approval", "tool_name": f"rm{evil}", "tool_args": {f"k{evil}": evil}})
        await turn.ask({"type": "user_input", "questions": [question(evil + "?")]})
        await turn.ask({"type": f"x{evil}", "prompt": evil}, message=evil)
        raise ValueError(evil)

    server = serve(agent)
    chat = terminal("chat", server.url, "go")
    chat.expect("Enter to choose")
    chat.send(DOWN + ENTER)
    chat.expect("By date")
    chat.expect("Enter to choose")
    chat.send(DOWN + ENTER)
    chat.expect("Answer as JSON")
    chat.send("1" + ENTER)
    assert chat.finish() == 1
    assert "\x1b]0;" not in chat.raw
    assert "\x1b[2J" not in chat.raw
    assert "\u202e" not in chat.raw
    assert "\\u001b]0;owned\\u0007\\u001b[2Jevil\\u202e" in chat.seen


# --- questions ---


def test_a_question_is_answered_with_arrows(serve: Serve, terminal: Open) -> None:
    server = serve(asks({"type": "user_input", "questions": [question()]}))
    chat = terminal("chat", server.url)
    start_turn(chat)
    shown = chat.expect("Enter to choose")
    assert "Group files by extension" in shown
    assert "4. Other" in shown
    chat.send(DOWN + DOWN + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"answers": {STRATEGY: "By type"}}]


def test_several_are_chosen_with_space(serve: Serve, terminal: Open) -> None:
    server = serve(asks({"type": "user_input", "questions": [question(several=True)]}))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("space to choose")
    chat.send(ENTER)
    chat.expect("Choose at least one")
    chat.send(SPACE + DOWN + SPACE + SPACE + DOWN + SPACE + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"answers": {STRATEGY: ["By date", "By size"]}}]


@pytest.mark.parametrize("several", [False, True])
def test_other_takes_any_text(serve: Serve, terminal: Open, several: bool) -> None:
    server = serve(asks({"type": "user_input", "questions": [question(several=several)]}))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Ctrl-C to leave")
    chat.send((SPACE if several else "") + UP + (SPACE if several else "") + ENTER)
    chat.expect("empty to go back")
    chat.send("By owner" + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"answers": {STRATEGY: ["By date", "By owner"] if several else "By owner"}}]


@pytest.mark.parametrize(
    ("typed", "heard"), [("By owner", "By owner"), ("by size", "By size"), ("2", "By type"), ("7", "7")]
)
def test_what_is_typed_is_an_option_or_an_answer_of_ones_own(
    serve: Serve, terminal: Open, typed: str, heard: str
) -> None:
    server = serve(asks({"type": "user_input", "questions": [question()]}))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Ctrl-C to leave")
    chat.send(typed + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"answers": {STRATEGY: heard}}]


def test_ctrl_c_takes_away_what_is_typed_before_it_leaves(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    chat.expect("> ")
    chat.send("delete all" + CTRL_C)
    chat.send("go" + ENTER)
    chat.expect("Run delete_file?")
    assert [request.body["content"] for request in server.sent("POST", "/messages")] == ["go"]


def test_the_preview_of_the_current_choice_is_beside_the_list(serve: Serve, terminal: Open) -> None:
    previews = {"By date": "2024/\n  01/\n    a.txt", "By type": "txt/\n  a.txt"}
    server = serve(asks({"type": "user_input", "questions": [question(previews=previews)]}))
    chat = terminal("chat", server.url)
    start_turn(chat)
    first = chat.expect("Enter to choose")
    assert "2024/" not in first
    (line,) = [line for line in first.splitlines() if "Preview" in line]
    assert "By date" in line
    chat.send(DOWN)
    chat.expect("2024/")
    chat.send(DOWN)
    chat.expect("txt/")
    chat.send(ENTER)
    chat.expect("heard")


def test_on_a_narrow_terminal_the_preview_is_below_the_list(serve: Serve, terminal: Open) -> None:
    server = serve(asks({"type": "user_input", "questions": [question(previews={"By date": "2024/"})]}))
    chat = terminal("chat", server.url, columns=60)
    start_turn(chat)
    shown = chat.expect("Enter to choose")
    assert shown.index("Other") < shown.index("Preview")


def test_all_questions_of_an_interrupt_are_asked(serve: Serve, terminal: Open) -> None:
    server = serve(asks({"type": "user_input", "questions": [question("First?"), question("Second?", several=True)]}))
    chat = terminal("chat", server.url)
    start_turn(chat)
    assert "1/2" in chat.expect("Enter to choose")
    chat.send(DOWN + ENTER)
    chat.expect("2/2")
    chat.expect("space to choose")
    chat.send(SPACE + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"answers": {"First?": "By date", "Second?": ["By date"]}}]


# --- other types ---


def test_an_unknown_type_shows_its_payload_and_takes_json(serve: Serve, terminal: Open) -> None:
    server = serve(asks(COLOR, response_schema={"type": "object", "required": ["hex"]}))
    chat = terminal("chat", server.url)
    start_turn(chat)
    shown = chat.expect("Answer as JSON")
    assert "color_picker" in shown
    assert "Pick a brand color" in shown
    assert "#4ECDC4" in shown
    assert 'The answer is an object, such as {"hex": "value"}' in shown
    assert '"required"' not in shown
    chat.send("#4ECDC4" + ENTER)
    chat.expect("That is not JSON")
    chat.expect("Answer as JSON")
    chat.send("teal" + ENTER)
    chat.expect('The answer is an object, such as {"hex": "value"}')
    chat.expect("Answer as JSON")
    chat.send('{"hex": "#4ECDC4"}' + ENTER)
    chat.expect("heard")
    assert answers_sent(server) == [{"hex": "#4ECDC4"}]


def test_a_schema_that_says_more_than_words_do_is_shown_itself(serve: Serve, terminal: Open) -> None:
    chat = terminal("chat", serve(asks(COLOR, response_schema={"not": {"type": "null"}})).url)
    start_turn(chat)
    shown = chat.expect("Answer as JSON")
    assert "The answer must be valid against:" in shown
    assert '"not": {' in shown


def test_an_answer_that_is_refused_is_asked_for_again(serve: Serve, terminal: Open) -> None:
    server = serve(asks(COLOR))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Answer as JSON")
    wrong = {"loc": ["body", "value", "hex"], "msg": "is required", "type": "required"}
    detail = "Invalid answer: body.value.hex: is required"
    refusal = problem(422, detail, "invalid_answer", errors=[wrong])
    server.override("POST", f"/sessions/{server.only_session().id}/resume", refusal)
    chat.send("{}" + ENTER)
    chat.expect("Your answer was not taken: hex: is required.")
    # The line is empty again, so that what is typed next is not put behind what was wrong.
    chat.expect("Answer as JSON")
    chat.send("false" + ENTER)
    chat.expect("heard [false]")
    assert leave(chat) == 0
    assert chat.seen.count("is required") == 1
    assert "body" not in chat.seen


def test_a_number_in_words_is_told_how_json_writes_it(serve: Serve, terminal: Open) -> None:
    chat = terminal("chat", serve(asks({"type": "count"}, response_schema={"type": "integer"})).url)
    start_turn(chat)
    chat.expect("Answer as JSON")
    chat.send(ENTER)
    chat.expect("An answer is JSON")
    chat.expect("Answer as JSON")
    chat.send("two" + ENTER)
    chat.expect("The answer is a whole number")
    chat.expect("Answer as JSON")
    chat.send("2" + ENTER)
    chat.expect("heard [2]")


def test_what_was_refused_comes_back_with_the_up_arrow(serve: Serve, terminal: Open) -> None:
    server = serve(asks(COLOR))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Answer as JSON")
    wrong = [{"loc": ["body", "value"], "msg": m, "type": "t"} for m in ("is too short", "is no color")]
    refusal = problem(422, "Invalid answer: body.value: is too short; ...", "invalid_answer", errors=wrong)
    server.override("POST", f"/sessions/{server.only_session().id}/resume", refusal)
    chat.send('"re"' + ENTER)
    chat.expect("Your answer was not taken:")
    chat.expect("is too short")
    chat.expect("is no color")
    chat.expect("Answer as JSON")
    chat.send(UP)
    chat.expect('"re"')
    chat.send("\x7fd" + '"' + ENTER)
    chat.expect('heard ["red"]')


def test_user_input_without_questions_is_a_type_like_any_other(serve: Serve, terminal: Open) -> None:
    server = serve(asks({"type": "user_input", "text": "Anything to add?"}))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Anything to add?")
    chat.expect("Answer as JSON")
    chat.send('"no"' + ENTER)
    chat.expect('heard ["no"]')
    assert answers_sent(server) == ["no"]


# --- several interrupts, other people, coming back ---


async def two_at_once(turn: Turn) -> str:
    return "heard " + json.dumps(await asyncio.gather(turn.ask(APPROVAL), turn.ask(COLOR)))


def test_several_interrupts_are_numbered_and_all_answered(serve: Serve, terminal: Open) -> None:
    server = serve(two_at_once)
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Approve this tool call? 1 of 2")
    chat.expect("Enter to choose")
    chat.send(DOWN + ENTER)
    chat.expect("Interrupt 2 of 2")
    chat.expect("Answer as JSON")
    chat.send("null" + ENTER)
    chat.expect('heard [{"approved": true}, null]')
    assert leave(chat) == 0


def test_the_next_interrupt_of_a_turn_is_asked_too(serve: Serve, terminal: Open) -> None:
    chat = terminal("chat", serve(asks(APPROVAL, COLOR)).url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(DOWN + ENTER)
    chat.expect("Answer as JSON")
    chat.send("7" + ENTER)
    chat.expect('heard [{"approved": true}, 7]')


@pytest.mark.parametrize(("by", "shown"), [("ann", "answered by ann"), (None, "answered by somebody else")])
def test_when_somebody_else_answers_the_prompt_closes(serve: Serve, terminal: Open, by: str | None, shown: str) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    (interrupt,) = server.only_session().pending
    server.answer(interrupt["interrupt_id"], {"approved": False}, by)
    chat.expect(shown)
    chat.expect('heard [{"approved": false}]')
    assert leave(chat) == 0
    assert answers_sent(server) == []


@pytest.mark.parametrize(("status", "shown"), [("expired", "has expired"), ("cancelled", "withdrew this question")])
def test_a_question_that_ends_by_itself_closes_its_prompt(
    serve: Serve, terminal: Open, status: str, shown: str
) -> None:
    server = serve(asks(COLOR))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Answer as JSON")
    (interrupt,) = server.only_session().pending
    server.settle(interrupt["interrupt_id"], status)
    chat.expect(shown)
    assert leave(chat) == 0


def test_a_key_meant_for_a_prompt_that_closed_does_not_answer_the_next(serve: Serve, terminal: Open) -> None:
    server = serve(asks(COLOR, APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Answer as JSON")
    (interrupt,) = server.only_session().pending
    server.answer(interrupt["interrupt_id"], "red", "ann")
    chat.expect("answered by ann")
    chat.expect("Press Enter for the next question.")
    chat.send(ENTER)
    chat.expect("Run delete_file?")
    chat.expect("Enter to choose")
    assert answers_sent(server) == []
    chat.send(DOWN + ENTER)
    chat.expect('heard ["red", {"approved": true}]')


def test_an_answer_that_lost_the_race_is_told_who_won(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    late = problem(409, "Interrupt already resolved", "already_resolved", resolved_by="ann", resolved_at=None)
    server.override("POST", f"/sessions/{server.only_session().id}/resume", late)
    chat.send(DOWN + ENTER)
    chat.expect("Your answer came too late. Interrupt already resolved by ann.")


def test_ctrl_c_leaves_the_question_open_and_tells_the_way_back(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    chat.send(CTRL_C)
    command = f"hitl chat {server.url} --session {server.only_session().id}"
    chat.expect(command)
    assert chat.finish() == 130
    assert server.only_session().status == "interrupted"

    back = terminal(*command.split()[1:])
    back.expect("Run delete_file?")
    back.expect("Enter to choose")
    back.send("yes" + ENTER)
    back.expect('heard [{"approved": true}]')
    assert leave(back) == 0


def test_ctrl_c_while_a_turn_runs_leaves_it_running(serve: Serve, terminal: Open) -> None:
    async def agent(turn: Turn) -> str:
        turn.delta("Thinking")
        await asyncio.Event().wait()
        return ""

    server = serve(agent)
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Thinking")
    chat.send(CTRL_C)
    chat.expect("--session")
    assert chat.finish() == 130
    assert server.only_session().status == "running"


def test_a_session_that_is_deleted_ends_the_chat(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    server.delete(server.only_session().id)
    chat.expect("error: the session is gone")
    chat.expect("hint:")
    assert chat.finish() == 4


def test_a_server_that_comes_back_is_found_again(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    server.stop()
    chat.send(DOWN + ENTER)
    chat.expect("The connection is lost; trying again.")
    server.start()
    chat.expect('heard [{"approved": true}]')
    assert leave(chat) == 0


def test_who_answered_while_the_connection_was_down_is_told(serve: Serve, terminal: Open) -> None:
    server = serve(asks(APPROVAL))
    chat = terminal("chat", server.url)
    start_turn(chat)
    chat.expect("Enter to choose")
    server.stop()
    (interrupt,) = server.only_session().pending
    server.answer(interrupt["interrupt_id"], {"approved": True}, "ann")
    server.start()
    chat.expect("answered by ann")
    chat.expect("heard")
