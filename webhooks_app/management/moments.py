"""Times in command-line arguments."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import datetime, time, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

UNITS = {"min": "minutes", "h": "hours", "d": "days"}


def parse_moment(text: str) -> datetime:
    """Return the time of a text: ISO 8601 (by default in the project's time zone), a day, or a span before now.

    Raises argparse.ArgumentTypeError.
    """
    try:
        if ago := re.fullmatch(r"([0-9]{1,6})(min|h|d)(?: ago)?", text, re.ASCII):
            return timezone.now() - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        moment = parse_datetime(text)
        if moment is None and (day := parse_date(text)) is not None:
            moment = datetime.combine(day, time())
        if moment is not None:
            return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    except (ValueError, OverflowError) as error:
        raise ArgumentTypeError(f"{text!r} is not a valid time: {error}") from None
    raise ArgumentTypeError(
        f"{text!r} is not a valid time. Use the form 2026-01-31T12:00, 2026-01-31, 90min, 36h or 7d."
    )
