"""Requests of types that the page has never heard of: there is always a way to answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.python.ui.desk import call
from tests.python.ui.inbox import pending

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open
    from tests.python.ui.inbox import Inbox


def ask(schema: dict[str, Any] | None = None, **payload: Any) -> dict[str, Any]:
    return call("ask_anything", payload={"type": "weather_report", **payload}, message="How is it?", schema=schema)


def test_a_schema_becomes_a_form(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(call("escalate", summary="angry"))
    inbox.show("Who takes over?")
    expect(inbox.request).to_contain_text("angry")
    inbox.click("Answer", inbox.answer)
    expect(inbox.answer).to_contain_text("The answer does not fit yet.")
    inbox.page.get_by_role("radio", name="quality").check()
    inbox.page.get_by_role("radio", name="Yes").check()
    minutes = inbox.page.get_by_label("callback_minutes")
    minutes.fill("2")
    expect(minutes).to_have_attribute("aria-invalid", "true")
    expect(inbox.answer).to_contain_text("has to be at least 5")
    minutes.fill("30")
    inbox.page.get_by_label("note").fill("Be kind")
    inbox.click("Answer", inbox.answer)
    inbox.settled(session_id)
    assert inbox.resolved(asked["interrupt_id"]) == {
        "team": "quality",
        "urgent": True,
        "callback_minutes": 30,
        "note": "Be kind",
    }


def test_in_a_session_all_that_is_asked_is_shown_beside_a_call_s_arguments(inbox: Inbox) -> None:
    asks = ask(tool_name="migrate", tool_args={"table": "orders"}, reason={"env": "prod", "rows": 40000})
    session_id, _ = inbox.asked(asks)
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    card = inbox.page.get_by_role("region", name="Request: How is it?")
    for shown in ("migrate", "orders", "prod", "40000"):
        expect(card).to_contain_text(shown)


@pytest.mark.parametrize(("prompt", "below"), [("Publish?", 0), ("**Publish?**", 1)])
def test_what_the_title_says_to_the_letter_is_not_said_again_below_it(inbox: Inbox, prompt: str, below: int) -> None:
    inbox.asked(call("ask_anything", payload={"type": "confirm", "prompt": prompt}, message=None, schema=None))
    inbox.show("Publish?")
    expect(inbox.answer).to_be_visible()
    expect(inbox.request.get_by_role("region", name="What is asked")).to_have_count(below)


def test_without_a_schema_any_text_is_an_answer(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(ask(place="Bonn"))
    inbox.show("How is it?")
    expect(inbox.request).to_contain_text("Bonn")
    inbox.page.get_by_role("textbox", name="Answer", exact=True).fill("Sunny")
    inbox.click("Answer", inbox.answer)
    inbox.settled(session_id)
    assert inbox.resolved(asked["interrupt_id"]) == "Sunny"


@pytest.mark.parametrize(("written", "value"), [("null", None), ("false", False), ('{"a": [1.5]}', {"a": [1.5]})])
def test_and_so_is_any_json(open_inbox: Open, written: str, value: Any) -> None:
    inbox = open_inbox()
    _, [asked] = inbox.asked(ask())
    inbox.show("How is it?")
    inbox.click("JSON", inbox.answer)
    box = inbox.page.get_by_label("Answer (JSON)")
    box.fill("{not json")
    expect(inbox.answer.get_by_role("button", name="Answer", exact=True)).to_be_disabled()
    box.fill(written)
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == value


@pytest.mark.parametrize(
    ("schema", "choose", "value"),
    [
        ({"enum": ["red", "green"]}, "green", "green"),
        ({"type": "boolean"}, "No", False),
        ({"type": ["boolean", "null"]}, "Nothing", None),
    ],
)
def test_a_simple_schema_is_a_single_choice(open_inbox: Open, schema: Any, choose: str, value: Any) -> None:
    inbox = open_inbox()
    _, [asked] = inbox.asked(ask(schema))
    inbox.show("How is it?")
    inbox.page.get_by_role("radio", name=choose).check()
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == value


def test_a_schema_that_no_form_can_show_is_answered_as_json(open_inbox: Open) -> None:
    inbox = open_inbox()
    schema = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2}
    _, [asked] = inbox.asked(ask(schema))
    inbox.show("How is it?")
    inbox.page.get_by_label("Answer (JSON)").fill('[1, "two"]')
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == [1, "two"]


def test_what_the_server_refuses_is_said_and_can_be_mended(open_inbox: Open) -> None:
    """The server knows more of JSON Schema than the page."""
    inbox = open_inbox(expected=("422",))
    schema = {
        "type": "object",
        "properties": {"tags": {"type": "array", "contains": {"const": "x"}}},
        "required": ["tags"],
    }
    _, [asked] = inbox.asked(ask(schema))
    inbox.show("How is it?")
    inbox.click("Answer", inbox.answer)
    inbox.click("Send now", inbox.undo)
    inbox.page.locator(".toast.bad").get_by_role("link", name="Show").click()
    expect(inbox.answer.get_by_role("alert")).to_contain_text("The server did not take the answer")
    inbox.click("+ Add to tags")
    inbox.page.get_by_role("textbox", name="tags 1").fill('"x"')
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == {"tags": ["x"]}


def test_what_came_of_a_step_is_asked_in_words(open_inbox: Open) -> None:
    inbox = open_inbox()
    payload = {"type": "unknown_outcome", "tool_name": "refund", "tool_args": {"cents": 5}, "started_at": "2026-11-22"}
    _, [asked] = inbox.asked(call("ask_anything", payload=payload))
    inbox.show("What came of refund?")
    inbox.page.get_by_role("radio", name="It failed").check()
    inbox.page.get_by_label("What went wrong").fill("The bank refused it")
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == {"outcome": "failed", "message": "The bank refused it"}


def test_an_object_that_may_be_absent_can_be_added_and_taken_away(inbox: Inbox) -> None:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    nullable = {"anyOf": [city, {"type": "null"}], "default": None}
    _, [asked] = inbox.asked(ask({"type": "object", "properties": {"to": city, "back": nullable, "by": nullable}}))
    inbox.show("How is it?")
    expect(inbox.answer.get_by_label("city")).to_have_count(0)
    inbox.click("+ Add to", inbox.answer)
    inbox.answer.get_by_label("city").fill("Bonn")
    inbox.click("Remove to", inbox.answer)
    expect(inbox.answer.get_by_label("city")).to_have_count(0)
    inbox.click("+ Add back", inbox.answer)
    inbox.answer.get_by_label("city").fill("Ghent")
    by = inbox.answer.get_by_role("group", name="by")
    inbox.click("Nothing", by)
    expect(by).to_contain_text("Nothing.")
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == {"back": {"city": "Ghent"}, "by": None}


BORROWED = {"type": "user_input", "questions": [{"question": "Which?", "options": [{"label": "One"}], "extra": 1}]}


def test_questions_that_the_server_does_not_know_as_such_are_answered_by_their_schema(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(call("ask_anything", payload=BORROWED, schema={"type": "integer"}))
    inbox.show("Which?")
    expect(inbox.what_is_asked).to_contain_text("One")
    inbox.answer.get_by_role("textbox").fill("1")
    inbox.click("Answer", inbox.answer)
    inbox.settled(session_id)
    assert inbox.resolved(asked["interrupt_id"]) == 1


NAMELESS = [
    ({"type": "tool_approval", "tool_name": "shell", "tool_args": "rm -rf /"}, "shell", ["rm -rf /"]),
    ({"type": "tool_approval", "name": "wire", "args": {"cents": 4000}}, "tool approval", ["wire", "4000"]),
    (
        {"type": "unknown_outcome", "tool_name": "upload", "tool_args": None, "started_at": "2026-11-22"},
        "What came of upload?",
        ["The arguments were too large, or no JSON, and are not shown.", "2026-11-22"],
    ),
]


@pytest.mark.parametrize(("payload", "title", "shown"), NAMELESS, ids=["a text", "another name", "left out"])
def test_of_arguments_that_have_no_names_all_is_shown(
    open_inbox: Open, payload: Any, title: str, shown: list[str]
) -> None:
    inbox = open_inbox()
    session_id, _ = inbox.asked(call("ask_anything", payload=payload))
    inbox.show(title)
    for text in shown:
        expect(inbox.what_is_asked).to_contain_text(text)
    expect(inbox.what_is_asked).not_to_contain_text("No arguments.")
    # Nor can they be decided with others, where there are only columns for names.
    inbox.rows.get_by_role("checkbox").check()
    bar = inbox.page.get_by_role("region", name="Selected requests")
    expect(bar).to_contain_text("These have to be answered one by one.")
    expect(bar.get_by_role("button", name="Approve")).to_be_disabled()
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    card = inbox.page.get_by_role("region", name=f"Request: {title}")
    for text in shown:
        expect(card).to_contain_text(text)


AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


@pytest.mark.parametrize("type", ["pick", "open", "row", "note bad", "spoken"])
def test_the_type_of_a_request_is_a_word_and_no_class_of_the_page(open_inbox: Open, type: str) -> None:
    inbox = open_inbox()
    inbox.asked(call("ask_anything", payload={"type": type, "prompt": "Which?"}))
    kind = inbox.row("Which?").locator(".kind")
    expect(kind).to_have_text(type)
    assert kind.get_attribute("class") == "kind"
    inbox.show("Which?")
    assert inbox.request.locator(".kind").get_attribute("class") == "kind"


def test_an_answer_that_only_the_agent_refuses_is_mended_and_not_written_anew(inbox: Inbox) -> None:
    session_id, [asked] = inbox.asked(call("ask_address"))
    inbox.show("Where to?")
    inbox.page.get_by_label("street", exact=True).fill("Long Lane 5")
    inbox.page.get_by_label("city", exact=True).fill("Nowhere")
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == {"street": "Long Lane 5", "city": "Nowhere"}
    inbox.show("The answer was refused: city: Value error, nobody lives there")
    expect(inbox.page.get_by_label("street", exact=True)).to_have_value("Long Lane 5")
    expect(inbox.page.get_by_label("city", exact=True)).to_have_value("Nowhere")
    inbox.page.get_by_label("city", exact=True).fill("Ghent")
    inbox.click("Answer", inbox.answer)
    assert "Long Lane 5, Ghent" in inbox.settled(session_id)


@pytest.mark.parametrize(("typed", "value"), [("100.00", 100.0), ("1.05", 1.05), ("-0.5", -0.5), ("1e3", 1000.0)])
def test_a_number_is_what_was_typed(inbox: Inbox, typed: str, value: float) -> None:
    _, [asked] = inbox.asked(ask(AMOUNT))
    inbox.show("How is it?")
    field = inbox.page.get_by_label("amount")
    field.focus()
    inbox.page.keyboard.type(typed)
    expect(field).to_have_value(typed)
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == {"amount": value}


def test_an_entry_that_is_removed_takes_its_own_field_with_it(open_inbox: Open) -> None:
    inbox = open_inbox()
    _, [asked] = inbox.asked(ask({"type": "array", "items": {}}))
    inbox.show("How is it?")
    for text in ("1", '{"keep": 2}'):
        inbox.click("+ Add to Answer", inbox.answer)
        inbox.answer.get_by_role("textbox").last.fill(text)
    inbox.click("Remove Answer 1", inbox.answer)
    expect(inbox.answer.get_by_role("textbox")).to_have_value('{"keep": 2}')
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == [{"keep": 2}]


def test_what_only_the_server_finds_wrong_stands_at_its_field(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("422",))
    rule = {"type": "string", "not": {"const": "bad"}}
    _, [asked] = inbox.asked(ask({"type": "object", "properties": {"weather": rule}, "required": ["weather"]}))
    inbox.show("How is it?")
    inbox.page.get_by_label("weather").fill("bad")
    inbox.click("Answer", inbox.answer)
    inbox.send()
    inbox.page.locator(".toast.bad").get_by_role("link", name="Show").click()
    expect(inbox.answer.get_by_role("alert").locator("code")).to_have_text("weather")
    expect(inbox.page.get_by_label("weather")).to_have_attribute("aria-invalid", "true")
    assert pending(inbox.api, asked["interrupt_id"])


def test_what_is_nested_deeply_fits_on_every_page(inbox: Inbox) -> None:
    """Nothing that is asked is beside the page: where there is no room, names stand above their values."""
    deep = {"address": {"region": {"country": {"continent": {"planet": ["Earth", {"moon": "Luna"}]}}}}}
    session_id, _ = inbox.asked(call("ask_anything", payload={"type": "place", **deep}, message="Where to?"))
    beside = """() => [...document.querySelectorAll("main *")]
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest("summary"))
        .map((one) => one.outerHTML.slice(0, 80))"""
    inbox.show("Where to?")
    expect(inbox.what_is_asked).to_contain_text("Luna")
    expect(inbox.request.get_by_role("region", name="Conversation")).to_contain_text("ask_anything")
    assert inbox.page.evaluate(beside) == []
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    expect(inbox.page.locator(".card")).to_contain_text("Luna")
    assert inbox.page.evaluate(beside) == []


def test_no_word_of_the_page_is_broken_on_a_phone(open_inbox: Open) -> None:
    """Neither what a button says, nor the head of a table: beside long texts they keep their width."""
    broken = """() => [...document.querySelectorAll("button, thead th")].filter((one) => {
        const range = document.createRange();
        range.selectNodeContents(one);
        const lines = new Set([...range.getClientRects()].map((rect) => Math.round(rect.bottom / 8)));
        return one.textContent.trim().split(/\\s/).length < lines.size;
    }).map((one) => one.textContent)"""
    inbox = open_inbox("phone")
    inbox.page.set_viewport_size({"width": 320, "height": 700})
    address = {"street_and_number_and_floor": "M" * 60}
    session_id, [asked] = inbox.asked(call("set_shipping", address=address, parcels=[1]))
    inbox.show("set_shipping")
    expect(inbox.answer.get_by_role("button", name="Approve")).to_be_visible()
    assert inbox.page.evaluate(broken) == []
    changed = {"address": {"street_and_number_and_floor": "N" * 60}, "parcels": [2], "gift": True, "note": None}
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True, "args": changed})
    expect(inbox.answer.locator(".changes ins").first).to_be_visible()
    assert inbox.page.evaluate(broken) == []
    session_id, [asked] = inbox.asked(call("refund", order=1, cents=1, reason="r"))
    inbox.api.resume(session_id, asked["interrupt_id"], {"approved": True, "always": True})
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}/grants")
    expect(inbox.page.get_by_role("button", name="Revoke")).to_be_visible()
    assert inbox.page.evaluate(broken) == []
