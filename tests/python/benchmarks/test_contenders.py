"""What becomes of what was measured: the best form of each contender, and what others took of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_contenders
from benchmarks.bench_contenders import SMOKE, TRIES, TooNoisyError, best, goals, measure_quietly, tables
from benchmarks.contenders.table import CONTENDERS, REFERENCE, Entry
from benchmarks.machine import Ticks, taken_by_others


def load(answer: float, rate: float) -> dict[str, Any]:
    times = {"p50": answer, "p95": answer, "p99": answer}
    return {"ask_ms": times, "answer_ms": times, "pairs_per_second": rate, "cpu_ms": 1.0, "client_cpu_ms": 0.0}


def contender(name: str, form: str, answer: float, rate: float, paused: bool = True) -> dict[str, Any]:
    """One that was measured once, with these figures under both loads."""
    each = {"one": load(answer, rate), "many": load(answer, rate), "taken_by_others": 0.02, "settings": f"set {form}"}
    held = {"settings": f"set {form}", "memory_each": 1024.0, "disk_each": 0.0} if paused else None
    return {"name": name, "form": form, "rounds": [each], "left_out": [0.3] if form else [], "paused": held}


MEASURED = {
    REFERENCE: contender(REFERENCE, "", 2, 800),
    "other, quick": contender("other", "quick", 4, 100),
    "other, broad": contender("other", "broad", 9, 400, paused=False),
}


def test_each_load_has_the_form_that_is_the_best_there() -> None:
    assert {name: each["form"] for name, each in best(MEASURED, "one").items()} == {REFERENCE: "", "other": "quick"}
    assert {name: each["form"] for name, each in best(MEASURED, "many").items()} == {REFERENCE: "", "other": "broad"}


def test_what_is_compared_with_us_is_the_best_form() -> None:
    one, many, forms, beside = tables(MEASURED, SMOKE)
    assert [row[0] for row in one.rows] == [REFERENCE, "other, quick"]
    assert [row[:2] for row in many.rows] == [[REFERENCE, 800], ["other, broad", 400]]
    assert [row[0] for row in forms.rows] == ["other, quick", "other, broad"]
    assert beside.rows[0][:3] == ["other", "2.00 (2.00 to 2.00)", "0.50 (0.50 to 0.50)"]
    assert "2 of 5 measurements were left out" in one.notes
    rates = {goal.what: goal.measured for goal in goals(MEASURED)}
    assert rates["other: our pairs/s, times theirs"] == 2


def test_what_others_took_is_what_was_at_work_and_is_not_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_CLK_TCK": 100}.__getitem__)
    then, now = Ticks(stolen=0, busy=100, passed=1000), Ticks(stolen=30, busy=600, passed=2000)
    assert taken_by_others(then, now, own_seconds=4.5) == pytest.approx(0.05)
    assert taken_by_others(then, now, own_seconds=6) == 0


def test_a_measurement_beside_others_is_left_out_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.5, 0.02])
    monkeypatch.setattr(bench_contenders, "measure_round", lambda *_: {"taken_by_others": next(shares)})
    size, left_out = bench_contenders.FULL, list[float]()
    assert measure_quietly(Entry("one", "module"), tmp_path, tmp_path, size, left_out) == {"taken_by_others": 0.02}
    assert left_out == [0.5]


def test_noise_is_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_contenders, "measure_round", lambda *_: {"taken_by_others": 0.5})
    left_out = list[float]()
    with pytest.raises(TooNoisyError, match=r"no figures: while one was measured, others took more than 10 %"):
        measure_quietly(Entry("one", "module"), tmp_path, tmp_path, bench_contenders.FULL, left_out)
    assert left_out == [0.5] * TRIES


def test_every_entry_has_a_title_and_every_contender_is_counted_paused_in_one_form() -> None:
    assert len({entry.title for entry in CONTENDERS}) == len(CONTENDERS)
    counted = [entry.name for entry in CONTENDERS if entry.paused]
    assert sorted(counted) == sorted({entry.name for entry in CONTENDERS})
