"""What agents write is hostile: it is shown, never run, never loaded, and hides nothing."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, Route, expect

from hitl.cli.text import is_unseen
from tests.python.ui.desk import call

if TYPE_CHECKING:
    from tests.python.ui.conftest import Open

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    '"><button autofocus onfocus=alert(1)>x</button>',
    "[click](javascript:alert(1))",
    "[click](data:text/html,<script>alert(1)</script>)",
    "[click](&#106;avascript:alert(1))",
    "![pixel](http://evil.example/pixel.png)",
    "<style>body{display:none}</style>",
    "`<b onmouseover=alert(1)>x</b>`",
    "<a href='javascript:alert(1)'>x</a>",
    "</textarea><script>alert(1)</script>",
    "{{constructor.constructor('alert(1)')()}}",
    "javascript:alert(1)",
]


def nothing_ran(page: Page) -> None:
    """No element of an agent's making, no address but web addresses, and no request to anywhere else."""
    found = page.evaluate(
        """() => [...document.querySelectorAll(
            '#app :is(script, iframe, img, object, embed, style, svg, base, form[action], link)')]
            .map((element) => element.outerHTML)"""
    )
    assert found == []
    attributes = page.evaluate(
        """() => [...document.querySelectorAll('#app *')].flatMap((element) => element.getAttributeNames()
            .filter((name) => name.startsWith('on') || name === 'srcdoc'))"""
    )
    assert attributes == []
    links = page.evaluate("() => [...document.querySelectorAll('#app a')].map((link) => new URL(link.href).protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}


@pytest.mark.parametrize("text", PAYLOADS)
def test_no_field_runs_what_it_shows(open_inbox: Open, text: str) -> None:
    """In every place: name, argument, difference, message, question, option, preview, payload, schema, reason, who has
    claimed or snoozed it, toast, conversation, journal, grant, error."""
    inbox = open_inbox()
    elsewhere: list[str] = []
    inbox.page.on("request", lambda request: elsewhere.append(request.url) if "127.0.0.1" not in request.url else None)
    question = {
        "question": f"{text}?",
        "header": text[:12],
        "options": [{"label": text, "description": text, "markdown": text}, {"label": "b", "description": "b"}],
    }
    properties: dict[str, Any] = {"field": {"type": "string", "description": text, "title": text, "enum": [text, "b"]}}
    schema = {"type": "object", "properties": properties, "required": ["field"], "description": text}
    calls = [
        call("refund", order=1, cents=1, reason=text),
        call("ask_user_question", questions=[question]),
        call(
            "ask_anything",
            payload={"type": text, text: text, "list": [text, {text: text}]},
            message=text,
            schema=schema,
        ),
        call(
            "ask_anything",
            payload={"type": "unknown_outcome", "tool_name": text, "tool_args": {text: text}, "started_at": text},
        ),
    ]
    session_id, asked = inbox.asked(*calls)
    expect(inbox.rows).to_have_count(4)
    base = inbox.page.url.split("#")[0]
    for one in asked:
        inbox.page.goto(f"{base}#/inbox/needs/{one['interrupt_id']}")
        expect(inbox.answer).to_be_visible()
        nothing_ran(inbox.page)
        if one["type"] == "tool_approval":
            inbox.press("e")
            expect(inbox.page.get_by_label("reason")).to_have_value(text)
            inbox.page.get_by_label("reason").fill(f"{text}{text}")
            expect(inbox.answer.locator(".changes")).to_be_visible()
            nothing_ran(inbox.page)
            inbox.press("Escape")
            inbox.api.resume(session_id, one["interrupt_id"], {"approved": False, "reason": text, "always": True})
            expect(inbox.answer).to_contain_text("Rejected")
            nothing_ran(inbox.page)
        elif one["type"] == "unknown_outcome":
            for what, members in (("claim", {}), ("snooze", {"seconds": 60})):
                held = inbox.api.post(f"/interrupts/{one['interrupt_id']}/{what}", {"as": text[:64], **members})
                assert held.status_code == 200, held.text
            expect(inbox.answer).to_contain_text("works on this until")
            expect(inbox.answer).to_contain_text("Snoozed")
            nothing_ran(inbox.page)
            inbox.page.get_by_role("radio", name="It was not done").check()
            inbox.click("Answer", inbox.answer)
            expect(inbox.undo).to_be_visible()
            nothing_ran(inbox.page)
            inbox.click("Undo", inbox.undo)
    inbox.page.goto(f"{base}#/sessions/{session_id}")
    expect(inbox.page.get_by_role("region", name="Request: ")).to_have_count(3)
    nothing_ran(inbox.page)
    inbox.page.goto(f"{base}#/sessions/{session_id}/grants")
    expect(inbox.page.get_by_role("listitem").filter(has_text="Calls of refund")).to_be_visible()
    nothing_ran(inbox.page)
    inbox.page.goto(f"{base}#/sessions/{session_id}/journal")
    expect(inbox.page.get_by_role("region", name="Journal of the newest turn")).to_contain_text("ask")
    nothing_ran(inbox.page)
    # And as a message, by the person and by the agent.
    other = inbox.api.create()
    inbox.api.send(other, text)
    inbox.api.wait(other)
    inbox.page.goto(f"{base}#/sessions/{other}")
    expect(inbox.page.locator(".said.assistant")).to_contain_text("You said:")
    nothing_ran(inbox.page)
    failed = inbox.api.create()
    inbox.api.send(failed, f"fail: {text}")
    assert inbox.api.wait(failed)["error"] == f"RuntimeError: {text}"
    for tab in ("", "/journal"):
        inbox.page.goto(f"{base}#/sessions/{failed}{tab}")
        expect(inbox.page.locator("main")).to_contain_text("RuntimeError: ")
        nothing_ran(inbox.page)
    assert elsewhere == []


def test_characters_that_hide_or_turn_text_are_shown_by_name(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(call("refund", order=1, cents=1, reason="pay \u202eecila\u202c and\u200b bob\u0007\u0007\u0007!"))
    inbox.show("refund")
    cell = inbox.what_is_asked.locator(".members td").last
    # Many of one are one mark.
    for name in ("U+202E", "U+202C", "U+200B", "bobU+0007 \u00d7 3!"):
        expect(cell).to_contain_text(name)
    shown: str = cell.inner_text()
    assert not any(character in shown for character in "\u202e\u202c\u200b\u0007")


def test_so_they_are_in_the_form_of_an_answer(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("422",))
    turned, marked = "pay \u202e bob", "pay U+202E bob"
    described = {"description": turned}
    properties: dict[str, Any] = {
        turned: {"type": "string", **described, "not": {"const": ""}},
        "few": {"enum": [turned], **described},
        "many": {"enum": [turned, *range(8)]},
        "list": {"type": "array", "items": {"type": "string"}, **described},
        "object": {"type": "object", "properties": {}, **described},
    }
    schema = {"type": "object", "properties": properties}
    payload = {"type": turned, "tool_name": turned}
    inbox.asked(call("ask_anything", payload=payload, message="Which?", schema=schema))
    inbox.show("Which?")
    inbox.click("Filter")
    expect(inbox.page.get_by_label("Type")).to_contain_text("pay [U+202E] bob")
    form = inbox.answer.locator("form")
    expect(form).to_contain_text(marked)
    expect(form.get_by_label("many")).to_contain_text("pay [U+202E] bob")
    assert "\u202e" not in inbox.page.locator("body").inner_text()


UNSEEN = "\ufe0f\u180f\u2800\ufff0\U0001bca0\U0001d173\U000e0400\U000f0000\U00100000\u3164\u115f\u034f\U000e0100"


def test_so_is_all_that_shows_nothing(open_inbox: Open) -> None:
    inbox = open_inbox()
    path = "".join(f"{letter}{character}" for letter, character in zip("abcdefghijklm", UNSEEN, strict=True))
    inbox.asked(call("refund", order=1, cents=1, reason=f"{path} \u2764\ufe0f"))
    inbox.show("refund")
    cell = inbox.what_is_asked.locator(".members td").last
    names = "".join(
        f"{letter}U+{ord(character):04X}" for letter, character in zip("abcdefghijklm", UNSEEN, strict=True)
    )
    assert cell.inner_text() == f"{names} \u2764U+FE0F"


def test_a_joiner_in_a_value_is_shown_whatever_it_joins_and_in_prose_where_it_joins_no_emoji(open_inbox: Open) -> None:
    inbox = open_inbox()
    joined = "report\u00a9\u200d.txt \u2122\u200d/etc \u2139\u200dx a\u200db"
    family = "\U0001f469\u200d\U0001f4bb \u2764\ufe0f\u200d\U0001f525"
    inbox.asked(call("refund", order=1, cents=1, reason=f"{joined} {family}"))
    inbox.show("refund")
    marked = joined.replace("\u200d", "U+200D")
    cell = inbox.what_is_asked.locator(".members td").last
    exact = family.replace("\u200d", "U+200D").replace("\ufe0f", "U+FE0F")
    assert cell.inner_text() == f"{marked} {exact}"
    inbox.asked(call("ask_anything", payload={"type": "look"}, message=f"Prose {joined} {family}"))
    inbox.show("Prose")
    expect(inbox.request.get_by_role("heading", level=1)).to_have_text(f"Prose {marked} {family}")


def test_the_terminal_marks_what_the_page_marks(open_inbox: Open) -> None:
    source = (Path(__file__).parents[3] / "ui/src/shown.tsx").read_text(encoding="utf-8")
    (rule,) = re.findall(r"const ODD_OR_SPACE = (/.+/gu);", source)
    marked = set(
        open_inbox().page.evaluate(
            f"""() => [...Array(0x110000).keys()].filter((code) => String.fromCodePoint(code).match({rule}))"""
        )
    )
    # What either Unicode does not know yet is marked there.
    known = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) != "Cn"]
    assert {code for code in known if is_unseen(chr(code))} == marked.intersection(known)
    assert all(is_unseen(chr(code)) for code in set(range(sys.maxunicode + 1)).difference(known))


