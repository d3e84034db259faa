"""`hitl audit`: taken out of a real server and of its file, and checked, whole and spoilt."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from hitl.cli import exit_codes
from tests.python.cli.conftest import Run
from tests.python.support.api import Json, ok
from tests.python.support.served import Served

KEY = "ada:" + "k" * 40


@dataclass(frozen=True)
class Audited:
    """A server that has asked and been answered, and its file."""

    url: str
    store: Path
    rows: list[Json]

    @property
    def at(self) -> list[str]:
        return ["--url", self.url, "--api-key", KEY.partition(":")[2]]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    path = tmp_path_factory.mktemp("audited") / "hitl.db"
    with Served("playbook", isolation="task", store=f"sqlite:{path}", api_key=KEY.partition(":")[2]) as served:
        api = served.api
        for answer in ({"text": 'Üb"er\n'}, None, 7):
            session_id, interrupt_id = api.ask({"type": "question", "about": "x"})
            api.interrupt(interrupt_id)
            ok(api.resume(session_id, interrupt_id, answer))
            api.wait(session_id)
        yield Audited(served.url, path, ok(api.get("/audit", limit=1000)))


def expected_hash(row: Json) -> str:
    """As docs/audit.md says it, without any code of hitl."""
    rest = {name: value for name, value in row.items() if name not in ("prev", "hash")}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256((row["prev"] + text).encode()).hexdigest()


def line_of(row: Json) -> str:
    """As docs/audit.md says it, too."""
    return json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def head_of(row: Json) -> str:
    return f"{row['seq']}:{row['hash']}"


def test_a_row_is_hashed_as_the_documents_say(audited: Audited) -> None:
    assert [row["action"] for row in audited.rows] == ["asked", "seen", "decided"] * 3
    prev = "0" * 64
    for row in audited.rows:
        assert (row["prev"], row["hash"]) == (prev, expected_hash(row))
        prev = row["hash"]
    assert {row["address"] for row in audited.rows if row["actor"]} == {"127.0.0.1"}


def test_a_server_and_its_file_export_the_same(audited: Audited, hitl: Run, tmp_path: Path) -> None:
    served = hitl("audit", "export", *audited.at)
    assert served.returncode == 0, served.stderr
    assert served.stdout.splitlines() == [line_of(row) for row in audited.rows]
    assert head_of(audited.rows[-1]) in served.stderr
    file = tmp_path / "audit.jsonl"
    stored = hitl("audit", "export", "--store", f"sqlite:{audited.store}", "--output", str(file))
    assert (stored.returncode, stored.stdout) == (0, ""), stored.stderr
    assert file.read_text(encoding="utf-8") == served.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_what_cannot_be_written_is_told_and_leaves_nothing(audited: Audited, hitl: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    refused = hitl("audit", "export", "--store", f"sqlite:{audited.store}", "--output", str(tmp_path / "taken"))
    assert (refused.returncode, refused.stdout) == (exit_codes.RUNTIME, "")
    assert "error: cannot write" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("directory", [".", "/"])
def test_a_directory_is_no_file(audited: Audited, hitl: Run, directory: str) -> None:
    refused = hitl("audit", "export", "--store", f"sqlite:{audited.store}", "--output", directory)
    assert (refused.returncode, refused.stdout) == (exit_codes.RUNTIME, "")
    assert f"error: cannot write {directory}: " in refused.stderr


def test_a_pipe_stays_one_and_a_link_leads_to_the_file(audited: Audited, hitl: Run, tmp_path: Path) -> None:
    lines = [line_of(row) for row in audited.rows]
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    link.symlink_to(file.name)
    with ThreadPoolExecutor(1) as reader:
        # Open for writing too, so that nobody waits for a writer that never comes.
        held = os.open(pipe, os.O_RDWR)
        with pipe.open(encoding="utf-8") as opened:
            read = reader.submit(lambda: [opened.readline().rstrip("\n") for _ in lines])
            exported = hitl("audit", "export", "--store", f"sqlite:{audited.store}", "--output", str(pipe))
            os.write(held, b"\n" * len(lines))
            assert (exported.returncode, read.result()) == (0, lines), exported.stderr
        os.close(held)
    assert pipe.is_fifo()
    assert hitl("audit", "export", "--store", f"sqlite:{audited.store}", "--output", str(link)).returncode == 0
    assert link.is_symlink()
    assert file.read_text(encoding="utf-8").splitlines() == lines


def test_what_is_whole_is_verified_wherever_it_is(audited: Audited, hitl: Run, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    hitl("audit", "export", "--output", str(file), *audited.at)
    head = ["--head", head_of(audited.rows[4])]
    for source in ([str(file)], ["--store", f"sqlite:{audited.store}"], audited.at):
        verified = hitl("audit", "verify", *source, *head)
        assert verified.returncode == 0, verified.stderr
        assert f"{len(audited.rows)} rows, whole; head {head_of(audited.rows[-1])}" in verified.stdout
    piped = hitl("audit", "verify", "-", stdin=file.read_text(encoding="utf-8"))
    assert piped.returncode == 0, piped.stderr


def change(rows: list[Json]) -> None:
    rows[3]["actor"] = "bob"


def rehash(rows: list[Json]) -> None:
    rows[3]["details"]["agent"] = "another"
    rows[3]["hash"] = expected_hash(rows[3])


def leave_out(rows: list[Json]) -> None:
    del rows[3]


def cut_off(rows: list[Json]) -> None:
    del rows[3:]


def forge(rows: list[Json]) -> None:
    """All of it anew from the changed row on."""
    rows[3]["details"]["agent"] = "another"
    for before, row in pairwise(rows[2:]):
        row["prev"] = before["hash"]
        row["hash"] = expected_hash(row)


@pytest.mark.parametrize(
    ("spoil", "says", "takes_head"),
    [
        (change, "row 4 was changed", False),
        (rehash, "row 5 does not follow", False),
        (leave_out, "row 4 is missing", False),
        (cut_off, "rows are missing at the end", True),
        (forge, "row 9 is another than the one that was written down", True),
    ],
)
def test_what_is_spoilt_is_told(
    audited: Audited, hitl: Run, spoil: Callable[[list[Json]], None], says: str, takes_head: bool
) -> None:
    rows = json.loads(json.dumps(audited.rows))
    spoil(rows)
    lines = "".join(f"{line_of(row)}\n" for row in rows)
    with_head = hitl("audit", "verify", "-", "--head", head_of(audited.rows[-1]), stdin=lines)
    assert with_head.returncode == exit_codes.RUNTIME
    assert says in with_head.stderr
    without = hitl("audit", "verify", "-", stdin=lines)
    assert without.returncode == (0 if takes_head else exit_codes.RUNTIME)


def put_in(line: str) -> str:
    return line.replace("{", '{"resolved_by":"eve",', 1)


def double_a_detail(line: str) -> str:
    return line.replace('"resolved_by":', '"resolved_by":"eve","resolved_by":')


def double_a_deep_one(line: str) -> str:
    return line.replace('"text":', '"text":"no","text":')


def spell_the_time(line: str) -> str:
    return re.sub(r'"at":"([^"]*)Z"', r'"at":"\1+00:00"', line)


def spell_the_id(line: str) -> str:
    return re.sub(r'("session_id":)("[^"]*")', lambda found: found[1] + found[2].upper(), line)


def put_space_in(line: str) -> str:
    return line.replace(":", ": ", 1)


def turn_around(line: str) -> str:
    return json.dumps(dict(reversed(json.loads(line).items())), ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (put_in, "row 3 has a member that no row has: `resolved_by`"),
        (double_a_detail, "row 3 says two things: details.resolved_by: is there more than once"),
        (double_a_deep_one, "row 3 says two things: details.value.text: is there more than once"),
        (spell_the_time, "row 3 is not spelled as `hitl audit export` spells rows: look at `at`, byte "),
        (spell_the_id, "row 3 is not spelled as `hitl audit export` spells rows: look at `session_id`, byte "),
        (put_space_in, "row 3 is not spelled as `hitl audit export` spells rows: look at `action`, byte "),
        (turn_around, "row 3 is not spelled as `hitl audit export` spells rows: look at `action`, byte "),
    ],
)
def test_what_no_hash_binds_is_told(audited: Audited, hitl: Run, spoil: Callable[[str], str], says: str) -> None:
    lines = [line_of(row) for row in audited.rows]
    spoilt = spoil(lines[2])
    assert spoilt != lines[2]
    lines[2] = spoilt
    verified = hitl("audit", "verify", "-", "--head", head_of(audited.rows[-1]), stdin="\n".join(lines))
    assert (verified.returncode, says in verified.stderr) == (exit_codes.RUNTIME, True), verified.stderr


@pytest.mark.parametrize("name", ["release_0_1-served", "release_0_1-stored"])
def test_what_an_earlier_release_wrote_is_whole(hitl: Run, name: str) -> None:
    """Members stood in another order then, and numbers out of a server as Python writes them."""
    file = Path(__file__).parent / "audits" / f"{name}.jsonl"
    last = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
    verified = hitl("audit", "verify", str(file), "--head", head_of(last))
    assert (verified.returncode, "26 rows, whole" in verified.stdout) == (0, True), verified.stderr


def test_a_store_that_says_two_things_is_told(audited: Audited, hitl: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with sqlite3.connect(audited.store) as source, sqlite3.connect(copy) as target:
        source.backup(target)
        target.execute("DROP TRIGGER audit_is_not_changed")
        forged = """replace(details, '"resolved_by":', '"resolved_by":"eve","resolved_by":')"""
        target.execute(f"UPDATE audit SET details = {forged} WHERE seq = 3")
    copy.chmod(0o600)
    verified = hitl("audit", "verify", "--store", f"sqlite:{copy}")
    assert verified.returncode == exit_codes.RUNTIME
    assert "of row 3: resolved_by: is there more than once" in verified.stderr


def test_a_file_that_was_tampered_with_is_told(audited: Audited, hitl: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with sqlite3.connect(audited.store) as source, sqlite3.connect(copy) as target:
        source.backup(target)
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            target.execute("UPDATE audit SET actor = 'bob' WHERE seq = 2")
        target.execute("DROP TRIGGER audit_is_not_changed")
        target.execute("UPDATE audit SET actor = 'bob' WHERE seq = 2")
    copy.chmod(0o600)
    verified = hitl("audit", "verify", "--store", f"sqlite:{copy}")
    assert (verified.returncode, "row 2 was changed" in verified.stderr) == (exit_codes.RUNTIME, True), verified.stderr
    exported = hitl("audit", "export", "--store", f"sqlite:{copy}", "--output", str(tmp_path / "out"))
    assert exported.returncode == exit_codes.RUNTIME
    assert not (tmp_path / "out").exists()


def test_what_makes_no_sense_is_a_usage_error(hitl: Run, tmp_path: Path) -> None:
    for arguments in (
        ["verify", "missing.jsonl"],
        ["verify", "-", "--head", "12"],
        ["verify", "-", "--store", "sqlite:x"],
        ["verify", "--store", f"sqlite:{tmp_path / 'missing.db'}"],
    ):
        assert hitl("audit", *arguments).returncode == exit_codes.USAGE, arguments
    garbage = hitl("audit", "verify", "-", stdin="{}\n")
    assert (garbage.returncode, "no row of an audit" in garbage.stderr) == (exit_codes.RUNTIME, True)
