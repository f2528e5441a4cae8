"""Retry policies of tests, by dotted path."""

from __future__ import annotations

from webhooks_app.retry import DelaysPolicy, ExtendedPolicy

NEVER = f"{__name__}.Never"
ONCE = f"{__name__}.Once"
QUICK = f"{__name__}.Quick"
MINUTE = f"{__name__}.Minute"
FAULTS = f"{__name__}.Faults"
POISON = f"{__name__}.Poison"
TWO = f"{__name__}.Two"
SHORT_EXTENDED = f"{__name__}.ShortExtended"
EXTENDED = "short-extended"


class Never(DelaysPolicy):
    name = "never"


class Quick(DelaysPolicy):
    name = "quick"
    delays_seconds = (0.01, 0.01, 0.01)


class Minute(DelaysPolicy):
    name = "minute"
    delays_seconds = (60,)


class Faults(DelaysPolicy):
    """The policy of the specification, with a shorter last delay."""

    name = "faults"
    delays_seconds = (1, 5, 6)


class Poison(DelaysPolicy):
    name = "poison"
    delays_seconds = (1, 2, 3)


class Two(DelaysPolicy):
    name = "two"
    delays_seconds = (2, 7.5)


class Once(DelaysPolicy):
    name = "once"
    delays_seconds = (0.2,)


class ShortExtended(ExtendedPolicy):
    """The extended policy in half a minute, with its ten attempts and its jitter."""

    name = EXTENDED
    delays_seconds = (0.5, 1, 1, 2, 2, 3, 3, 4, 4)
