"""Random faults, repeatable by a seed, with a few hundred deliveries to receivers of every kind."""

from __future__ import annotations

import random
import secrets
import sys

import pytest

from .choices import KEYS
from .schedule import EVENTS_PER_SECOND, FAULTS, add_webhooks, inject_for

SECONDS = 25


@pytest.mark.timeout(300)
def test_random_faults(lab, report, pytestconfig):
    """The third retry comes after 6 s instead of 30. The rest of the schedule is as specified.

    Some webhooks have made all choices, the others none.
    """
    chosen = pytestconfig.getoption("seed")
    seed = secrets.randbelow(1_000_000) if chosen is None else chosen
    sys.stdout.write(f"--seed {seed}\n")
    add_webhooks(lab, with_choices=True)
    host = lab.start_host()
    lab.start_beat()
    lab.start_workers(2)

    number, pause_seconds = SECONDS * EVENTS_PER_SECOND, 1 / EVENTS_PER_SECOND
    host.begin(number, ending="mixed", pause_seconds=pause_seconds, until_committed=True, keys=KEYS)
    for name in inject_for(SECONDS, lab, random.Random(seed)):
        sys.stdout.write(f"{name}\n")
    lab.take_report(host)

    report(lab.settle(), name=f"random faults, --seed {seed}")


def test_every_fault_has_a_name_of_its_own():
    names = [fault.name for fault in FAULTS]

    assert len(set(names)) == len(names) >= 12
