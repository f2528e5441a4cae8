"""The steps of the demo."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import requests

from example_project.processes import ProcessEndedError
from example_project.terminal import Terminal
from webhooks_app.retry import SpecificationPolicy
from webhooks_app.signatures import EVENT_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER

from .actions import Actions, MissingEventError
from .cast import Player, on_stage
from .claims import Claim, Evidence, claims
from .client import Client, UnexpectedAnswerError
from .narrator import Narrator
from .report import table
from .stage import Stage, StageError

OWNER = "amina"
PLATFORM_WEBHOOK = """
from webhooks_app import register_webhook
webhook = register_webhook(owner=None, url={url!r}, event_types={events!r}, secret={secret!r})
print(webhook.id, webhook.created_at.isoformat())
"""
GRACE_SECONDS = 3.0


def main() -> int:
    narrator = Narrator(Terminal())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    stage = Stage()
    try:
        with on_stage(narrator.received) as players, stage:
            found = list(claims(_play(narrator, stage, players)))
            return _conclude(narrator, players, found)
    except KeyboardInterrupt:
        narrator.plain("Interrupted.", "yellow")
    except (
        ProcessEndedError,
        StageError,
        UnexpectedAnswerError,
        MissingEventError,
        requests.RequestException,
    ) as error:
        narrator.plain(f"The demo failed: {error}", "red")
        for line in stage.last_lines:
            narrator.plain(f"  {line}")
    return 1


def _play(narrator: Narrator, stage: Stage, players: Mapping[str, Player]) -> Evidence:
    """Run all chapters and return the evidence."""
    narrator.chapter("Start the service with its own database, broker and port")
    client = _start(narrator, stage)
    narrator.chapter("Register webhooks and verify their URLs")
    _register(narrator, stage, client, players)
    narrator.chapter("Deliver signed events")
    actions = Actions(client=client, narrator=narrator, steady=players["steady"], platform=players["platform"])
    actions.upload_and_subscribe()
    actions.register_user()
    presentation_id = actions.make_presentation()
    actions.edit_presentation(presentation_id)
    actions.fail_presentation()
    cancelled_id = actions.cancel_presentation()
    actions.unsubscribe()
    narrator.chapter("Send a test event")
    test_event_id = _send_test(narrator, client, players["steady"])
    actions.await_event_with_id(test_event_id)
    narrator.chapter("Reject a forgery: a genuine request with one changed character")
    forgery = _forge(narrator, players["steady"])
    narrator.chapter("Retry 1 s, 5 s and 30 s after a failure")
    _wait_for_the_end(narrator, players)
    return Evidence(
        players=players,
        expected=actions.expected,
        cancelled_id=cancelled_id,
        announced_pages=actions.announced_pages,
        downloaded_pages=actions.downloaded_pages,
        test_event_id=test_event_id,
        forgery_status=forgery.status_code,
        forgery_answer=forgery.json(),
        **_ask_service(client, players),
    )


def _start(narrator: Narrator, stage: Stage) -> Client:
    with ThreadPoolExecutor() as pool:
        key = pool.submit(stage.manage, "create_api_key", OWNER, "--create-user")
        stage.wait_until_ready()
    narrator.action(f"web, worker and beat are running at {stage.base_url}")
    narrator.action(f"manage.py create_api_key {OWNER} --create-user: {key.result()[:8]}…")
    return Client(stage.base_url, key.result())


def _register(narrator: Narrator, stage: Stage, client: Client, players: Mapping[str, Player]) -> None:
    platform = players["platform"]
    narrator.action(f"register_webhook(): {platform.name}, {platform.role.character}")
    webhook_id, created = stage.manage(
        "shell", "--no-imports", "--command", PLATFORM_WEBHOOK.format(**platform.registration)
    ).split()
    platform.registered(webhook_id, datetime.fromisoformat(created))
    for player in players.values():
        if player.role.is_platforms_own:
            continue
        narrator.action(f"POST /v1/webhooks: {player.name}, {player.role.character}")
        webhook = client.post("/v1/webhooks", player.registration, expect=201)
        player.registered(webhook["id"], datetime.fromisoformat(webhook["created"]))
    _await_handshakes(client, players)


def _await_handshakes(client: Client, players: Mapping[str, Player]) -> None:
    """Wait until the verified webhooks are active. Earlier events are not sent to them."""
    for name in ("steady", "stumbling", "refusing"):
        ends_at = time.monotonic() + 30
        while client.get(f"/v1/webhooks/{players[name].webhook_id}")["status"] != "active":
            if time.monotonic() > ends_at:
                raise MissingEventError(f"{name} is not active after its handshake.")
            time.sleep(0.1)
    if not players["platform"].receiver.wait_until(lambda found: any(r.is_verification for r in found), 30):
        raise MissingEventError("The platform's webhook was not verified.")


def _send_test(narrator: Narrator, client: Client, player: Player) -> str:
    test = {"webhook_id": player.webhook_id, "event_type": "ppt.generation.completed"}
    narrator.action(f"POST /v1/webhooks/test: {test['event_type']} to {player.name}")
    return str(client.post("/v1/webhooks/test", test)["event_id"])


def _forge(narrator: Narrator, player: Player) -> requests.Response:
    genuine = player.receiver.events("ppt.generation.completed")[0]
    ours = {name.lower() for name in ("Content-Type", SIGNATURE_HEADER, TIMESTAMP_HEADER, EVENT_HEADER)}
    headers = {name: value for name, value in genuine.headers if name.lower() in ours}
    body = genuine.body.replace(b'"cost":', b'"cost":1', 1)
    narrator.action(f"an attacker repeats an event to {player.name} with a higher cost")
    answer = requests.post(player.receiver.url, data=body, headers=headers, timeout=10, proxies={"http": ""})
    narrator.result(f"{answer.status_code} {answer.text}")
    return answer


def _wait_for_the_end(narrator: Narrator, players: Mapping[str, Player]) -> None:
    """Wait until the retry schedule is over, and a little longer to detect excess requests."""
    first = players["refusing"].receiver.events("user.subscribed")[0].at
    last_due = first + SpecificationPolicy().span
    narrator.action("waiting for the third retry, which is due 30 s after the second one failed")
    with narrator.progress():
        while (remaining := (last_due - datetime.now(UTC)).total_seconds()) > -GRACE_SECONDS:
            narrator.waiting(
                f"{remaining:.0f} s until the last retry" if remaining > 0 else "no further request is expected"
            )
            time.sleep(0.25)


def _ask_service(client: Client, players: Mapping[str, Player]) -> dict[str, Any]:
    own = {name: player.webhook_id for name, player in players.items() if not player.role.is_platforms_own}
    return {
        "webhooks": {name: client.get(f"/v1/webhooks/{webhook_id}") for name, webhook_id in own.items()},
        "refused_deliveries": client.get(f"/v1/webhooks/{own['refusing']}/deliveries?kind=event")["results"],
    }


def _conclude(narrator: Narrator, players: Mapping[str, Player], found: list[Claim]) -> int:
    narrator.chapter("Requests and delays")
    narrator.plain(
        "   (late: maximum delay of the first request after its event, and of each retry after its due time)"
    )
    for line in table(one for player in players.values() for one in player.series()):
        narrator.plain(f"   {line}")
    narrator.chapter("Compare with the specification")
    for claim in found:
        narrator.check(claim.text, holds=claim.holds, found=claim.found)
    failed = [claim for claim in found if not claim.holds]
    narrator.plain()
    if failed:
        narrator.plain(f"{len(failed)} of {len(found)} checks failed.", "red", "bold")
        return 1
    narrator.plain(f"All {len(found)} checks passed.", "green", "bold")
    narrator.plain(
        "Next: `make run` starts the service with its console, http://127.0.0.1:8000/admin/, and prints the login."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
