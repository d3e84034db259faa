"""Questions to people, steps, and what replays."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, assert_type
from uuid import UUID

from pydantic import BaseModel

import hitl
from hitl import (
    InterruptCancelled,
    InterruptExpired,
    InvalidAnswer,
    InvalidPayload,
    InvalidSchema,
    Parked,
    PayloadTooLarge,
    StepError,
    interrupt,
    step,
)


class Colour(BaseModel):
    hex: str


@dataclass
class Size:
    width: int


SCHEMA = {"type": "object", "properties": {"hex": {"type": "string"}}}
PAYLOAD: dict[str, Any] = {"type": "color_picker", "prompt": "Pick"}


async def asked() -> None:
    assert_type(await interrupt(PAYLOAD), Any)
    assert_type(await interrupt(PAYLOAD, response_schema=SCHEMA), Any)
    assert_type(await interrupt(PAYLOAD, response_schema=Colour), Colour)
    assert_type(await interrupt(PAYLOAD, response_schema=Size), Size)
    assert_type(await interrupt(PAYLOAD, response_schema=bool), bool)
    assert_type(await interrupt(PAYLOAD, response_schema=list[Colour]), list[Colour])
    assert_type(await interrupt(PAYLOAD, response_schema=int | None), int | None)
    assert_type(await interrupt(PAYLOAD, response_schema=Literal["yes", "no"]), Literal["yes", "no"])
    late = await interrupt(PAYLOAD, response_schema=Colour, expires_in=timedelta(days=1), on_expire=None)
    assert_type(late, Colour | None)
    assert_type(await interrupt(PAYLOAD, expires_in=60, on_expire="none"), Any)
    choice = await interrupt(
        PAYLOAD,
        type="picker",
        key="colour",
        message="Pick a colour",
        response_schema=Colour,
        metadata={"order": 7},
        approvers=["ana", "group:design"],
    )
    assert_type(choice.hex, str)


def asked_in_a_thread() -> None:
    assert_type(interrupt.sync(PAYLOAD), Any)
    assert_type(interrupt.sync(PAYLOAD, response_schema=SCHEMA, key="a"), Any)
    assert_type(interrupt.sync(PAYLOAD, response_schema=Colour, approvers=["ana"]), Colour)
    assert_type(interrupt.sync(PAYLOAD, response_schema=Colour, expires_in=5.0, on_expire="none"), Colour | str)


async def wrongly_asked() -> None:
    await interrupt("Pick")  # pyright: ignore[reportArgumentType]
    await interrupt(PAYLOAD, response_schema=3)  # pyright: ignore[reportArgumentType, reportCallIssue]
    await interrupt(PAYLOAD, kee="colour")  # pyright: ignore[reportCallIssue]
    await interrupt(PAYLOAD, expires_in="a day")  # pyright: ignore[reportArgumentType]
    text: str = await interrupt(PAYLOAD, response_schema=Colour)  # pyright: ignore[reportAssignmentType]
    colour = await interrupt(PAYLOAD, response_schema=Colour)
    print(text, colour.rgb)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


# -- steps ------------------------------------------------------------------------------------------------------------


async def fetch(day: str, limit: int = 10) -> list[int]:
    return [len(day)] * limit


def fetch_blocking(day: str) -> bytes:
    return day.encode()


@step(key="charge", once=True)
async def charge(card: str, cents: int) -> str:
    return f"{card}{cents}"


@hitl.step(retries=3, transient="raise")
def look_up(name: str) -> int:
    return len(name)


class Mail:
    @step(key="send")
    async def send(self, to: str) -> bool:
        return bool(to)


async def stepped(mail: Mail) -> None:
    assert_type(await step(fetch, "2024-01-01", limit=3), list[int])
    assert_type(await step(fetch_blocking, "2024-01-01"), bytes)
    assert_type(await charge("4111", 500), str)
    assert_type(await look_up("ana"), int)
    assert_type(await mail.send("ana"), bool)
    await step(fetch, 3)  # pyright: ignore[reportArgumentType, reportCallIssue]
    await charge("4111")  # pyright: ignore[reportCallIssue]
    await mail.send(3)  # pyright: ignore[reportArgumentType]
    step(key=3)  # pyright: ignore[reportArgumentType]


def stepped_in_a_thread(mail: Mail) -> None:
    assert_type(step.sync(fetch_blocking, "2024-01-01"), bytes)
    assert_type(step.sync(fetch, "2024-01-01"), list[int])
    assert_type(charge.sync("4111", 500), str)
    assert_type(look_up.sync("ana"), int)
    assert_type(mail.send.sync("ana"), bool)
    charge.sync("4111")  # pyright: ignore[reportCallIssue]


async def what_replays() -> None:
    assert_type(await hitl.now(), datetime)
    assert_type(await hitl.uuid(), UUID)
    assert_type(await hitl.random(), float)
    assert_type(await hitl.patched("new-prices"), bool)


def what_replays_in_a_thread() -> None:
    assert_type(hitl.now.sync(), datetime)
    assert_type(hitl.uuid.sync(), UUID)
    assert_type(hitl.random.sync(), float)
    assert_type(hitl.patched.sync("new-prices"), bool)


ERRORS: tuple[type[BaseException], ...] = (
    InterruptCancelled,
    InterruptExpired,
    InvalidAnswer,
    InvalidPayload,
    InvalidSchema,
    Parked,
    PayloadTooLarge,
    StepError,
    hitl.ReplayMismatch,
    hitl.ReplayTimeout,
    hitl.ResultNotStored,
)
