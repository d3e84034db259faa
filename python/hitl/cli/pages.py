"""Reading lists that come in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hitl.client import Page

Item = TypeVar("Item")

LARGEST_PAGE = 1000
"""The most the server gives at once."""


def collect(fetch: Callable[[int, str | None], Page[Item]], limit: int) -> list[Item]:
    """The first `limit` items, all of them for 0.

    fetch: gets the size of a page and the cursor, and gives the page.
    """
    found: list[Item] = []
    cursor: str | None = None
    while True:
        size = LARGEST_PAGE if limit == 0 else min(LARGEST_PAGE, limit - len(found))
        page = fetch(size, cursor)
        found.extend(page.items)
        cursor = page.next_cursor
        if cursor is None or (limit and len(found) >= limit):
            return found
