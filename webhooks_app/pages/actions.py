"""What people can do to webhooks, deliveries, replays, problems and API keys, and what every page says about it.

The console, the customers' pages, the API and the commands read these tables. They decide only how an action looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ..exceptions import WebhookStateError
from ..models.fields import translated
from ..models.webhook_settings import SettingsSection
from ..operations import actions, api_keys, lifecycle, problems, replays, rotation, sending
from ..operations.actions import STEPS_OF_REPLAYS, RowAction
from ..operations.rights import Right
from .confirmations import cancelled_with, ended, held, last_uses, missed, released

__all__ = ["API_KEY", "DELIVERY", "PROBLEM", "REPLAY", "WEBHOOK", "WEBHOOK_AND_MISSED", "Button", "UserAction"]


class Button(NamedTuple):
    """A button for an action on the page of a row."""

    label: Any
    url: str
    is_destructive: bool = False
    runs_at_once: bool = False
    """Whether the page of the row is already the confirmation."""
    is_main: bool = False
    """Whether it stands out, as the one action that helps."""


def _nothing(rows: Sequence[Any]) -> list[str]:
    return []


@dataclass(frozen=True, kw_only=True, slots=True)
class UserAction:
    """An action with its words. One with a form of its own has no operation."""

    rule: RowAction
    label: Any
    operation: Callable[..., Any] | None = None
    question: Any = ""
    """A lazy text, of several rows with a plural by ``number``."""
    done: Any = ""
    """What is said afterwards, and written into the console's history."""
    consequences: Callable[[Sequence[Any]], list[str]] = _nothing
    """Return sentences about what the action does to rows, for its confirmation."""
    asks_reason: bool = False
    is_destructive: bool = False
    meaning: str = ""
    """The API's documentation: a sentence, and what else to know. Empty for an action without a route of its kind."""
    sends: bool = False
    """Whether it sends a request at once, so that the limits of such requests apply."""
    place: str = ""
    """Of an action on a webhook: a section of its settings, "end" for their end, or "deliveries". Customers have its
    button there, and at the head of the page while it is the remedy. Empty for an action only at the head, or with a
    page of its own."""

    @property
    def right(self) -> Right:
        return self.rule.right

    def is_for(self, row: Any) -> bool:
        """Return True if the state of a row permits the action."""
        return self.rule.refusal(row) is None

    def refusal(self, row: Any) -> str:
        """Return the reason why the state of a row does not permit the action, translated; "" if it does."""
        error: WebhookStateError | None = self.rule.refusal(row)
        return "" if error is None else str(translated(str(error)))

    def asked_of(self, number: int) -> str:
        return str(self.question % {"number": number})


