"""The chart of an event's timeline: a lane for each webhook, whose marks are rows of the table behind it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from django.utils.translation import gettext

from ..models import Delivery
from .display import TONES, in_time

WIDTH, LEFT, RIGHT, TOP, LANE_HEIGHT, AXIS = 720, 200, 680, 16, 36, 24
LEAST_WIDTH = 4
MARK_ROOM, TICK_ROOM = 28, 70
"""Least distance between the labels of a lane, and between those of the axis."""

MAX_NAME = 24

State: TypeAlias = Delivery.State


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineStep:
    """A row of the table, and a mark in the chart if its time is known."""

    kind: str
    """``emitted``, ``again`` for a redelivery, ``attempt``, ``notice``, ``next`` or ``end``."""
    what: str
    at: datetime | None
    """None if the time is unknown, or hidden from the user."""
    until: datetime | None = None
    after: str = ""
    """The time since the emission."""
    sent_to: str = ""
    url: str = ""
    """The page of the delivery."""
    tone: str = "open"
    label: str = ""


class Mark(NamedTuple):
    kind: str
    tone: str
    x: float
    width: float
    label: str
    title: str

    @property
    def middle(self) -> float:
        return round(self.width / 2, 1)


class ChartLane(NamedTuple):
    y: int
    name: str
    title: str
    url: str
    tone: str
    end: float
    """The end of its line."""
    marks: Sequence[Mark]


class TimelineTick(NamedTuple):
    x: float
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    steps: Sequence[TimelineStep]
    lanes: Sequence[ChartLane]
    ticks: Sequence[TimelineTick]
    description: str
    cut_short: str
    """A note that not all webhooks are shown, or ""."""
    width: int = WIDTH
    left: int = LEFT
    top: int = TOP

    @property
    def floor(self) -> int:
        return TOP + LANE_HEIGHT * len(self.lanes)

    @property
    def height(self) -> int:
        return self.floor + AXIS


def after(at: datetime | None, began: datetime) -> str:
    return "" if at is None or at <= began else f"+{in_time(at - began)}"


def positions(moments: Collection[datetime]) -> dict[datetime, float]:
    """Return the position of each moment. Long gaps are compressed by a logarithm, so that each burst is visible."""
    ordered = sorted(moments)
    gaps = [math.log1p((later - earlier) / timedelta(seconds=1)) for earlier, later in pairwise(ordered)]
    unit = (RIGHT - LEFT) / (sum(gaps) or 1)
    x, x_of = float(LEFT), {ordered[0]: float(LEFT)}
    for moment, gap in zip(ordered[1:], gaps, strict=True):
        x += gap * unit
        x_of[moment] = x
    return x_of


def lane_of(
    number: int,
    delivery: Delivery,
    state: State,
    steps: Sequence[TimelineStep],
    x_of: Mapping[datetime, float],
    began: datetime,
) -> ChartLane:
    marks = list(_marks(steps, x_of))
    sent_to = next((step.sent_to for step in reversed(steps) if step.kind == "attempt"), delivery.webhook.url)
    return ChartLane(
        y=TOP + LANE_HEIGHT * number + LANE_HEIGHT // 2,
        name=_shortened(sent_to),
        title=f"{sent_to}: {state.label}",
        url=next((step.url for step in reversed(steps) if step.kind != "notice"), ""),
        tone=TONES[state],
        end=max((mark.x + mark.width for mark in marks), default=x_of[began]),
        marks=marks,
    )


def _marks(steps: Sequence[TimelineStep], x_of: Mapping[datetime, float]) -> Iterator[Mark]:
    """Yield a mark for each step with a time, with a label wherever there is room."""
    last = -math.inf
    for step in steps:
        if step.at is None:
            continue
        x = x_of[step.at]
        width = max(LEAST_WIDTH, x_of[step.until or step.at] - x)
        label = step.label if x + width / 2 - last >= MARK_ROOM else ""
        last = x + width / 2 if label else last
        yield Mark(step.kind, step.tone, round(x, 1), round(width, 1), label, f"{step.after} {step.what}".strip())


def _shortened(url: str) -> str:
    """Return a URL without its scheme, and without its middle if it is long."""
    text = url.partition("://")[2] or url
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME // 2]}…{text[1 - MAX_NAME // 2 :]}"


def ticks(x_of: Mapping[datetime, float], began: datetime) -> list[TimelineTick]:
    """Return the labels of the axis: the emission, and the time since then, wherever there is room."""
    shown = [TimelineTick(round(x_of[began], 1), gettext("Emitted"))]
    for moment, x in x_of.items():
        if x - shown[-1].x >= TICK_ROOM and (since := after(moment, began)):
            shown.append(TimelineTick(round(x, 1), since))
    return shown
