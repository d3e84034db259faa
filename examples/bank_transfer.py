"""Money that moves once, whatever is killed: `once`, an outcome that nobody knows, and an idempotency key.

    BANK_DELAY=20 python -m examples.bank
    hitl serve examples.bank_transfer:agent

Say `transfer 30000 to savings` in `hitl chat http://127.0.0.1:8000`, approve it, and `kill -9` the server while the
bank is slow. Start it again: the transfer does not run a second time. Nobody can know from here whether the money has
moved, so a person is asked, `unknown_outcome`, who looks at `http://127.0.0.1:8001/transfers`. Whoever answers
`not_done` by mistake moves nothing either, for the bank gets the same key as before.

`pay 30000 to rent` does without that person. `once=False` says that it may simply be tried again, because the bank
knows the key; kill the server there as well.

The bank is at `BANK_URL`. With OPENROUTER_API_KEY or OPENAI_API_KEY a real model drives it.
"""

from __future__ import annotations

import os
import re
from typing import Any, Literal

import httpx2

from hitl import ReActAgent, RunContext, tool
from hitl.examples.demo_model import DemoModel, Plan, choose_model, error_of

BANK = os.environ.get("BANK_URL", "http://127.0.0.1:8001")

Account = Literal["checking", "savings", "rent"]


async def move(cents: int, taker: Account, key: str | None) -> str:
    """Have the bank do it. The key is the same whenever this call runs again, and different for every other."""
    order: dict[str, Any] = {"cents": cents, "from": "checking", "to": taker}
    async with httpx2.AsyncClient(base_url=BANK, timeout=60) as bank:
        answer = await bank.post("/transfers", json=order, headers={"Idempotency-Key": str(key)})
    if answer.status_code == 409:
        raise ValueError(answer.json()["error"])
    return f"{cents} cents to {taker}, receipt {answer.raise_for_status().json()['receipt']}"


def in_euros(ctx: RunContext, args: dict[str, Any]) -> str:
    """What the person reads beside the arguments."""
    return f"{args['cents'] / 100:.2f} EUR to {args['to']}"


@tool
async def accounts() -> dict[str, int]:
    """Show what is on each account, in cents."""
    async with httpx2.AsyncClient(base_url=BANK, timeout=60) as bank:
        balances: dict[str, int] = (await bank.get("/accounts")).raise_for_status().json()
    return balances


@tool(requires_approval=True, approval_description=in_euros)
async def transfer(cents: int, to: Account, ctx: RunContext) -> str:
    """Transfer money from the checking account."""
    return await move(cents, to, ctx.idempotency_key)  # a person approved it, so it is `once`


@tool(requires_approval=True, approval_description=in_euros, once=False)
async def pay(cents: int, to: Account, ctx: RunContext) -> str:
    """Pay a bill from the checking account."""
    return await move(cents, to, ctx.idempotency_key)


# --- a model without a mind, for those who have no key: see hitl.examples.demo_model --------------------------------


def order(request: str) -> Plan:
    """`transfer 30000 to savings`, `pay 30000 to rent`."""
    found = re.search(r"(transfer|pay) (\d+) to (\w+)", request.lower())
    assert found is not None
    result = yield found[1], {"cents": int(found[2]), "to": found[3]}
    return f"I was told: {error}" if (error := error_of(result)) else f"Done: {result}."


def show(request: str) -> Plan:
    """What there is."""
    balances: dict[str, int] = yield "accounts", {}
    return ", ".join(f"{name}: {cents / 100:.2f}" for name, cents in balances.items())


OFFLINE = DemoModel(
    [(r"(transfer|pay) \d+ to \w+", order), ("account|balance|how much", show)],
    "I can: accounts, transfer CENTS to ACCOUNT, pay CENTS to ACCOUNT. Accounts are checking, savings and rent.",
)
client, model_name = choose_model(OFFLINE)
agent = ReActAgent(
    client=client,
    model_name=model_name,
    name="teller",
    system_prompt="You move money between the accounts of one person. Sums are in cents.",
    tools=[accounts, transfer, pay],
)