WEBHOOK: Mapping[str, UserAction] = {
    "send_test": UserAction(
        rule=actions.SEND_TEST,
        label=_("Send a test event"),
        question=_("Choose the test event. It is recorded as a test, and no other webhook receives it."),
        sends=True,
    ),
    "verify": UserAction(
        rule=actions.VERIFY,
        label=_("Verify"),
        place=SettingsSection.WHERE,
        operation=lifecycle.start_verification,
        question=ngettext_lazy(
            "Verify this webhook? Its URL, or its new URL, must return a challenge.",
            "Verify these %(number)d webhooks? Their URLs, or their new URLs, must return a challenge.",
            "number",
        ),
        done=_("Started the verification."),
        meaning="Verify a webhook that is not active, or its `pending_url`.\n\nIt must return a challenge. An earlier "
        "verification no longer counts. An active webhook without a `pending_url` is verified already (409).",
        sends=True,
    ),
    "pause": UserAction(
        rule=actions.PAUSE,
        label=_("Pause"),
        place=SettingsSection.HOW,
        operation=lifecycle.pause,
        question=ngettext_lazy(
            "Pause this webhook? Events queue up and are sent when you resume.",
            "Pause these %(number)d webhooks? Events queue up and are sent when you resume.",
            "number",
        ),
        done=_("Paused the webhook."),
        consequences=held,
        asks_reason=True,
        meaning="Pause a webhook.\n\nPending deliveries and all new events are held until it is resumed; requests in "
        "flight finish. A webhook that is already paused does not change.",
    ),
    "resume": UserAction(
        rule=actions.RESUME,
        label=_("Resume"),
        place=SettingsSection.HOW,
        operation=lifecycle.resume,
        question=ngettext_lazy(
            "Resume this webhook? Held deliveries are sent first.",
            "Resume these %(number)d webhooks? Held deliveries are sent first.",
            "number",
        ),
        done=_("Resumed the webhook."),
        consequences=released,
        meaning="Resume a paused webhook.\n\nThe held deliveries are sent, the longest due first. A webhook that is "
        "not paused does not change.",
    ),
    "enable": UserAction(
        rule=actions.ENABLE,
        label=_("Enable"),
        place="end",
        operation=lifecycle.enable,
        question=ngettext_lazy(
            "Enable and verify this webhook? No events are sent to it until the verification succeeds.",
            "Enable and verify these %(number)d webhooks? No events are sent to them until their verification "
            "succeeds.",
            "number",
        ),
        done=_("Enabled the webhook, and started its verification."),
        meaning="Enable a disabled webhook.\n\nIt is verified first. An active or pending webhook does not change.",
        sends=True,
    ),
    "disable": UserAction(
        rule=actions.DISABLE,
        label=_("Disable"),
        place="end",
        operation=lifecycle.disable,
        question=ngettext_lazy(
            "Disable this webhook? Nothing is sent to it until it is enabled and verified again.",
            "Disable these %(number)d webhooks? Nothing is sent to them until they are enabled and verified again.",
            "number",
        ),
        done=_("Disabled the webhook."),
        consequences=ended,
        asks_reason=True,
        is_destructive=True,
        meaning="Disable a webhook.\n\nPending deliveries are cancelled. A webhook that is already disabled does not "
        "change.",
    ),
    "rotate_secret": UserAction(
        rule=actions.REPLACE_SECRET,
        label=_("Rotate the secret"),
        place=SettingsSection.SECURITY,
        question=_("Create a new secret? It is shown only once. While it is prepared, the old one signs as before."),
    ),
    "activate_secret": UserAction(
        rule=actions.USE_PREPARED_SECRET,
        label=_("Activate the new secret"),
        place=SettingsSection.SECURITY,
        operation=rotation.activate_prepared_keys,
        question=ngettext_lazy(
            "Activate the new secret of this webhook now? A receiver that reads only X-Webhook-Signature refuses "
            "requests until it has the new secret.",
            "Activate the new secrets of these %(number)d webhooks now? Receivers that read only X-Webhook-Signature "
            "refuse requests until they have the new secrets.",
            "number",
        ),
        done=_("Activated the new secret."),
        meaning="Activate a prepared secret now.\n\nIt signs all further attempts, and the replaced one for its "
        "overlap. Without a prepared one, nothing changes.",
    ),
    "withdraw_secret": UserAction(
        rule=actions.USE_PREPARED_SECRET,
        label=_("Withdraw the new secret"),
        place=SettingsSection.SECURITY,
        operation=rotation.withdraw_prepared_keys,
        question=ngettext_lazy(
            "Withdraw the new secret of this webhook? The old one goes on signing.",
            "Withdraw the new secrets of these %(number)d webhooks? The old ones go on signing.",
            "number",
        ),
        done=_("Withdrew the new secret."),
        is_destructive=True,
        meaning="Withdraw a prepared secret.\n\nThe current one goes on signing. Without a prepared one, nothing "
        "changes.",
    ),
    "revoke_previous_secret": UserAction(
        rule=actions.REVOKE_PREVIOUS_SECRET,
        label=_("Expire the old secret now"),
        place=SettingsSection.SECURITY,
        operation=rotation.revoke_previous_keys,
        question=ngettext_lazy(
            "Expire the old secret of this webhook now? Requests are no longer signed with it.",
            "Expire the old secrets of these %(number)d webhooks now? Requests are no longer signed with them.",
            "number",
        ),
        done=_("Expired the old secret."),
        is_destructive=True,
        meaning="End the overlap of a rotation at once.\n\nAll further attempts are signed with the current key only. "
        "Without an overlap, nothing changes.",
    ),
    "replay_missed": UserAction(rule=actions.RECOVER, label=_("Replay events"), place="deliveries"),
    "delete": UserAction(
        rule=actions.REMOVE_WEBHOOK,
        label=_("Delete"),
        place="end",
        operation=lifecycle.delete,
        question=ngettext_lazy(
            "Delete this webhook for good? The log of its deliveries is kept until its retention ends.",
            "Delete these %(number)d webhooks for good? The logs of their deliveries are kept until their retention "
            "ends.",
            "number",
        ),
        done=_("Deleted the webhook."),
        consequences=ended,
        asks_reason=True,
        is_destructive=True,
    ),
}

WEBHOOK_AND_MISSED: Mapping[str, UserAction] = {
    **WEBHOOK,
    "send_missed": UserAction(
        rule=actions.SEND_MISSED,
        label=_("Send missed events"),
        operation=replays.send_missed,
        question=ngettext_lazy(
            "Send the missed events to this webhook? Each is sent once, in addition to new events.",
            "Send the missed events to these %(number)d webhooks? Each is sent once, in addition to new events.",
            "number",
        ),
        consequences=missed,
    ),
}
"""The same with the action whose only button is beside the number of missed events."""

