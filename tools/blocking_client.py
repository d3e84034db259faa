"""The blocking client, made from the one for asyncio: what is written once cannot differ.

``python -m tools.blocking_client`` writes `python/hitl/client/sync_client.py`; a test holds that it is what this makes.
"""

from __future__ import annotations

import re
from pathlib import Path

CLIENT = Path(__file__).parent.parent / "python" / "hitl" / "client"
SOURCE, MADE = CLIENT / "async_client.py", CLIENT / "sync_client.py"

TEXTS = {
    # What is said of each, and what a formatter sets otherwise once it is shorter.
    '"""The client for asyncio. Each part has its blocking twin, under the same name, in `sync_client`, which is made\n'
    'from this file: `python -m tools.blocking_client`."""\n': (
        '"""The blocking client. Made from `async_client`: `python -m tools.blocking_client`."""\n'
    ),
    '    """Talks to a hitl server from asyncio. Arguments and errors are those of `Client`.\n': (
        '    """Talks to a hitl server, blocking. `AsyncClient` is its twin for asyncio.\n'
        "\n"
        "    url: the server, for example `http://127.0.0.1:8000`. ValueError if it is none.\n"
        "    api_key: sent as a bearer token, where the server wants one.\n"
        "    timeout: seconds for each connect, write and read; what a long poll waits comes on top.\n"
        "\n"
        "    Every method raises a `ClientError`: `ConnectionFailed`, or an `ApiError` such as `NotFound` or "
        "`Conflict`.\n"
    ),
    "For one reader.": "Not for several threads at once.",
    "import asyncio\nfrom collections.abc import AsyncIterator, Callable, Coroutine\n": (
        "import time\nfrom collections.abc import Callable, Iterator\n"
    ),
    "from typing import Any, Concatenate,": "from typing import Concatenate,",
    "def _method(\n"
    "    plan_for: Callable[Parameters, Plan[Result]],\n"
    ") -> Callable[Concatenate[AsyncClient, Parameters], Coroutine[Any, Any, Result]]:\n": (
        "def _method(plan_for: Callable[Parameters, Plan[Result]]) -> "
        "Callable[Concatenate[Client, Parameters], Result]:\n"
    ),
    "    def events(\n"
    "        self, session_id: str | None = None, *, after: str | None = None, patience: float = 30.0\n"
    "    ) -> AsyncEventStream:\n": (
        "    def events(self, session_id: str | None = None, *, after: str | None = None, patience: float = 30.0) -> "
        "EventStream:\n"
    ),
    "                async for event in self._events_of(response):\n                    yield event\n": (
        "                yield from self._events_of(response)\n"
    ),
    "asyncio.sleep": "time.sleep",
}
WORDS = {
    r"\bawait ": "",
    r"\basync (?=def|for|with)": "",
    r"(?<!`)\bAsync(?=Client|EventStream|Iterator)": "",
    r"\b__a(?=enter__|exit__|iter__|next__)": "__",
    r"\banext\(": "next(",
    r"\.a(?=close\(|read\()": ".",
}


def blocking(source: str) -> str:
    """The blocking twin of `source`; ValueError where a rule has nothing to change any more."""
    for text, other in TEXTS.items():
        if text not in source:
            raise ValueError(f"{SOURCE.name} does not have {text!r} any more; mend the rules of this file")
        source = source.replace(text, other)
    for word, other in WORDS.items():
        source = re.sub(word, other, source)
    return source


if __name__ == "__main__":
    MADE.write_text(blocking(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
