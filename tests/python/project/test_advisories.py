"""What `make advisories` finds, lets pass, and says where nobody answers."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import check_advisories as check
from tools import pypa, rustsec

TODAY = datetime.date(2026, 11, 22)


def put(path: Path, says: object, code: int = 0, complains: str = "") -> Path:
    """A client of a registry, and what it says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".said").write_text(says if isinstance(says, str) else json.dumps(says))
    path.write_text(f"#!/bin/sh\n/bin/cat '{path.with_suffix('.said')}'\necho '{complains}' >&2\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing on PATH but what a test puts into `bin`; the day is `TODAY`."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("HITL_ADVISORY_DB", raising=False)
    monkeypatch.setattr(check, "FETCHED", tmp_path / "fetched")
    monkeypatch.setattr(check, "IGNORED", tmp_path / "advisories.toml")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "today", lambda: TODAY)
    (tmp_path / "ui").mkdir()
    (tmp_path / "advisories.toml").write_text("ignore = []")
    return tmp_path


# -- crates -----------------------------------------------------------------------------------------------------------


def project_of(folder: Path, crate: str, version: str) -> Path:
    """A project with one dependency."""
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "lib.rs").touch()
    (folder / "Cargo.toml").write_text(
        f'[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n{crate} = "1"\n'
    )
    (folder / "Cargo.lock").write_text(
        f"""version = 4
[[package]]
name = "{crate}"
version = "{version}"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "{"0" * 64}"

[[package]]
name = "p"
version = "0.1.0"
dependencies = ["{crate}"]
"""
    )
    return folder


@pytest.mark.parametrize("is_withdrawn", [True, False])
def test_cargo_tells_which_crates_were_withdrawn(tmp_path: Path, is_withdrawn: bool) -> None:
    """The real cargo, with a registry in a folder: its words may change with a release."""
    project = project_of(tmp_path / "p", "gone", "1.0.0")
    index = tmp_path / "registry" / "index" / "go" / "ne" / "gone"
    index.parent.mkdir(parents=True)
    released = {"name": "gone", "vers": "1.0.0", "deps": [], "features": {}, "cksum": "0" * 64}
    index.write_text(json.dumps({**released, "yanked": is_withdrawn}))
    (project / ".cargo").mkdir()
    (project / ".cargo" / "config.toml").write_text(
        f'[source.crates-io]\nreplace-with = "here"\n[source.here]\nlocal-registry = "{tmp_path / "registry"}"\n'
    )
    looked = check.yanked_crates(project)
    assert looked.at == 1
    assert [finding.id for finding in looked.findings] == ["yanked:gone@1.0.0"] * is_withdrawn


def test_a_registry_that_is_not_there_is_no_answer(machine: Path) -> None:
    put(machine / "bin" / "cargo", "", code=101, complains="failed to query the registry")
    with pytest.raises(check.NotAnsweredError, match="failed to query"):
        check.yanked_crates(project_of(machine / "p", "gone", "1.0.0"))


def advisory(database: Path, crate: str, versions: str, **about: str) -> None:
    number = len(list(database.glob("crates/*/*"))) + 1
    folder = database / "crates" / crate
    folder.mkdir(parents=True, exist_ok=True)
    identity = f"RUSTSEC-2026-{number:04}"
    lines = [f'{key} = "{value}"' for key, value in {"id": identity, "date": "2026-11-20", **about}.items()]
    text = "\n".join(["[advisory]", *lines, "[versions]", versions])
    (folder / f"{identity}.md").write_text(f"```toml\n{text}\n```\n\n# It goes wrong\n\nBadly.\n")