DELIVERY: Mapping[str, UserAction] = {
    "retry": UserAction(
        rule=actions.RETRY,
        label=_("Retry now"),
        operation=sending.retry,
        question=ngettext_lazy(
            "Make the next attempt of this delivery now? It counts as one of its attempts.",
            "Make the next attempt of these %(number)d deliveries now? It counts as one of their attempts.",
            "number",
        ),
        done=_("The next attempt is due now."),
        meaning="Make the next attempt of a pending delivery now.\n\nIt is one of the delivery's attempts, and the "
        "retries after it follow the same schedule. The limits of the webhook apply; `hold` in the answer says what "
        "the attempt waits for. A delivery that is finished, in flight, or held by something else than its time, such "
        "as a pause, is refused (409). One that is due does not change.",
        sends=True,
    ),
    "redeliver": UserAction(
        rule=actions.SEND_AGAIN,
        label=_("Redeliver"),
        operation=sending.redeliver,
        question=ngettext_lazy(
            "Send this event again, as a new delivery?",
            "Send these %(number)d events again, each as a new delivery?",
            "number",
        ),
        done=_("Redelivered the event."),
        meaning="Redeliver the event of a finished delivery.\n\nThis creates a new delivery of the same event, with "
        "the same bytes and its own attempts. A pending delivery is refused (409), because the receiver would get the "
        "event from both: retry it instead.",
        sends=True,
    ),
}

REPLAY: Mapping[str, UserAction] = {
    "start": UserAction(
        rule=STEPS_OF_REPLAYS["start"],
        label=_("Start"),
        operation=replays.start,
        question=ngettext_lazy(
            "Send the events found? Each is sent once, in addition to new events.",
            "Send the events found by these %(number)d replays? Each is sent once, in addition to new events.",
            "number",
        ),
        done=_("Started the replay."),
        meaning="Start a replay that is ready.\n\nWorkers queue each event once, at the rate of the replay, and leave "
        "room for live traffic.",
    ),
    "pause": UserAction(
        rule=STEPS_OF_REPLAYS["pause"],
        label=_("Pause"),
        operation=replays.pause,
        question=ngettext_lazy(
            "Pause this replay? Deliveries already queued are still sent.",
            "Pause these %(number)d replays? Deliveries already queued are still sent.",
            "number",
        ),
        done=_("Paused the replay."),
        meaning="Pause a running replay.\n\nEvents that are already queued are still sent.",
    ),
    "resume": UserAction(
        rule=STEPS_OF_REPLAYS["resume"],
        label=_("Resume"),
        operation=replays.resume,
        question=ngettext_lazy(
            "Resume this replay? Events that it has already sent are not sent again.",
            "Resume these %(number)d replays? Events that they have already sent are not sent again.",
            "number",
        ),
        done=_("Resumed the replay."),
        meaning="Resume a replay that was paused, or stopped together with its webhook.",
    ),
    "cancel": UserAction(
        rule=STEPS_OF_REPLAYS["cancel"],
        label=_("Cancel the replay"),
        operation=replays.cancel,
        question=ngettext_lazy(
            "Cancel this replay for good? It sends nothing more.",
            "Cancel these %(number)d replays for good? They send nothing more.",
            "number",
        ),
        done=_("Cancelled the replay."),
        consequences=cancelled_with,
        asks_reason=True,
        is_destructive=True,
        meaning="Cancel a replay permanently.\n\nIts queued deliveries are cancelled, except those in flight.",
    ),
}

PROBLEM: Mapping[str, UserAction] = {
    "acknowledge": UserAction(
        rule=actions.ACKNOWLEDGE,
        label=_("Acknowledge"),
        operation=problems.acknowledge,
        question=ngettext_lazy(
            "Mark this problem as known until it is resolved?",
            "Mark these %(number)d problems as known until they are resolved?",
            "number",
        ),
        done=_("Acknowledged the problem."),
    ),
    "ignore": UserAction(
        rule=actions.IGNORE,
        label=_("Ignore"),
        operation=problems.ignore,
        question=ngettext_lazy(
            "Ignore this problem from now on? Its failures are counted, but do not open it again.",
            "Ignore these %(number)d problems from now on? Their failures are counted, but do not open them again.",
            "number",
        ),
        done=_("Ignored the problem."),
    ),
    "reopen": UserAction(
        rule=actions.REOPEN,
        label=_("Reopen"),
        operation=problems.reopen,
        question=ngettext_lazy("Open this problem again?", "Open these %(number)d problems again?", "number"),
        done=_("Reopened the problem."),
    ),
}

API_KEY: Mapping[str, UserAction] = {
    "revoke": UserAction(
        rule=actions.REVOKE_KEY,
        label=_("Revoke"),
        operation=api_keys.revoke_key,
        question=ngettext_lazy(
            "Revoke this key? Requests with it are refused from now on. This cannot be undone.",
            "Revoke these %(number)d keys? Requests with them are refused from now on. This cannot be undone.",
            "number",
        ),
        done=_("Revoked the key."),
        consequences=last_uses,
        asks_reason=True,
        is_destructive=True,
    ),
    "delete": UserAction(
        rule=actions.REMOVE_KEY,
        label=_("Delete"),
        operation=api_keys.delete_key,
        question=ngettext_lazy(
            "Delete this key? Requests with it are refused from now on, and only the audit log remembers it.",
            "Delete these %(number)d keys? Requests with them are refused from now on, and only the audit log "
            "remembers them.",
            "number",
        ),
        done=_("Deleted the key."),
        consequences=last_uses,
        asks_reason=True,
        is_destructive=True,
    ),
}