def test_white_space_that_counts_can_be_seen(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(call("refund", order=1, cents=1, reason=" two  spaces\u00a0and\u2003more\n"))
    inbox.show("refund")
    cell = inbox.what_is_asked.locator(".members td").last
    assert cell.inner_text() == " two  spacesU+00A0andU+2003more\n"
    expect(cell.locator(".edge")).to_have_count(2)


@pytest.mark.parametrize("name", ["constructor", "__proto__", "toString", "hasOwnProperty"])
def test_a_name_that_every_object_has_is_a_name(open_inbox: Open, name: str) -> None:
    inbox = open_inbox()
    options = [{"label": name, "description": name}, {"label": "b", "description": "b"}]
    question = {"question": name, "header": name[:12], "options": options}
    form = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    _, asked = inbox.asked(
        call("ask_user_question", questions=[question]),
        call("ask_anything", payload={"type": name, name: name}, message="Look", schema=form),
    )
    expect(inbox.rows).to_have_count(2)
    inbox.show("Look")
    expect(inbox.what_is_asked.locator(".members")).to_contain_text(name)
    expect(inbox.answer.get_by_role("button", name="Answer", exact=True)).to_be_visible()
    inbox.row(name).filter(has_text="Question").get_by_role("link").click()
    inbox.page.get_by_role("radio", name=name).check()
    inbox.click("Answer", inbox.answer)
    inbox.send()
    [answered] = [one for one in asked if one["type"] == "user_input"]
    assert inbox.resolved(answered["interrupt_id"]) == {"answers": {name: name}}


def test_a_pattern_that_a_browser_would_try_for_hours_is_tried_by_the_server(open_inbox: Open) -> None:
    inbox = open_inbox(expected=("422",))
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["code"]}
    _, [asked] = inbox.asked(call("ask_anything", payload={"type": "code"}, message="Which code?", schema=schema))
    inbox.show("Which code?")
    code = inbox.page.get_by_role("textbox", name="code")
    code.fill("a" * 40 + "!")
    inbox.click("Answer", inbox.answer)
    inbox.click("Send now", inbox.undo)
    inbox.page.locator(".toast.bad").get_by_role("link", name="Show").click()
    expect(inbox.answer.get_by_role("alert")).to_contain_text("does not match")
    code.fill("aaa")
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == {"code": "aaa"}