def test_crates_are_looked_up_in_a_copy_of_rustsec(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = machine / "database"
    advisory(database, "shaky", 'patched = [">= 1.2.0"]')
    advisory(database, "shaky", 'patched = [">= 1.1.0"]')
    advisory(database, "shaky", "patched = []", withdrawn="2026-11-21")
    advisory(database, "shaky", "patched = []", informational="unmaintained")
    advisory(database, "other", "patched = []")
    monkeypatch.setenv("HITL_ADVISORY_DB", str(database))
    looked = check.rustsec_crates(project_of(machine / "p", "shaky", "1.1.3"))
    told = [(finding.id, finding.title, finding.is_mere_note) for finding in looked.findings]
    assert told == [("RUSTSEC-2026-0001", "It goes wrong", False), ("RUSTSEC-2026-0004", "It goes wrong", True)]
    assert looked.beside == ""


def test_an_old_copy_says_how_old_it_is(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advisory(machine / "database", "other", "patched = []", date="2026-10-01")
    monkeypatch.setenv("HITL_ADVISORY_DB", str(machine / "database"))
    looked = check.rustsec_crates(project_of(machine / "p", "fine", "1.0.0"))
    assert looked.beside == "WARNING: the copy is 52 days old, its newest advisory is of 2026-10-01"


def test_where_git_reaches_nobody_the_copy_from_before_is_taken_or_what_is_kept(machine: Path) -> None:
    put(machine / "bin" / "git", "", code=128, complains="fatal: unable to access")
    assert check.rustsec_database() == rustsec.KEPT
    advisory(machine / "fetched", "other", "patched = []")
    (machine / "fetched" / ".git").mkdir()
    assert check.rustsec_database() == machine / "fetched"


def test_what_is_kept_of_a_checkout_answers_as_it_does(machine: Path) -> None:
    database, file = machine / "database", machine / "kept.json"
    advisory(database, "shaky", 'patched = [">= 1.2.0"]\nunaffected = ["< 1.0.0"]')
    advisory(database, "shaky", "patched = []", withdrawn="2026-11-21")
    advisory(database, "shaky", "patched = []", informational="unmaintained", date="2026-11-21")
    rustsec.keep(database, file)
    for version in ("0.9.0", "1.1.3", "1.2.0"):
        told = list(rustsec.advisories(database, "shaky", version))
        assert told == list(rustsec.advisories(file, "shaky", version))
        assert len(told) == (2 if version == "1.1.3" else 1)
    assert rustsec.newest(file) == rustsec.newest(database) == "2026-11-21"


def test_what_this_project_keeps_is_the_whole_database() -> None:
    assert (rustsec.newest(rustsec.KEPT) or "") >= "2026-08-20"
    assert sum(len(told) for told in rustsec.entries(rustsec.KEPT).values()) > 900
    assert [one.id for one in rustsec.advisories(rustsec.KEPT, "time", "0.1.42")] == ["RUSTSEC-2020-0071"]


def test_a_folder_without_advisories_is_no_answer(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HITL_ADVISORY_DB", str(machine))
    with pytest.raises(check.NotAnsweredError, match="holds no advisories"):
        check.rustsec_crates(project_of(machine / "p", "fine", "1.0.0"))


@pytest.mark.parametrize(
    ("version", "requirement", "holds"),
    [
        ("1.2.3", ">= 1.2.3", True),
        ("1.2.3", "> 1.2.3", False),
        ("1.10.0", ">= 1.9", True),
        ("0.9.5", ">= 0.9.3, < 0.10.0", True),
        ("0.10.0", ">= 0.9.3, < 0.10.0", False),
        ("0.3.9", "^0.3.1", True),
        ("0.3.9", "^ 0.3.1", True),
        ("0.4.0", "^0.3.1", False),
        ("0.0.4", "^0.0.3", False),
        ("1.9.0", "^1.2.3", True),
        ("2.0.0", "1.2.3", False),
        ("1.2.9", "~1.2.3", True),
        ("1.3.0", "~1.2.3", False),
        ("1.2.3", "= 1.2.3", True),
        ("1.2.3", "<=1.2.2", False),
        ("0.3.0-rc.1", ">= 0.3.0", False),
        ("0.3.0-rc.10", ">= 0.3.0-rc.2", True),
        ("0.3.0-rc.1", "< 0.3.0-rc.1.1", True),
        ("1.0.0-1", "< 1.0.0-alpha", True),
        ("1.4.0+build", ">= 1.4.0", True),
    ],
)
def test_versions_are_compared_as_cargo_does(version: str, requirement: str, holds: bool) -> None:
    assert rustsec.matches(version, requirement) is holds


@pytest.mark.parametrize("requirement", ["", "latest", ">= 1.x", "1.2.3 or so"])
def test_what_is_no_requirement_is_an_error_and_not_safe(requirement: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        rustsec.matches("1.0.0", requirement)


# -- Python and npm ---------------------------------------------------------------------------------------------------


def audits(machine: Path, monkeypatch: pytest.MonkeyPatch, says: object, complains: str = "") -> None:
    """Any module that this Python would run says this."""
    fake = put(machine / "python", says, code=1, complains=complains)
    monkeypatch.setattr(sys, "executable", str(fake))


def test_packages_of_python_are_audited(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shaky = {"name": "shaky", "version": "1.0", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": []}]}
    others = [{"name": "fine", "version": "2", "vulns": []}, {"name": "own", "skip_reason": "not found"}]
    audits(machine, monkeypatch, {"dependencies": [shaky, *others]})
    looked = check.audited_pythons()
    assert [str(finding) for finding in looked.findings] == ["shaky 1.0: PYSEC-1, CVE-1"]
    assert (looked.at, looked.beside) == (2, "nothing is told of 1 others")


@pytest.mark.parametrize(
    ("says", "reason"),
    [("", "connection refused"), ({"dependencies": [{"name": "own", "skip_reason": "not found"}]}, "tells of none")],
)
def test_where_no_registry_tells_what_is_kept_is_asked(
    machine: Path, monkeypatch: pytest.MonkeyPatch, says: object, reason: str
) -> None:
    audits(machine, monkeypatch, says, complains="connection refused")
    monkeypatch.setattr(check, "pins", lambda: ["Shaky.Name==1.1", "fine==1", "unheard-of==1"])
    monkeypatch.setattr(pypa, "KEPT", machine / "pypa.json")
    pypa.keep(pypa_checkout(machine / "database"), ["shaky_name", "fine"], pypa.KEPT)
    looked = check.audited_pythons()
    assert [str(finding) for finding in looked.findings] == ["Shaky.Name 1.1: PYSEC-1, CVE-1 GHSA-1"]
    assert looked.at == 2
    assert reason in looked.beside
    assert "it does not know 1 others; WARNING: the copy is 52 days old" in looked.beside
    assert looked.is_old


def pypa_checkout(database: Path) -> Path:
    """Four advisories on one package: on two ranges, on single versions, on a range that ends with its last one, and
    one that was withdrawn."""
    folder = database / "vulns" / "shaky-name"
    folder.mkdir(parents=True)
    events = [{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "1.1"}, {"fixed": "1.2.post1"}]
    told: list[tuple[dict[str, object], dict[str, str]]] = [
        ({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}, {"type": "ECOSYSTEM", "events": events}]}, {}),
        ({"versions": ["2.0", "2.0.1"]}, {}),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "3.0"}, {"last_affected": "3.1"}]}]}, {}),
        ({"versions": ["1.1"]}, {"withdrawn": "2026-10-02T00:00:00Z"}),
    ]
    for number, (affected, beside) in enumerate(told, start=1):
        about = {"id": f"PYSEC-{number}", "published": "2026-10-01T00:00:00Z", "aliases": ["CVE-1", "GHSA-1"], **beside}
        affected["package"] = {"ecosystem": "PyPI", "name": "Shaky_Name"}
        # JSON is YAML.
        (folder / f"PYSEC-{number}.yaml").write_text(json.dumps({**about, "affected": [affected]}))
    return database


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("0.1", ["PYSEC-1"]),
        ("1.0", []),
        ("1.1rc1", []),
        ("1.1", ["PYSEC-1"]),
        ("1.2", ["PYSEC-1"]),
        ("1.2.post1", []),
        ("2.0.0", ["PYSEC-2"]),
        ("2.1", []),
        ("3.1", ["PYSEC-3"]),
        ("3.1.1", []),
    ],
)
def test_versions_of_python_lie_in_the_ranges_that_an_advisory_names(
    machine: Path, version: str, found: list[str]
) -> None:
    database = pypa_checkout(machine / "database")
    pypa.keep(database, ["shaky-name"], machine / "pypa.json")
    for asked in (database, machine / "pypa.json"):
        assert [advisory.id for advisory in pypa.advisories(asked, "shaky.name", version)] == found


