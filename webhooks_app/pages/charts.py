"""Geometry of charts: plain values that templates render as SVG.

Charts carry classes only; the style sheet has the colours of the light and the dark theme. Each page also shows the
numbers of its charts as a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from django.http import HttpRequest
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..maintenance.rollups.reading import Counters, Point, Series, Window
from ..models import Delivery
from ..models.rollup import OUTCOMES
from .display import grouped

WIDTH, HEIGHT = 640, 180
SPARK_WIDTH, SPARK_HEIGHT = 96, 24
TOP, RIGHT, BOTTOM = 10, 8, 24
CHARACTER = 12
"""Greatest width of a digit of the axis, whose text is larger on narrow screens."""
MAX_BARS = 30
"""Most bars with a link: more would be too narrow to click, and too many for the Tab key."""
GAP = 0.2
"""Share of a step between its bar and the next one."""

TITLES = {
    Window.HOUR: _("Last hour"),
    Window.DAY: _("Last 24 hours"),
    Window.WEEK: _("Last 7 days"),
    Window.MONTH: _("Last 30 days"),
}

SHARES = {"p50": 0.5, "p95": 0.95}
"""Percentiles drawn as lines."""

DATE, TO_THE_MINUTE = "Y-m-d", "Y-m-d H:i"
"""Formats of days and steps, the same in every language, as those of all times."""

DAY_AND_MONTH = "j M"
"""Format of the days on an axis, which has no room for the year."""

TIME_FORMATS = {Window.HOUR: "H:i", Window.DAY: "H:i"}
"""Format of a step's label; windows longer than a day show the date."""


