"""The geometry of the console's charts: plain values that templates turn into SVG.

Colours, and what differs between light and dark, are the style sheet's; a chart has classes only. Beside each chart
its page puts a table with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import formats, timezone

from ..models.rollup import OUTCOMES
from ..rollups.counters import Counters, Point, Series
from ..rollups.reading import HeatRow, Window

WIDTH, HEIGHT = 640, 180
SPARK_WIDTH, SPARK_HEIGHT = 96, 24
LEFT, TOP, RIGHT, BOTTOM = 64, 10, 8, 24
MAX_TIMES = 6
GAP = 0.2
"""The share of a step that separates its bar from the next."""

DASH = 3
"""Half the length of what stands for a single point."""

SHADES = 5
"""Steps of the heat map between no failure and failures alone."""

TIME_FORMATS = {Window.HOUR: "TIME_FORMAT", Window.DAY: "TIME_FORMAT"}
"""How a step is named; by its day where a window is longer than one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rect:
    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One step: its parts from the bottom up, and its numbers."""

    start: datetime
    label: str
    rects: Sequence[Rect]
    succeeded_at_once: int
    succeeded_later: int
    given_up: int
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    name: str
    paths: Sequence[str]
    """The points of each stretch without a gap, as SVG has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """The axes of a chart."""

    times: Sequence[Tick]
    values: Sequence[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    floor: int = HEIGHT - BOTTOM


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    x: float
    width: float
    shade: int | None
    """From 0, all succeeded, to ``SHADES``, all were given up; None where nothing was decided."""
    label: str


def outcomes(series: Series, window: Window) -> tuple[Frame, Sequence[Bar]]:
    """Return a bar for each step: what succeeded at once, what after retries, and what was given up."""
    most = ceiling(max(point.counters.finished for point in series.points))
    frame = _frame(series, window, most, f"{{:{_spec(most)}}}")
    step = (frame.right - frame.left) / len(series.points)
    unit = (frame.floor - TOP) / most
    bars = [
        _bar(point, _stack(point, frame.left + number * step, step, floor=frame.floor, unit=unit), window)
        for number, point in enumerate(series.points)
    ]
    return frame, bars


def shown(series: Series, window: Window) -> dict[str, Any]:
    """Return what ``charts/charts.html`` shows of a series: nothing where nothing was delivered."""
    if not series.total.attempts:
        return {}
    outcomes_frame, bars = outcomes(series, window)
    times_frame, lines = response_times(series, window)
    return {"outcomes_frame": outcomes_frame, "bars": bars, "times_frame": times_frame, "lines": lines}


def sparkline(series: Series) -> Sequence[Rect]:
    """Return the same without axes; the highest bar is as high as there is room."""
    unit = SPARK_HEIGHT / max(1, *(point.counters.finished for point in series.points))
    step = SPARK_WIDTH / len(series.points)
    return [
        rect
        for number, point in enumerate(series.points)
        for rect in _stack(point, number * step, step, floor=SPARK_HEIGHT, unit=unit)
    ]


def _stack(point: Point, left: float, step: float, *, floor: float, unit: float) -> Sequence[Rect]:
    """Return the outcomes of a step, one on the other."""
    rects, y = [], float(floor)
    for name in OUTCOMES:
        height = point.counters[name] * unit
        y -= height
        if height:
            x, width = _round(left + GAP / 2 * step), _round(step * (1 - GAP))
            rects.append(Rect(name=name, x=x, y=_round(y), width=width, height=_round(height)))
    return rects


def _bar(point: Point, rects: Sequence[Rect], window: Window) -> Bar:
    counters = point.counters
    return Bar(
        start=point.start,
        label=_label(point.start, window),
        rects=rects,
        succeeded_at_once=counters["succeeded_at_once"],
        succeeded_later=counters["succeeded_later"],
        given_up=counters.given_up,
        p50_ms=counters.response_times.percentile(0.5),
        p95_ms=counters.response_times.percentile(0.95),
    )


def response_times(series: Series, window: Window) -> tuple[Frame, Sequence[Line]]:
    """Return the median and the 95th percentile of the answers' times, in milliseconds."""
    percentiles = {"p50": 0.5, "p95": 0.95}
    values = {
        name: [point.counters.response_times.percentile(share) for point in series.points]
        for name, share in percentiles.items()
    }
    most = ceiling(max((value for line in values.values() for value in line if value is not None), default=0))
    frame = _frame(series, window, most, "{:g}")
    step = (frame.right - frame.left) / len(series.points)
    lines = []
    for name, line in values.items():
        paths: list[list[str]] = [[]]
        for number, value in enumerate(line):
            if value is None:
                paths.append([])
                continue
            x, y = frame.left + (number + 0.5) * step, frame.floor - value / most * (frame.floor - TOP)
            paths[-1].append(f"{_round(x)},{_round(y)}")
        lines.append(Line(name=name, paths=[" ".join(_visible(path)) for path in paths if path]))
    return frame, lines


def heat_map(rows: Sequence[HeatRow], window: Window) -> list[Sequence[Cell]]:
    """Return for each webhook a cell for each step, over a width of ``WIDTH``."""
    labels: dict[datetime, str] = {}
    return [_heat_row(row, window, labels) for row in rows]


def _heat_row(row: HeatRow, window: Window, labels: dict[datetime, str]) -> Sequence[Cell]:
    """Return the cells of a webhook, and note the labels, of which those of all webhooks are the same."""
    step = WIDTH / len(row.series.points)
    cells = []
    for number, point in enumerate(row.series.points):
        if point.start not in labels:
            labels[point.start] = _label(point.start, window)
        x, width = _round(number * step), _round(step * (1 - GAP / 2))
        cells.append(Cell(x=x, width=width, shade=shade(point.counters), label=labels[point.start]))
    return cells


def shade(counters: Counters) -> int | None:
    """Return how bad a step is: 0 only where nothing was given up, ``SHADES`` only where everything was."""
    rate = counters.success_rate
    if rate is None:
        return None
    if rate in (0, 1):
        return 0 if rate else SHADES
    return 1 + int((1 - rate) * (SHADES - 1))


def ceiling(most: float) -> float:
    """Return the end of an axis: 1, 2 or 5 times a power of ten, and at least 1."""
    if most <= 1:
        return 1
    power = 10 ** math.floor(math.log10(most))
    return next(float(power * factor) for factor in (1, 2, 5, 10) if power * factor >= most)


def _frame(series: Series, window: Window, most: float, text: str) -> Frame:
    points = series.points
    step = (WIDTH - RIGHT - LEFT) / len(points)
    every = math.ceil(len(points) / MAX_TIMES)
    times = [
        Tick(at=_round(LEFT + (number + 0.5) * step), label=_label(points[number].start, window))
        for number in range(every // 2, len(points), every)
    ]
    floor = HEIGHT - BOTTOM
    values = [Tick(at=_round(floor - share * (floor - TOP)), label=text.format(share * most)) for share in (0, 0.5, 1)]
    return Frame(times=times, values=values)


def _label(start: datetime, window: Window) -> str:
    return formats.date_format(timezone.localtime(start), TIME_FORMATS.get(window, "SHORT_DATE_FORMAT"))


def _visible(path: list[str]) -> list[str]:
    """Return a stretch as it is drawn: one of a single point, which would not be seen, as a dash."""
    if len(path) > 1:
        return path
    x, y = path[0].split(",")
    return [f"{_round(float(x) - DASH)},{y}", f"{_round(float(x) + DASH)},{y}"]


def _spec(most: float) -> str:
    return "g" if most < 2 else ",.0f"


def _round(value: float) -> float:
    return round(value, 1)