def test_an_event_of_another_kind_is_an_error_and_not_safe() -> None:
    with pytest.raises(ValueError, match="another kind"):
        pypa.is_affected("1.0", {"id": "PYSEC-1", "events": [{"limit": "2.0"}]})


def test_what_this_project_keeps_tells_of_packages_it_uses() -> None:
    assert [one.id for one in pypa.advisories(pypa.KEPT, "aiohttp", "3.7.3")].count("PYSEC-2021-76") == 1
    assert (pypa.newest(pypa.KEPT) or "") >= "2024-10-08"


def test_pip_tells_what_was_withdrawn(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata: dict[str, Any] = {"metadata": {"name": "gone", "version": "1"}}

    def pip(command: list[str]) -> Any:
        Path(command[command.index("--report") + 1]).write_text(
            json.dumps({"install": [{**metadata, "is_yanked": True}, {**metadata, "is_yanked": False}]})
        )
        return check.subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(check, "run", pip)
    looked = check.yanked_pythons()
    assert (looked.at, [finding.id for finding in looked.findings]) == (2, ["yanked:gone@1"])


def test_packages_of_npm_are_audited(machine: Path) -> None:
    told = {"name": "shaky", "title": "It goes wrong", "url": "https://advisories.example/GHSA-1", "range": "<2"}
    packages = {"shaky": {"via": [told]}, "uses-it": {"via": ["shaky"]}, "too": {"via": [told]}}
    said = {"auditReportVersion": 2, "vulnerabilities": packages, "metadata": {"dependencies": {"total": 7}}}
    put(machine / "bin" / "npm", said, code=1)
    looked = check.audited_npm()
    assert (looked.at, [str(finding) for finding in looked.findings]) == (7, ["shaky: GHSA-1, It goes wrong"])


@pytest.mark.parametrize("says", [{"message": "405 Method Not Allowed"}, "no JSON"])
def test_nor_is_a_mirror_of_npm_without_them(machine: Path, says: object) -> None:
    with pytest.raises(check.NotAnsweredError, match="there is no npm"):
        check.audited_npm()
    put(machine / "bin" / "npm", says, code=1, complains="it failed")
    with pytest.raises(check.NotAnsweredError, match=r"405|it failed"):
        check.audited_npm()


# -- what comes of it -------------------------------------------------------------------------------------------------


def outcome(monkeypatch: pytest.MonkeyPatch, findings: list[check.Finding] | None, *arguments: str) -> int:
    """The exit code, where one source says this; None is no answer."""

    def look() -> check.Looked:
        if findings is None:
            raise check.NotAnsweredError("nobody is there")
        return check.Looked(3, findings)

    monkeypatch.setattr(check, "SOURCES", {"some": look})
    return check.main(list(arguments))


SHAKY = check.Finding("shaky 1", "RUSTSEC-2026-0001", "It goes wrong")


def test_a_finding_fails_it(machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(monkeypatch, []) == 0
    assert outcome(monkeypatch, [SHAKY]) == 1
    assert "FAILED: shaky 1: RUSTSEC-2026-0001, It goes wrong" in capsys.readouterr().err


def test_a_note_does_not(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(monkeypatch, [check.Finding("old 1", "RUSTSEC-2026-0002", "", is_mere_note=True)]) == 0


def test_silence_is_said_and_fails_a_release_alone(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(monkeypatch, None) == 0
    assert "some: NOT CHECKED: nobody is there" in capsys.readouterr().out
    assert outcome(monkeypatch, None, "--strict") == 1


def test_so_does_a_copy_that_is_old(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SOURCES", {"some": lambda: check.Looked(3, [], is_old=True)})
    assert [check.main([]), check.main(["--strict"])] == [0, 1]


@pytest.mark.parametrize(("until", "code"), [("2026-11-23", 0), ("2026-11-22", 1), ("2025-01-01", 1)])
def test_what_is_ignored_is_so_until_its_date(
    machine: Path, monkeypatch: pytest.MonkeyPatch, until: str, code: int
) -> None:
    entry = f'[[ignore]]\nid = "RUSTSEC-2026-0001"\nreason = "only on Windows"\nuntil = {until}'
    (machine / "advisories.toml").write_text(entry)
    assert outcome(monkeypatch, [SHAKY]) == code


@pytest.mark.parametrize("left_out", ["reason", "until", "id"])
def test_without_a_reason_or_a_date_nothing_is_ignored(machine: Path, left_out: str) -> None:
    lines = {"id": 'id = "RUSTSEC-2026-0001"', "reason": 'reason = "only on Windows"', "until": "until = 2027-01-01"}
    del lines[left_out]
    (machine / "advisories.toml").write_text("[[ignore]]\n" + "\n".join(lines.values()))
    with pytest.raises(ValueError, match="needs an id, a reason"):
        check.ignored()


def test_the_list_of_the_project_can_be_read() -> None:
    check.ignored()
