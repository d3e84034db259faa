"""hitl/driver/code_version.py: which code an application has imported."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hitl.driver.code_version import code_version
from hitl.driver.shapes import LoadedAgent
from hitl.worker.loading import load_agent
from tests.python.support.imported import forget

AGENT = "async def agent(message, state):\n    return message, state\n"
Application = Callable[..., LoadedAgent]


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """Writes modules into a new directory, imports them there as the only ones, and loads ``app:agent``."""
    directories = 0

    def make(**sources: str) -> LoadedAgent:
        nonlocal directories
        directories += 1
        directory = tmp_path / str(directories)
        for name, source in {"app": AGENT, **sources}.items():
            path = directory / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        forget(tmp_path)
        monkeypatch.chdir(directory)
        monkeypatch.syspath_prepend(str(directory))
        return load_agent("app:agent")

    yield make
    forget(tmp_path)


def test_it_is_the_same_for_the_same_sources_wherever_they_are(application: Application) -> None:
    versions = {code_version(application(helper="X = 1\n", app=f"import helper\n{AGENT}")) for _ in range(2)}
    (version,) = versions
    assert len(version) == 16
    assert int(version, 16) >= 0


def test_every_imported_module_counts_and_no_other(application: Application) -> None:
    app = f"import helper\n{AGENT}"
    first = code_version(application(app=app, helper="X = 1\n", unused="X = 1\n"))
    assert code_version(application(app=app, helper="X = 1\n", unused="X = 2\n")) == first
    assert code_version(application(app=app, helper="X = 2\n", unused="X = 1\n")) != first
    assert code_version(application(app=f"import other\n{AGENT}", other="X = 1\n")) != first


def test_packages_do_not_count(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = "venv__lib__site-packages__thing"
    app = f"import sys; sys.path.insert(0, 'venv/lib/site-packages'); import thing\n{AGENT}"
    monkeypatch.setattr(sys, "path", list(sys.path))
    versions = {code_version(application(app=app, **{folder: f"X = {number}\n"})) for number in range(2)}
    assert len(versions) == 1


def test_the_package_that_the_agent_is_in_counts_where_it_is_installed_too(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(**numbers: int) -> str:
        """The version of an agent in an installed package, beside another one that it imports."""
        agent = f"import other, shop.prices, sys\n{AGENT}"
        sources = {f"shop__{name}": f"X = {number}\n" for name, number in numbers.items() if name != "other"}
        sources |= {"shop__agents": agent, "other": f"X = {numbers['other']}\n"}
        application(**{f"venv__lib__site-packages__{name}": source for name, source in sources.items()})
        monkeypatch.syspath_prepend(str(Path.cwd() / "venv/lib/site-packages"))
        del sys.modules["app"]
        return code_version(load_agent("shop.agents:agent"))

    first = installed(prices=1, unused=1, other=1)
    assert first != hashlib.sha256().hexdigest()[:16]
    assert installed(prices=1, unused=2, other=2) == first
    assert installed(prices=2, unused=1, other=1) != first


def test_directories_named_to_the_worker_count(
    application: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = application(helper="X = 1\n", app=f"import helper\n{AGENT}")
    inside = code_version(agent)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    outside = code_version(agent)
    assert outside != inside
    assert code_version(agent, [str(tmp_path)]) != outside


def test_an_example_of_hitl_is_an_application_too(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody upgrades hitl with a conversation of `hitl demo` open."""
    other = code_version(application())
    agent = load_agent("hitl.examples.shop:agent")
    version = code_version(agent)
    assert version not in (other, hashlib.sha256().hexdigest()[:16])
    changed = Path("shop.py")
    changed.write_text("X = 1\n")
    monkeypatch.setattr(sys.modules["hitl.examples.shop"], "__file__", str(changed.resolve()))
    assert code_version(agent) != version


def test_the_author_has_the_last_word(application: Application) -> None:
    agent = application(app=f"import hitl\n@hitl.agent(version='2026-11')\n{AGENT}")
    assert code_version(agent) == "2026-11"


def test_odd_entries_of_sys_modules_do_no_harm(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("do not look at me")

    agent = application()
    version = code_version(agent)
    monkeypatch.setitem(sys.modules, "lazy", Lazy())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "nothing", None)  # type: ignore[arg-type]
    assert code_version(agent) == version
