"""The API's conformance to its OpenAPI document, for many valid and invalid requests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.rows import emit_one, make_webhook, plan_replay
from webhooks_app.models import ApiKey, Delivery

OPTIONS = [
    *("--checks", "all"),
    *("--max-examples", "3"),
    "--generation-deterministic",
    "--continue-on-failure",
    "--no-color",
    # NUL is refused everywhere, even in unknown fields, which a schema cannot express; see test_bodies.
    *("--generation-allow-x00", "false"),
]
# Existing identifiers, so that not every answer is a 404.
CONFIG = """
[parameters]
"path.event_id" = "{event}"
"path.delivery_id" = "{delivery}"
"path.replay_id" = "{replay}"
"""


@pytest.fixture
def unlimited(settings):
    settings.WEBHOOKS_API_RATE = settings.WEBHOOKS_PROBE_RATE = ""
    settings.WEBHOOKS_TEST_RATE = settings.WEBHOOKS_VERIFICATION_RATE = ""
    settings.WEBHOOKS_MAX_WEBHOOKS_PER_OWNER = 1_000_000


@pytest.mark.timeout(920)
@pytest.mark.only_on("postgresql")
def test_the_api_conforms_to_its_openapi_document(unlimited, live_server, alice, tmp_path):
    replay = plan_replay(make_webhook(alice))
    event = emit_one(alice)
    config = CONFIG.format(event=event.id, delivery=Delivery.objects.get().id, replay=replay.id)
    Path(tmp_path, "schemathesis.toml").write_text(config)
    _, key = ApiKey.objects.make(owner=alice)
    # An endpoint that is allowed here, because schemathesis uses links in answers as URLs.
    document = f"{live_server.url.replace('localhost', '127.0.0.1')}/v1/openapi.json"

    ended = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", document),
            *("--header", f"Authorization: Bearer {key}"),
            *OPTIONS,
        ],
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": str(Path(__file__).with_name("contract_hooks.py"))},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    selected = re.search(r"(\d+) selected / (\d+) total", ended.stdout)
    assert selected
    assert selected[1] == selected[2]