IS_LABELLED: Mapping[Window, Callable[[datetime, datetime], bool]] = {
    Window.HOUR: lambda start, last: start.minute % 10 == 0,
    Window.DAY: lambda start, last: start.hour % 4 == 0,
    Window.WEEK: lambda start, last: start.hour == 0 and (last.date() - start.date()).days % 2 == 0,
    Window.MONTH: lambda start, last: (last.date() - start.date()).days % 5 == 0,
}
"""Whether the axis has a label at the start of a step, so that labels are round and their distances equal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    at: float
    label: str
    edge: Literal["", "first", "last"] = ""
    """Whether the label begins at the left edge or ends at the right one, since its middle is too close to it."""


class Shape(NamedTuple):
    """All bars of one outcome as a single SVG path, which is much smaller than one element per bar."""

    name: str
    path: str
    """A vertical line for each bar."""
    width: float
    """Width of the lines."""


class Bar(NamedTuple):
    """A link to the deliveries of one or more steps."""

    x: float
    width: float
    url: str
    label: str


ListUrl = Callable[..., str]
"""Returns the URL of the list of deliveries for filters by name."""


class Step(NamedTuple):
    """A row of the table below the charts; "" where nothing was measured."""

    start: str
    succeeded_at_once: int
    succeeded_later: int
    given_up: int
    p50_ms: str
    p95_ms: str


Percentiles = Mapping[str, Sequence[float | None]]
"""Milliseconds of each step by the name of the line; None where nothing was measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    name: str
    paths: Sequence[str]
    """SVG points of each stretch without a gap."""
    dots: Sequence[tuple[float, float]]
    """The points between two gaps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """Axes of a chart."""

    times: Sequence[Tick]
    values: Sequence[Tick]
    left: int
    zero: float
    """Height of the axis: what was given up is drawn below it."""
    width: int = WIDTH
    height: int = HEIGHT
    right: int = WIDTH - RIGHT
    floor: int = HEIGHT - BOTTOM


def window_of(request: HttpRequest) -> Window:
    """Return the window of the query; one day by default or if the value is unknown."""
    return {window.value: window for window in Window}.get(request.GET.get("window"), Window.DAY)


def windows(current: Window | None, among: Iterable[Window] = TITLES) -> list[tuple[str, Any, bool]]:
    """Return a choice for each window: value, title, and True for the current one."""
    return [(each.value, TITLES[each], each is current) for each in among]


def shown(series: Series, window: Window, url: ListUrl) -> dict[str, Any]:
    """Return the context of ``parts/windows.html`` and ``parts/charts.html``: no chart if nothing was delivered."""
    if not series.total.attempts:
        return {"windows": windows(window)}
    measured = percentiles(series)
    outcomes_frame, shapes = outcomes(series, window)
    times_frame, lines = response_times(series, window, measured)
    return {
        "windows": windows(window),
        "outcomes_frame": outcomes_frame,
        "shapes": shapes,
        "bars": list(_bars(series, outcomes_frame, url)),
        "times_frame": times_frame,
        "lines": lines,
        "steps": list(_steps(series, window, measured)),
    }


def outcomes(series: Series, window: Window) -> tuple[Frame, Sequence[Shape]]:
    """Return a stacked bar for each step: succeeded at once and after retries, and given up below the axis."""
    above, below = _highest(series)
    half = ceiling(max(above, below)) / 2
    up, down = max(1, math.ceil(above / half)), math.ceil(below / half)
    unit = (HEIGHT - BOTTOM - TOP) / (up + down) / half
    marks = {_round(TOP + (up - number) * half * unit): abs(number) * half for number in range(-down, up + 1)}
    frame = _frame(series, window, marks, zero=TOP + up * half * unit)
    return frame, _stacked(series, left=frame.left, right=frame.right, zero=frame.zero, unit=unit)


def _highest(series: Series) -> tuple[int, int]:
    """Return the most deliveries that succeeded, and the most that were given up, in one step."""
    found = [point.counters for point in series.points]
    return max(each.succeeded for each in found), max(each.given_up for each in found)


def _bars(series: Series, frame: Frame, url: ListUrl) -> Iterator[Bar]:
    """Yield the links of the bars with finished deliveries. They lead to just these deliveries."""
    number = len(series.points)
    step, every = timedelta(seconds=series.step_seconds), -(-number // MAX_BARS)
    width = (frame.right - frame.left) / number
    for first in range(0, number, every):
        points = series.points[first : first + every]
        succeeded = sum(point.counters.succeeded for point in points)
        given_up = sum(point.counters.given_up for point in points)
        if not succeeded + given_up:
            continue
        start, end = (timezone.localtime(at) for at in (points[0].start, points[-1].start + step))
        label = gettext("%(start)s to %(end)s: %(succeeded)d delivered, %(given_up)d given up") % {
            "start": formats.date_format(start, TO_THE_MINUTE),
            "end": formats.date_format(end, "H:i" if start.date() == end.date() else TO_THE_MINUTE),
            "succeeded": succeeded,
            "given_up": given_up,
        }
        since, until = (at.isoformat(timespec="seconds") for at in (start, end))  # an hour of autumn occurs twice
        # No delivery is finished before its creation: the list begins at the end of the bar.
        times = {"finished_after": since, "finished_before": until, "created_before": until}
        listed = url(**times, kind=Delivery.Kind.EVENT, state=Delivery.COMPLETED)
        yield Bar(_round(frame.left + first * width), _round(len(points) * width), listed, label)


def numbers_of(total: Counters) -> str:
    """Return the outcomes in words."""
    numbers = {"succeeded": total.succeeded, "given_up": total.given_up}
    return gettext("%(succeeded)d delivered, %(given_up)d given up") % numbers


def sparkline(series: Series) -> Sequence[Shape]:
    """Return the outcomes as a chart without axes, scaled to the highest bars."""
    above, below = _highest(series)
    unit = SPARK_HEIGHT / max(1, above + below)
    return _stacked(series, left=0, right=SPARK_WIDTH, zero=above * unit, unit=unit)


def coarse(series: Series) -> Series:
    """Return the series in longer steps, few enough for a small chart."""
    size = -(-len(series.points) // MAX_BARS)
    parts = [series.points[first : first + size] for first in range(0, len(series.points), size)]
    totals = [Series(points=part, step_seconds=series.step_seconds).total for part in parts]
    points = [Point(start=part[0].start, counters=total) for part, total in zip(parts, totals, strict=True)]
    return Series(points=points, step_seconds=size * series.step_seconds, as_of=series.as_of)


def spark(name: str, values: Sequence[float | None]) -> Shape:
    """Return one figure as a chart without axes, scaled to the highest bar."""
    step, most = SPARK_WIDTH / len(values), max((value or 0 for value in values), default=0)
    drawn = [
        f"M{_round((number + 0.5) * step)} {SPARK_HEIGHT}v-{_round(value / most * SPARK_HEIGHT)}"
        for number, value in enumerate(values)
        if value
    ]
    return Shape(name, "".join(drawn), _round(step * (1 - GAP)))


def small(shapes: Iterable[Shape], *, name: str = "") -> SafeString:
    """Return a chart without axes as SVG. Without a name it only decorates a figure."""
    drawn = format_html_join("", '<path class="{}" d="{}" stroke-width="{}"/>', shapes)
    named = format_html('role="img" aria-label="{}"><title>{}</title>', name, name)
    start = format_html(
        '<svg class="webhooks-course" viewBox="0 0 {} {}" preserveAspectRatio="none"', SPARK_WIDTH, SPARK_HEIGHT
    )
    return format_html("{} {}{}</svg>", start, named if name else mark_safe('aria-hidden="true">'), drawn)


def _stacked(series: Series, *, left: float, right: float, zero: float, unit: float) -> Sequence[Shape]:
    """Return the outcomes of each step as bars: successes on the axis, and what was given up below it."""
    step = (right - left) / len(series.points)
    parts: dict[str, list[str]] = {name: [] for name in OUTCOMES}
    for number, point in enumerate(series.points):
        x, y = _round(left + (number + 0.5) * step), zero
        for name in OUTCOMES:
            if height := point.counters[name] * unit:
                start, y = (zero, zero + height) if name == "given_up" else (y, y - height)
                parts[name].append(f"M{x} {_round(start)}V{_round(y)}")
    return [Shape(name, "".join(drawn), _round(step * (1 - GAP))) for name, drawn in parts.items() if drawn]


def percentiles(series: Series) -> Percentiles:
    """Return the median and the 95th percentile of the response times."""
    histograms = [point.counters.response_times for point in series.points]
    return {name: [each.percentile(share) for each in histograms] for name, share in SHARES.items()}


def response_times(series: Series, window: Window, measured: Percentiles) -> tuple[Frame, Sequence[Line]]:
    """Return a line for each percentile, in milliseconds; none if no receiver answered."""
    most = ceiling(max((value for line in measured.values() for value in line if value is not None), default=0))
    floor = HEIGHT - BOTTOM
    marks = {_round(floor - share * (floor - TOP)): share * most for share in (0, 0.5, 1)}
    frame = _frame(series, window, marks, zero=floor)
    step = (frame.right - frame.left) / len(series.points)
    lines = []
    for name, line in measured.items():
        paths: list[list[tuple[float, float]]] = [[]]
        for number, value in enumerate(line):
            if value is None:
                paths.append([])
                continue
            x, y = frame.left + (number + 0.5) * step, frame.floor - value / most * (frame.floor - TOP)
            paths[-1].append((_round(x), _round(y)))
        drawn = [" ".join(f"{x},{y}" for x, y in path) for path in paths if len(path) > 1]
        lines.append(Line(name=name, paths=drawn, dots=[path[0] for path in paths if len(path) == 1]))
    return frame, [line for line in lines if line.paths or line.dots]


def _steps(series: Series, window: Window, measured: Percentiles) -> Iterator[Step]:
    layout = DATE if window is Window.MONTH else TO_THE_MINUTE
    for point, p50_ms, p95_ms in zip(series.points, measured["p50"], measured["p95"], strict=True):
        at_once, later, given_up = (point.counters[name] for name in OUTCOMES)
        start = formats.date_format(timezone.localtime(point.start), layout)
        yield Step(start, at_once, later, given_up, _milliseconds(p50_ms), _milliseconds(p95_ms))


def _milliseconds(value: float | None) -> str:
    return "" if value is None else grouped(math.floor(value + 0.5))


def ceiling(most: float) -> float:
    """Return the upper end of an axis: 2, 4 or 10 times a power of ten, so that its middle is whole."""
    if most <= 2:
        return 2
    power = 10 ** math.floor(math.log10(most))
    return next(float(power * factor) for factor in (1, 2, 4, 10) if power * factor >= most)


def _frame(series: Series, window: Window, marks: Mapping[float, float], *, zero: float) -> Frame:
    """Return the axes with a value at each of these heights."""
    values = [Tick(at=at, label=grouped(value)) for at, value in marks.items()]
    left = CHARACTER * (1 + max(len(tick.label) for tick in values))
    step = (WIDTH - RIGHT - left) / len(series.points)
    starts = [timezone.localtime(point.start) for point in series.points]
    middle = 0.5 if window is Window.MONTH else 0  # a bar of a day has its date below it, others begin at a time
    times = [
        _tick(left + (number + middle) * step, formats.date_format(start, TIME_FORMATS.get(window, DAY_AND_MONTH)))
        for number, start in enumerate(starts)
        if IS_LABELLED[window](start, starts[-1])
    ]
    return Frame(times=times, values=values, left=left, zero=_round(zero))


def _tick(at: float, label: str) -> Tick:
    half = len(label) * CHARACTER / 2
    return Tick(at=_round(at), label=label, edge="first" if at < half else "last" if at + half > WIDTH else "")


def _round(value: float) -> float:
    return round(value, 1)
