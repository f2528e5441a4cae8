"""The card of a webhook: its state, the cause, and the one action that helps most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..maintenance.rollups.recent import MISSED
from ..models import Delivery, Webhook, WebhookHealth
from ..models.delivery import DeliveryQuerySet
from ..models.fields import translated
from ..models.standing import FAILS, Health, Standing
from ..reasons import code_of
from . import health
from .actions import WEBHOOK
from .display import MAX_URL, DeliveryUrl, breakable, grouped, moment, until_verified
from .explanation import why

State = Delivery.State

REMEDIES: Mapping[Standing, str] = {
    Standing.UNVERIFIED: "verify",
    Standing.VERIFICATION_FAILED: "verify",
    Standing.DISABLED: "enable",
    Standing.PAUSED: "resume",
}
"""The actions that let events be sent again, by the state that prevents it."""


ADVICE: Mapping[Standing, Any] = {
    Standing.FAILING: _("Fix the receiver, then send the missed events."),
    Standing.PARTLY_FAILING: _("Fix the receiver, then send the missed events."),
    Standing.VERIFICATION_FAILED: _("Fix the receiver, then verify again."),
    Standing.DISABLED: _("No events are sent to it. Enable it once its receiver works."),
    Standing.RETRYING: _("Fix the receiver. Failed requests are repeated automatically."),
    Standing.DELAYED: _("There is nothing to do here: the service sends the events as soon as it can."),
    Standing.PAUSED: _("Events wait until somebody resumes it."),
    Standing.UNVERIFIED: _("Start the receiver, then verify."),
    Standing.UNUSED: _("Send a test event to see whether it arrives."),
    Standing.HEALTHY: _("There is nothing to do."),
}
"""What a reader should do, where the state alone tells."""


class Remedy(NamedTuple):
    action: str
    """Its name in ``WEBHOOK``, or ``send_missed``."""
    label: Any


class Section(NamedTuple):
    """A link to a section of a webhook's page."""

    label: Any
    url: str
    is_current: bool


class Fact(NamedTuple):
    label: Any
    value: Any
    url: str = ""


def remedy_of(standing: Standing, missed: int = 0, *, is_paused: bool = False, changes_url: bool = False) -> Remedy:
    """Return the action that helps a webhook most in this state, with this number of missed events.

    A paused webhook cannot be verified, and the new URL of one that ``changes_url`` can.
    """
    if (name := REMEDIES.get(standing)) is None and missed:
        text = ngettext("Send %(number)s missed event", "Send %(number)s missed events", missed)
        return Remedy("send_missed", text % {"number": grouped(missed)})
    if name is None and changes_url:
        return Remedy("verify", _("Verify the new URL"))
    name = "resume" if name == "verify" and is_paused else name or "send_test"
    return Remedy(name, WEBHOOK[name].label)


def advice_of(webhook: Webhook, standing: Standing, missed: int) -> str:
    """Return in words what a reader should do; "" if the sentences about the state say it."""
    if REMEDIES.get(standing) == "verify" and webhook.paused_at is not None:
        return gettext("It is paused. Its URL is verified once somebody resumes it.")
    if standing in (Standing.HEALTHY, Standing.UNUSED) and webhook.is_changing_url:
        return gettext("The new URL must return a challenge. Until then, events go to the old one.")
    if standing is Standing.HELD_BACK and webhook.rate_limit is None and webhook.max_in_flight is None:
        return gettext("Each event waits until the one before it is delivered or given up.")
    if standing is Standing.HELD_BACK:
        return gettext("Raise the limit in the settings if the receiver can take more.")
    if standing is Standing.DISABLED and code_of(webhook.status_reason) != "all_given_up":  # a person disabled it
        return gettext("No events are sent to it until somebody enables it.")
    if standing in FAILS and not missed:
        return gettext("Fix the receiver. Failed requests are repeated automatically.")
    return str(ADVICE.get(standing, ""))


def missed_by(webhook: Webhook, judged: Health) -> int:
    """Return the number of events known to be missed, without counting them: those of the failure, or of the day."""
    stored = WebhookHealth.of(webhook)
    return judged.given_up or (stored.recent.get(MISSED, 0) if stored else 0)


def card_of(
    webhook: Webhook,
    judged: Health,
    deliveries: DeliveryQuerySet | None,
    *,
    url: DeliveryUrl,
    listed: Callable[..., str],
) -> dict[str, Any]:
    """Return the context of the card of a webhook with this health, except the buttons.

    ``deliveries`` are those of the webhook that the viewer may see, or None for a viewer who may see none. ``listed``
    returns the URL of their list with filters.
    """
    failure, cause = _last_failure(webhook, deliveries, judged) if deliveries is not None else (None, "")
    missed, is_paused = missed_by(webhook, judged), webhook.paused_at is not None
    failures = listed(webhook_id=webhook.pk, state=State.GIVEN_UP) if deliveries is not None else ""
    return {
        "standing": judged.standing,
        "remedy": remedy_of(judged.standing, missed, is_paused=is_paused, changes_url=webhook.is_changing_url),
        "advice": advice_of(webhook, judged.standing, missed),
        "until_verified": until_verified(webhook),
        "shown_url": breakable(Truncator(webhook.url).chars(MAX_URL)),
        "status_reason": translated(webhook.status_reason) or health.why_paused(webhook),
        "cause": cause,
        "cause_url": url(failure.pk) if failure else "",
        "health_sentences": [] if judged.standing is Standing.HEALTHY else health.sentences(webhook, judged),
        "facts": [fact for fact in _facts(webhook, failures) if fact.value],
    }


def _facts(webhook: Webhook, failures: str) -> Iterator[Fact]:
    stored = WebhookHealth.of(webhook) or WebhookHealth(webhook=webhook)
    yield Fact(_("Last success"), _moment(stored.last_success_at))
    yield Fact(_("Last given up"), _moment(stored.last_given_up_at), url=failures)
    yield Fact(_("New secret is activated"), _moment(webhook.secret_activates_at))
    yield Fact(_("Old secret signs until"), _moment(webhook.previous_secret_until))


def _moment(at: Any) -> Any:
    return at and moment(at)


def _last_failure(webhook: Webhook, deliveries: DeliveryQuerySet, judged: Health) -> tuple[Delivery | None, str]:
    """Return the last delivery of an event with a failed request and its reason, if the receiver fails."""
    if judged.standing not in FAILS:
        return None, ""
    events = deliveries.filter(kind=Delivery.Kind.EVENT)
    failure = events.in_state(State.GIVEN_UP).order_by("-pk").first()
    failure = failure or events.filter(queue_entry__webhook=webhook, queue_entry__attempt__gt=0).order_by("pk").first()
    attempts = failure.shown_attempts() if failure else []  # retention may have deleted them
    return (failure, gettext("Last failure: %(why)s") % {"why": why(attempts[-1])}) if attempts else (None, "")
