"""SIGKILL of everything that runs an agent of the common proof, and what has to be done after that, and how often."""

from __future__ import annotations

from contextlib import ExitStack

from tests.python.ext.conftest import serve
from tests.python.ext.proof import LIST, YES, A, Ledger, answer, approval_of, asked, is_at_rest, results, script
from tests.python.support.api import Json, ok
from tests.python.support.gate import Gate
from tests.python.support.waiting import eventually


def kill_and_go_on(framework: str, isolation: str, ledger: Ledger, shelf: str | None, store: str) -> None:
    """SIGKILL while one turn waits, one is in a call of its model, one in a tool and one in an approved tool.

    With ``shelf``, the URL of an MCP server, also while one waits whether it may call that, and one is in the middle of
    a call. In one isolation, for it takes a second to start, another server speaks over stdin.
    """
    before = ledger.counts
    environment: dict[str, str] = {}
    if shelf is not None:
        environment = {"SHELF": shelf, **({"DESK": "there"} if isolation == "task" else {})}
    with ExitStack() as stack:
        gates = [stack.enter_context(Gate()) for _ in range(4)]
        model, tool, gated, on_shelf = (gate.port for gate in gates)
        server = stack.enter_context(serve(framework, isolation, ledger.path, store, **environment))
        api = server.api
        waiting, _ = asked(api, script([LIST, A]), 1)
        in_approved, session = asked(api, script([("hold_gated", {"port": gated})]), 1)
        ok(api.resume(in_approved, approval_of(session, port=gated), YES))
        in_model, in_tool, in_call = api.create(), api.create(), api.create()
        api.send(in_model, script(hold_model=model))
        api.send(in_tool, script([("list_files", {"folder": "x"})], [("hold", {"port": tool})]))
        for gate in gates[:3]:
            gate.wait_for_arrival()
        of_servers: dict[str, str] = {}
        if shelf is not None:
            for name in map(str.lower, environment):
                of_servers[name], session = asked(api, of_server(name), 1)
                assert session["interrupts"][0]["tool_source"] == f"mcp:{name}"
            api.send(in_call, script([("shelf_list", {"folder": "x"})], [("shelf_hold", {"port": on_shelf})]))
            gates[3].wait_for_arrival()
        server.kill()

        server = stack.enter_context(serve(framework, isolation, ledger.path, store, **environment))
        api = server.api
        if shelf is not None:
            gates[3].wait_for_arrival()  # by whoever is connected now; for the first nobody waits any more
            gates[3].release()
            gates[3].release()
        for gate in gates[:2]:  # what was not finished, and nobody had to approve, is done again
            gate.wait_until_gone()
            gate.wait_for_arrival()
            gate.release()
        eventually(lambda: is_at_rest(api, in_approved, 1), True)
        (unknown,) = api.session(in_approved)["interrupts"]
        assert unknown["type"] == "unknown_outcome"
        outcome = {"outcome": "done", "result": "held"}
        assert results(answer(api, in_approved, unknown["interrupt_id"], outcome)) == ["held"]
        session = answer(api, waiting, approval_of(api.session(waiting), path="a"), YES)
        assert results(session) == ["files of .", "deleted a"]
        assert results(api.wait(in_model)) == []
        assert results(api.wait(in_tool)) == ["files of x", "held"]
        calls_of_the_model = 2 + 2 + 3 + 2  # that of the last is made twice: it had not come back
        done = {"list .": 1, "list x": 1, "delete a": 1, "hold gated": 1, "hold": 2}
        if shelf is not None:
            says(api.wait(in_call), "shelf has x", "shelf held")
            for name, waits in of_servers.items():
                session = answer(api, waits, approval_of(api.session(waits), path="a"), YES)
                says(session, f"{name} has .", f"{name} deleted a")
            calls_of_the_model += 3 + 2 * len(of_servers)
            done |= {"shelf list x": 1, "shelf hold": 2}
            done |= {f"{name} {what}": 1 for name in of_servers for what in ("list .", "delete a")}
        assert (told := ledger.since(before)) == {"model": calls_of_the_model, **done}, told


def of_server(name: str) -> str:
    """A message: a call that runs at once, and beside it one that has to be approved, of this server."""
    return script([(f"{name}_list", {"folder": "."}), (f"{name}_delete", {"path": "a"})])


def says(session: Json, *texts: str) -> None:
    """Its calls have come to these texts, in whatever form the framework has for what an MCP server says."""
    for result, text in zip(results(session), texts, strict=True):
        assert text in str(result)
