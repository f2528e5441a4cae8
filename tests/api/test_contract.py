"""What the OpenAPI document promises, held against many requests that follow it and many that do not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.rows import emit_one, make_webhook
from webhooks_app.models import ApiKey, Delivery
from webhooks_app.replays.planning import plan_replay

OPTIONS = [
    *("--checks", "all"),
    *("--max-examples", "3"),
    "--generation-deterministic",
    "--continue-on-failure",
    "--no-color",
    # NUL is refused wherever it stands, also in fields that nothing reads, which a schema cannot say; test_bodies does.
    *("--generation-allow-x00", "false"),
]
# So that what takes an identifier gets further than to a 404.
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


@pytest.mark.timeout(420)
@pytest.mark.only_on("postgresql")
def test_the_api_does_what_its_document_says(unlimited, live_server, alice, tmp_path):
    replay = plan_replay(make_webhook(alice))
    event = emit_one(alice)
    config = CONFIG.format(event=event.id, delivery=Delivery.objects.get().id, replay=replay.id)
    Path(tmp_path, "schemathesis.toml").write_text(config)
    _, key = ApiKey.objects.make(owner=alice)
    # An address that webhooks may be sent to here: links of answers are tried as URLs.
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
        timeout=400,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    selected = re.search(r"(\d+) selected / (\d+) total", ended.stdout)
    assert selected
    assert selected[1] == selected[2]