ITSELF = {"$ref": "#"}
ALIKE: dict[str, Any] = {"$defs": {"part": {"anyOf": [
    {"type": "object", "properties": {"in": {"$ref": "#/$defs/part"}}, "required": ["in"]} for _ in range(4)
]}}, "$ref": "#/$defs/part"}  # fmt: skip
NESTED: dict[str, Any] = {"in": 1}
for _ in range(18):
    NESTED = {"in": NESTED}
ENDLESS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {f"m{at}": ITSELF for at in range(12)},
        "required": [f"m{at}" for at in range(12)],
    },
    {"type": "object", "properties": {f"m{at}": ITSELF for at in range(8)}},
    {"type": "object", "properties": {"in": ALIKE}, "$defs": ALIKE["$defs"], "default": {"in": NESTED}},
]


@pytest.mark.parametrize("schema", ENDLESS, ids=["asks for itself", "may have itself", "choices in choices"])
def test_no_schema_keeps_the_page_busy(open_inbox: Open, schema: dict[str, Any]) -> None:
    inbox = open_inbox()
    inbox.asked(call("ask_anything", payload={"type": "tree"}, message="Which tree?", schema=schema))
    inbox.show("Which tree?")
    expect(inbox.answer.get_by_role("button", name="Answer", exact=True)).to_be_visible()
    assert inbox.answer.locator("button, input, textarea").count() < 2_000
    inbox.click("JSON", inbox.answer)
    expect(inbox.page.get_by_label("Answer (JSON)")).to_be_visible()


