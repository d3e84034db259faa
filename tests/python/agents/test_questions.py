import json
from typing import Any

import pytest

from hitl import ReActAgent, ask_user_question
from hitl.testing import ScriptedChatClient
from tests.python.support.local import LocalResult, run_locally

STRATEGY = {
    "question": "How would you like to organize the files?",
    "header": "Strategy",
    "options": [
        {"label": "By date", "description": "Group files by year and month"},
        {"label": "By type", "description": "Group files by extension"},
    ],
}


async def ask(arguments: Any, answer: Any = None) -> LocalResult:
    script = [{"tool_calls": [{"name": "ask_user_question", "args": arguments, "id": "call_1"}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[ask_user_question], name="librarian")
    return await run_locally(agent, "help me", answers=lambda asked: answer)


async def test_the_model_gets_the_answers_by_question() -> None:
    answers = {STRATEGY["question"]: "By date"}
    result = await ask({"questions": [STRATEGY]}, {"answers": answers})
    (asked,) = result.requests
    assert asked["type"] == "user_input"
    assert asked["payload"] == {"type": "user_input", "questions": [{**STRATEGY, "multiSelect": False}]}
    assert (asked["agent"], asked["tool_call_id"]) == ("librarian", "call_1")
    assert json.loads(result.state[2].content or "") == answers


@pytest.mark.parametrize(
    ("questions", "field"),
    [
        ([], "questions"),
        ([STRATEGY] * 5, "questions"),
        ([{key: value for key, value in STRATEGY.items() if key != "question"}], "question"),
        ([{**STRATEGY, "options": STRATEGY["options"][:1]}], "options"),
        ([{**STRATEGY, "options": [*STRATEGY["options"]] * 3}], "options"),
    ],
)
async def test_a_bad_call_is_a_tool_error_that_names_the_field(questions: Any, field: str) -> None:
    result = await ask({"questions": questions})
    assert result.requests == []
    assert field in json.loads(result.state[2].content or "")["error"]


def test_the_model_is_told_the_schema_of_the_contract() -> None:
    assert ask_user_question.name == "ask_user_question"
    questions = ask_user_question.definition["function"]["parameters"]["properties"]["questions"]
    assert (questions["minItems"], questions["maxItems"]) == (1, 4)
    question = questions["items"]
    assert set(question["properties"]) == {"question", "header", "multiSelect", "options"}
    assert question["required"] == ["question", "header", "options"]
    assert question["properties"]["multiSelect"]["default"] is False
    assert "maxLength" not in question["properties"]["header"]
    options = question["properties"]["options"]
    assert (options["minItems"], options["maxItems"]) == (2, 4)
    assert set(options["items"]["properties"]) == {"label", "description", "markdown"}
    assert options["items"]["required"] == ["label", "description"]


async def test_outside_a_run_it_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"ask_user_question\(\) called outside a hitl run"):
        await ask_user_question(questions=[STRATEGY])
