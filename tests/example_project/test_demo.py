"""``make demo`` as a newcomer runs it."""

from __future__ import annotations

import pytest

from .commands import running

ALL_TYPES = 13


@pytest.mark.timeout(200)
def test_the_demo_succeeds(tmp_path):
    with running("example_project.demo", TMPDIR=str(tmp_path), NO_PROXY="*", DEMO_MOST_LATE_SECONDS="60") as demo:
        status = demo.wait(timeout=180)

    assert status == 0, demo.output
    arrived = {line.split()[4] for line in demo.lines if " ← steady" in line or " ← platform" in line}
    assert len(arrived - {"webhook.verification"}) == ALL_TYPES
    (given_up,) = [line.split() for line in demo.lines if line.split()[:2] == ["user.subscribed", "refusing"]]
    assert given_up[3] == "4"
    assert "make run" in demo.lines[-1]
    assert "\x1b" not in demo.output
    assert list(tmp_path.iterdir()) == []
