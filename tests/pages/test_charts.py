"""The geometry of charts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.template.loader import render_to_string

from webhooks_app.maintenance.rollups.reading import Counters, Point, Series, Window
from webhooks_app.pages.charts import HEIGHT, WIDTH, outcomes

DIGIT = 11.5
"""Width of a digit of DejaVu Sans, a wide font, at 18 pixels: the size on narrow screens."""
COUNTERS = Counters({"given_up": 3})
"""One digit beside the axis, which leaves the labels below it the least room at the left."""


def axes_at_every_hour(window: Window) -> Iterator[tuple[datetime, str]]:
    """Yield the axes of a chart as SVG for each hour of a day."""
    for hour in range(24):
        now = datetime(2026, 11, 28, 0, 1, tzinfo=UTC) + timedelta(hours=hour)
        points = [Point(start=start, counters=COUNTERS) for start in window.starts(now)]
        frame, _shapes = outcomes(Series(points=points, step_seconds=60), window)
        yield now, render_to_string("webhooks_app/parts/frame.svg", {"frame": frame})


@pytest.mark.parametrize("window", Window)
def test_no_label_of_the_axis_is_cut_off_at_any_hour(window: Window) -> None:
    for now, drawn in axes_at_every_hour(window):
        labels = re.findall(rf'x="([\d.]+)" y="{HEIGHT}"[^>]*>([^<]+)<', drawn)
        assert len(labels) >= 4
        for x, label in labels:
            width = len(label) * DIGIT
            start = float(x) - {"0": 0, str(WIDTH): width}.get(x, width / 2)
            assert 0 <= start <= WIDTH - width, (now, label)
