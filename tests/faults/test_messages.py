"""Messages of an older or newer version in the broker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ..support.waiting import wait_until
from .processes import ROOT

pytestmark = [pytest.mark.timeout(300), pytest.mark.places("postgresql-rabbitmq")]

OLD_MESSAGES = """
from tests.support.celery import app

for name, arguments, options in [
    ("deliver_due", ["dlv_1", 7], {"shard": 3}),
    ("verify_webhook", ["wh_gone"], {}),
    ("verify_webhook", ["wh_gone", "again"], {"reason": "moved"}),
    ("prune", ["dlv_1"], {"days": 3}),
]:
    app.send_task("webhooks_app." + name, arguments, options)
"""


def test_an_old_message_causes_at_most_one_log_line(lab, report):
    webhook = lab.webhook("ok")
    host = lab.start_host()
    worker = lab.start_worker()
    subprocess.run([sys.executable, "-c", OLD_MESSAGES], cwd=ROOT, env=lab.environment(), check=True)
    wait_until(lambda: worker.output.count("] succeeded in") + worker.output.count("] raised") >= 4, lab.explain)
    lab.emit(host, 5)

    report(lab.settle())
    assert len(lab.requests(webhook)) == 5
    complaints = [line for line in worker.records if "INFO" not in line]
    assert len(complaints) == 2
    assert all("Webhook wh_gone is not verified" in line for line in complaints)
    assert "Traceback" not in worker.output
