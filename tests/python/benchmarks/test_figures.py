"""What the benchmarks compute: percentiles, verdicts, what processes cost, what comes over a connection."""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.__main__ import PARTS
from benchmarks.contenders.connections import Connection, Requests, drive, drive_all
from benchmarks.page import marks, write_page
from benchmarks.plot import Curve, svg
from benchmarks.processes import cpu, family, family_cpu, family_memory
from benchmarks.report import Goal, Report, Table, number, percentiles

ROOT = Path(__file__).resolve().parents[3]
BURN = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentiles([float(value) for value in range(1, 101)]) == {"p50": 50, "p95": 95, "p99": 99}
    assert percentiles([7.0]) == {"p50": 7, "p95": 7, "p99": 7}


@pytest.mark.parametrize(
    ("measured", "at_least", "verdict"),
    [
        (4.0, False, "met"),
        (5.0, False, "met"),
        (5.1, False, "missed"),
        (5.0, True, "met"),
        (4.9, True, "missed"),
        (None, False, "not measured"),
        (None, True, "not measured"),
    ],
)
def test_a_goal_is_met_missed_or_not_measured(measured: float | None, at_least: bool, verdict: str) -> None:
    assert Goal("what", 5, "ms", measured, at_least).verdict == verdict


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1.5, "1.5"), (12.34, "12.3"), (123.4, "123"), (1234.5, "1,234"), (100, "100")],
)
def test_numbers_have_three_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text


def test_the_cpu_of_a_family_has_that_of_children_that_have_ended() -> None:
    before = family_cpu(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)

    assert family_cpu(os.getpid()) - before >= 0.2


def test_a_family_is_a_process_and_everything_below_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in family(os.getpid())
        assert family_memory(child.pid) > 0
        child.communicate(b"\n")
    assert child.pid not in family(os.getpid())
    assert cpu(child.pid) == 0


def test_a_family_is_told_while_its_members_end() -> None:
    """Whoever ends between being listed and being asked for its children has none."""
    begins_and_ends = "while read _; do (sh -c : & wait); echo; done"
    with subprocess.Popen(["sh", "-c", begins_and_ends], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        for _ in range(50):
            shell.stdin.write(b"\n")
            shell.stdin.flush()
            while not select.select([shell.stdout], [], [], 0)[0]:
                assert shell.pid in family(os.getpid())
            shell.stdout.readline()


ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    b'{"n": 1}\n',
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n6\r\n{"n": \r\n',
    b"2\r\n2}\r\n0\r\n\r\n",
]
"""Three answers; two of them come in two pieces."""


class Scripted:
    """A server that sends its script, once for each connection, as fast as it is read."""

    def __init__(self, *pieces: bytes, connections: int = 1) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, args=(pieces, connections))
        self._thread.start()

    def _serve(self, pieces: tuple[bytes, ...], connections: int) -> None:
        with self._listener:
            for _ in range(connections):
                connection, _ = self._listener.accept()
                with connection:
                    for piece in pieces:
                        if piece.startswith(b"HTTP/1.1"):
                            connection.recv(65536)
                        connection.sendall(piece)
                    connection.recv(65536)

    def join(self) -> None:
        self._thread.join()


def three_requests(answers: list[object]) -> Requests[None]:
    for _ in range(3):
        answer = yield "POST", "/", {}
        answers.append(answer)


def test_answers_are_read_whole_with_a_length_without_a_body_and_in_chunks() -> None:
    server, answers = Scripted(*ANSWERS), []  # type: ignore[var-annotated]
    connection = Connection(server.url)
    drive(connection, three_requests(answers))
    connection.socket.close()
    server.join()

    assert answers == [{"n": 1}, None, {"n": 2}]


def test_many_clients_are_driven_to_their_ends() -> None:
    server, answers = Scripted(*ANSWERS, connections=3), []  # type: ignore[var-annotated]
    drive_all(server.url, [three_requests(answers) for _ in range(3)])
    server.join()

    assert len(answers) == 9


def test_a_refusal_is_an_error_that_names_the_request() -> None:
    server = Scripted(b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy")
    connection = Connection(server.url)
    with pytest.raises(RuntimeError, match="POST /: 409 busy"):
        drive(connection, three_requests([]))
    connection.socket.close()
    server.join()


CURVE = Curve("growth", "Growth & more", "sessions", "ms", {"answer": [(10, 1.5), (1_000_000, 2.5)]})


def test_a_curve_becomes_a_picture_with_a_point_for_each_measurement() -> None:
    picture = ElementTree.fromstring(svg(CURVE))

    assert picture.findtext("{*}title") == "Growth & more"
    (line,) = picture.findall("{*}polyline")
    assert len(line.attrib["points"].split()) == 2


def test_a_curve_without_points_is_refused() -> None:
    with pytest.raises(ValueError, match="growth has no points"):
        svg(Curve("growth", "Growth", "sessions", "ms"))


def test_the_page_keeps_its_words_and_other_figures_and_gets_new_ones(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    begin, end = marks("server")
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    goal = Goal("turn", 4, "ms", 3)
    tables = [Table("Turns", ["what"], [["turn"]]), Table("A server", ["what"], [["all of it"]])]
    write_page("server", Report("2026-01-02 on a machine", "A server", tables, [goal], [CURVE]), tmp_path)

    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["## A server", "### Goals: A server", "### Turns", "### Curves"]
    assert "Measured 2026-01-02 on a machine." in text
    assert "| turn | at most 4 ms | 3 ms | met |" in text
    assert "![Growth & more](images/performance/growth.svg)" in text
    assert (tmp_path / "images" / "performance" / "growth.svg").exists()


def test_a_page_without_a_place_for_a_part_is_left_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("words\n")

    with pytest.raises(ValueError, match="no place for the figures of growth"):
        write_page("growth", Report("here", "Growth"), tmp_path)
    assert page.read_text() == "words\n"


def test_the_page_of_the_documents_has_a_place_for_each_part_and_its_pictures() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()

    places = [text.index(mark) for part in PARTS for mark in marks(part)]
    assert places == sorted(places)
    pictures = re.findall(r"!\[[^]]*]\(([^)]*)\)", text)
    assert [picture for picture in pictures if not (ROOT / "docs" / picture).exists()] == []