def test_what_cannot_be_shown_is_shown_as_json_and_the_rest_goes_on(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(call("refund", order=7, cents=1, reason="fine"))
    _, [asked] = inbox.asked(call("refund", order=8, cents=1, reason="odd"))

    def spoil(route: Route) -> None:
        """A record as no server of this version sends it."""
        response = route.fetch()
        body = response.json()
        for record in body if isinstance(body, list) else [body]:
            if record["interrupt_id"] == asked["interrupt_id"]:
                record |= {"allowed_decisions": 5, "expires_at": {}, "agent": 5}
        route.fulfill(response=response, json=body)

    inbox.page.route(re.compile(r"/interrupts(/[^/]+|\?.*)$"), spoil)
    inbox.page.reload()
    expect(inbox.row("order: 7")).to_be_visible()
    inbox.row("cannot be shown").get_by_role("link").click()
    expect(inbox.request.get_by_label("The request as JSON")).to_contain_text('"odd"')
    inbox.page.get_by_label("Answer (JSON)").fill('{"approved": true}')
    inbox.click("Answer", inbox.answer)
    inbox.send()
    assert inbox.resolved(asked["interrupt_id"]) == {"approved": True}


HEAVY = {
    # A word without an end, of which each line would be shaped anew.
    "labels": "[a" * 250_000,
    # Each is an element.
    "joiners": "\u200d" * 20_000,
}


@pytest.mark.parametrize("kind", HEAVY)
def test_no_line_keeps_the_page_busy(open_inbox: Open, kind: str) -> None:
    inbox = open_inbox()
    session_id = inbox.api.create(state=[{"role": "assistant", "content": f"First\n\n{HEAVY[kind]}"}])
    inbox.page.goto(f"{inbox.page.url.split('#')[0]}#/sessions/{session_id}")
    expect(inbox.page.locator(".said.assistant .prose")).to_contain_text("First")
    inbox.page.get_by_role("textbox", name="Message").fill("I can still be written")


def test_a_link_says_where_it_leads(open_inbox: Open) -> None:
    inbox = open_inbox()
    message = (
        "Look at [your bank](https://evil.example/login) and **decide**. "
        "Or at https://github.com@evil.example/login and https://github.com/login."
    )
    inbox.asked(call("ask_anything", payload={"type": "look"}, message=f"First line\n\n{message}"))
    inbox.show("First line")
    # The conversation below quotes it too, once it is loaded.
    message_shown = inbox.request.locator(".prose").first
    link = message_shown.get_by_role("link", name="your bank")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(message_shown).to_contain_text("your bank (evil.example)")
    expect(message_shown).to_contain_text("https://github.com@evil.example/login (evil.example)")
    expect(message_shown).to_contain_text("https://github.com/login.")
    expect(message_shown.locator("strong")).to_have_text("decide")


def test_markdown_within_a_line(open_inbox: Open) -> None:
    inbox = open_inbox()
    text = '**a *b* c** *d* snake_case_name `x`` y` ~~e~~ [f [g] h](https://f.example "t") \\*i\\* ** j ** *k'
    inbox.asked(
        call(
            "ask_anything", payload={"type": "look"}, message=f"First\n\n{text}\n\n## Head ##\n\n|a|b|\n|:-|-:|\n|c|d|"
        )
    )
    inbox.show("First")
    prose = inbox.request.locator(".prose").first
    expect(prose.locator("p > strong").first).to_have_text("a b c")
    expect(prose.locator("em")).to_have_text(["b", "d"])
    expect(prose.locator("del")).to_have_text("e")
    expect(prose.get_by_role("link", name="f [g] h")).to_be_visible()
    for shown in ("snake_case_name", "*i* ** j ** *k"):
        expect(prose).to_contain_text(shown)
    expect(prose.locator(".heading")).to_have_text("Head")
    expect(prose.get_by_role("cell")).to_have_text(["c", "d"])


def test_a_long_argument_is_never_cut_without_saying_so(open_inbox: Open) -> None:
    inbox = open_inbox()
    inbox.asked(call("refund", order=1, cents=1, reason="a" * 5000 + " and the end"))
    inbox.show("refund")
    expect(inbox.what_is_asked.locator(".members")).not_to_contain_text("and the end")
    inbox.click("Show all 5,012 characters", inbox.request)
    expect(inbox.what_is_asked.locator(".members")).to_contain_text("and the end")


def test_the_policy_forbids_what_slips_through(open_inbox: Open) -> None:
    """Should HTML ever get in, the browser still runs none of it."""
    inbox = open_inbox(expected=("Content Security Policy", "TrustedHTML", "TrustedScript"))
    refused = inbox.page.evaluate(
        """() => {
            try { document.body.innerHTML = '<img src=x onerror=alert(1)>'; return false } catch { return true }
        }"""
    )
    assert refused
    inbox.page.evaluate(
        """() => { const it = document.createElement('button');
            try { it.setAttribute('onclick', 'window.ran = true') } catch { /* refused already */ }
            document.body.append(it); it.click(); }"""
    )
    assert json.loads(inbox.page.evaluate("JSON.stringify(window.ran === undefined)"))
