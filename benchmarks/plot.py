"""Curves as SVG, by hand: both axes logarithmic, readable on white and on black."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 700, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 200, 40, 48
STYLE = 'font-family="system-ui, sans-serif" font-size="12" fill="#888"'
COLOURS = ("#3b82d0", "#d97706", "#0f9d76", "#c2477f", "#7c6bd6")


@dataclass
class Curve:
    """`name` is that of its file; a series is its points, in order."""

    name: str
    title: str
    x: str
    y: str
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def svg(curve: Curve) -> str:
    """The picture."""
    points = [point for series in curve.series.values() for point in series if min(point) > 0]
    if not points:
        raise ValueError(f"{curve.name} has no points to draw")
    across, up = _Axis([x for x, _ in points]), _Axis([y for _, y in points])
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + inner_width * across.at(x), TOP + inner_height * (1 - up.at(y))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {STYLE}>',
        f"<title>{escape(curve.title)}</title>",
        f'<text x="{LEFT}" y="20" font-size="14">{escape(curve.title)}</text>',
    ]
    for tick in up.ticks():
        _, y = place(across.low, tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#8884"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_short(tick)}</text>')
    for tick in across.ticks():
        x, _ = place(tick, up.low)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#8884"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{_short(tick)}</text>')
    middle = LEFT + inner_width / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(curve.x)}</text>')
    turned = f"14 {TOP + inner_height / 2}"
    parts.append(f'<text transform="translate({turned}) rotate(-90)" text-anchor="middle">{escape(curve.y)}</text>')
    for index, (name, series) in enumerate(curve.series.items()):
        colour = COLOURS[index % len(COLOURS)]
        placed = [place(x, y) for x, y in series if x > 0 and y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        y = TOP + 14 + 20 * index
        parts.append(f'<circle cx="{WIDTH - RIGHT + 16}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 26}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axis:
    """From the power of ten (of y: or of two steps between) below the least to above the greatest."""

    def __init__(self, values: list[float]) -> None:
        steps = [step * 10.0**power for power in range(-9, 13) for step in (1, 2, 5)]
        self.low = max(step for step in steps if step <= min(values) * 1.0001)
        self.high = min(step for step in steps if step >= max(values) * 0.9999)
        if self.low == self.high:
            self.high = 2 * self.low
        self._steps = [step for step in steps if self.low <= step <= self.high]

    def at(self, value: float) -> float:
        """0 to 1."""
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        """At most eight or so: powers of ten where there are many."""
        if len(self._steps) <= 8:
            return self._steps
        tens = [step for step in self._steps if f"{step:e}".startswith("1.0")]
        return tens if len(tens) > 1 else self._steps


def _short(value: float) -> str:
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"
