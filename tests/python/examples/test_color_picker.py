"""Plain functions as agents: one question of their own type, and two at once."""

from __future__ import annotations

import pytest

from hitl.client import Invalid
from hitl.testing import HitlServer, Human


def test_the_chosen_color_comes_back_as_its_type(hitl_server: HitlServer, human: Human) -> None:
    human.on_type("color_picker").answer({"hex": "#4ecdc4"})

    reply = hitl_server("hitl.examples.color_picker:agent").send("make it look nice")

    assert reply.content == "The title is #4ecdc4."
    assert human.seen[0].payload["presets"] == ["#1d3557", "#e63946"]


@pytest.mark.parametrize("answer", ["red", {"hex": "red"}, {"hex": None}, {}, None])
def test_what_is_no_color_changes_nothing_and_the_question_stays(hitl_server: HitlServer, answer: object) -> None:
    client = hitl_server("hitl.examples.color_picker:agent").client
    session_id = client.create_session().session_id
    asked = client.ask(session_id, "make it look nice").interrupts[0]

    with pytest.raises(Invalid):
        client.answer(asked.interrupt_id, answer)

    assert client.get_session(session_id).interrupts == (asked,)
    client.answer(asked.interrupt_id, {"hex": "#4ecdc4"})
    assert client.wait(session_id).status == "idle"


def test_two_questions_are_asked_in_one_pause_and_answered_in_any_order(hitl_server: HitlServer) -> None:
    client = hitl_server("hitl.examples.color_picker:palette").client
    session_id = client.create_session().session_id

    client.send_message(session_id, "make it look nice")
    # A poll may come back with the first question while the second is still on its way.
    asked = client.wait(session_id).interrupts
    while len(asked) < 2:
        asked = client.get_session(session_id).interrupts
    title, background = asked
    assert (title.message, background.message) == ("The color of the title", "The color of the background")

    assert client.resume(session_id, background.interrupt_id, {"hex": "#f1faee"}).status == "interrupted"
    assert client.resume(session_id, title.interrupt_id, {"hex": "#1d3557"}).status == "running"
    response = client.wait(session_id).response
    assert response is not None
    assert response.content == "The title is #1d3557 on #f1faee."
