"""The card of a webhook: its state, the cause, and the one action that helps most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..maintenance.rollups.recent import MISSED
from ..models import AuditEntry, Delivery, Webhook, WebhookHealth
from ..models.delivery import DeliveryQuerySet
from ..models.fields import translated
from ..models.hold import HoldReason, fronts_of, holds_of
from ..models.standing import FAILS, Health, Standing
from ..reasons import code_of
from . import health
from .actions import WEBHOOK
from .display import MAX_URL, DeliveryUrl, breakable, grouped, link_to_delivery, moment, until_verified
from .explanation import how_far, why

State = Delivery.State

REMEDIES: Mapping[Standing, str] = {
    Standing.UNVERIFIED: "verify",
    Standing.VERIFICATION_FAILED: "verify",
    Standing.DISABLED: "enable",
    Standing.PAUSED: "resume",
}
"""The actions that let events be sent again, by the state that prevents it."""


MAX_EXAMINED_FOR_TEST = 10
"""Number of the latest deliveries among which the card looks for a test event that arrived."""


class Advice(NamedTuple):
    """What a reader should do in a state."""

    account: Any
    staff: Any = ""
    """The words for staff, who do not run the receiver of an account; "" for the same ones."""


ADVICE: Mapping[Standing, Advice] = {
    Standing.FAILING: Advice(
        _("First fix the receiver. A test event shows whether it works. Then send the missed events."),
        _("The account must fix its receiver first. A test event shows whether it works. Then send the missed events."),
    ),
    Standing.PARTLY_FAILING: Advice(
        _("First fix the receiver. Then send the missed events."),
        _("First ask the account to fix its receiver. Then send the missed events."),
    ),
    Standing.VERIFICATION_FAILED: Advice(
        _("First fix the receiver. Then verify again."),
        _("First ask the account to fix its receiver. Then verify again."),
    ),
    Standing.DISABLED: Advice(_("No events are sent to it. Enable it once its receiver works.")),
    Standing.RETRYING: Advice(
        _("Fix the receiver. Failed requests are repeated automatically."),
        _("Ask the account to fix its receiver. Failed requests are repeated automatically."),
    ),
    Standing.SLOW: Advice(
        _("Let the receiver answer first, and process the event afterwards."),
        _("Ask the account to let its receiver answer first, and process the event afterwards."),
    ),
    Standing.DELAYED: Advice(
        _("There is nothing to do here: the service sends the events as soon as it can."),
        _("Check the workers. The events are sent as soon as one is free."),
    ),
    Standing.PAUSED: Advice(_("Events wait until somebody resumes it.")),
    Standing.UNVERIFIED: Advice(
        _("Start the receiver, then verify."), _("Ask the account to start its receiver, then verify.")
    ),
    Standing.UNUSED: Advice(_("Send a test event to see whether it arrives.")),
    Standing.HEALTHY: Advice(_("Events arrive.")),
}
"""What a reader should do, where the state alone tells."""

CALM = (Standing.HEALTHY, Standing.SLOW, Standing.DELAYED, Standing.HELD_BACK)
"""The states in which a test event is possible, but not what helps."""


class Remedy(NamedTuple):
    action: str
    """Its name in ``WEBHOOK_AND_MISSED``, or ``settings``."""
    label: Any
    is_main: bool = True
    """Whether its button stands out."""
    field: str = ""
    """The setting to change."""


class Section(NamedTuple):
    """A link to a section of a webhook's page."""

    label: Any
    url: str
    is_current: bool


class Fact(NamedTuple):
    label: Any
    value: Any
    url: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What decides about the remedy and the advice for a webhook."""

    standing: Standing
    missed: int = 0
    """The number of events known to be missed."""
    is_paused: bool = False
    changes_url: bool = False
    """Whether a new URL awaits its verification, which a pause does not prevent."""
    is_verifying: bool = False
    """Whether a verification runs, so that another one does not help."""
    answers_test: bool = False
    """Whether a test event has arrived since the last failed request."""
    is_stopped_by_person: bool = False
    """Whether a person disabled it, so that it need not be enabled."""
    limit: str = ""
    """The setting that holds back events."""
    has_front: bool = False
    """Whether others wait for one delivery, so that the retry of that one helps."""
    is_of_platform: bool = False
    for_staff: bool = False
    """Whether the reader is a member of staff, who does not run the receiver of an account."""

    @property
    def awaits_resumption(self) -> bool:
        """True if its URL cannot be verified during the pause."""
        return self.is_paused and REMEDIES.get(self.standing) == "verify"


def remedies_of(given: Circumstances) -> list[Remedy]:
    """Return the actions that help, of which at most the first stands out.

    While every request fails, a test event shows whether the receiver works again: until then, missed events would be
    missed again.
    """
    standing, name = given.standing, REMEDIES.get(given.standing)
    test = Remedy("send_test", WEBHOOK["send_test"].label, is_main=False)
    if name is None and given.missed:
        text = ngettext("Send %(number)s missed event", "Send %(number)s missed events", given.missed)
        send = Remedy("send_missed", text % {"number": grouped(given.missed)}, is_main=False)
        first, second = (test, send) if standing is Standing.FAILING and not given.answers_test else (send, test)
        return [first._replace(is_main=not given.has_front), second]
    if standing is Standing.HELD_BACK and given.limit:
        return [Remedy("settings", _("Change the limit"), field=given.limit), test]
    if name is None and given.changes_url and not given.is_verifying:
        return [Remedy("verify", _("Verify the new URL")), test]
    if given.awaits_resumption:
        name = "resume"
    elif name == "verify" and given.is_verifying:
        return [test]
    if name is None:
        return [test._replace(is_main=not given.has_front and standing not in CALM)]
    return [Remedy(name, WEBHOOK[name].label, is_main=not given.is_stopped_by_person), test]


def advice_of(given: Circumstances) -> str:
    """Return in words what the reader should do; "" if the sentences about the state say it."""
    standing = given.standing
    if given.awaits_resumption:
        return gettext("It is paused. Its URL is verified once somebody resumes it.")
    if standing is Standing.UNVERIFIED and given.is_verifying:
        return gettext("Its URL is being verified.")
    if standing in (Standing.HEALTHY, Standing.UNUSED) and given.changes_url:
        return gettext("The new URL must return a challenge. Until then, events go to the old one.")
    if standing is Standing.HELD_BACK and not given.limit:
        return gettext("Each event waits until the one before it is delivered or given up.")
    if standing is Standing.HELD_BACK:
        return gettext("Raise the limit in the settings if the receiver can take more.")
    if given.is_stopped_by_person:
        return gettext("No events are sent to it until somebody enables it.")
    is_failure = standing in FAILS and (given.has_front or not given.missed)
    if standing is Standing.FAILING and given.answers_test and not is_failure:
        return gettext("A test event has arrived. Send the missed events.")
    advice = ADVICE[Standing.RETRYING if is_failure else standing]
    is_for_staff = given.for_staff and (not given.is_of_platform or standing is Standing.DELAYED)
    return str((is_for_staff and advice.staff) or advice.account)


def is_disabled_by_person(webhook: Webhook) -> bool:
    return webhook.status == Webhook.Status.DISABLED and code_of(webhook.status_reason) != "all_given_up"


def missed_by(webhook: Webhook, judged: Health) -> int:
    """Return the number of events known to be missed, without counting them: those of the failure, or of the day."""
    stored = WebhookHealth.of(webhook)
    return judged.given_up or (stored.recent.get(MISSED, 0) if stored else 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """Who reads the card of a webhook, with the pages to which it leads."""

    deliveries: DeliveryQuerySet | None
    """The deliveries of the webhook that the reader may see; None for a reader who may see none."""
    url: DeliveryUrl
    listed: Callable[..., str]
    """Returns the URL of their list with filters."""
    name_of: Callable[[AuditEntry], str]
    """Returns the name of an actor, "" for one whose name the reader may not know."""
    is_staff: bool = False


def card_of(webhook: Webhook, judged: Health, reader: Reader) -> dict[str, Any]:
    """Return the context of the card of a webhook with this health, except the buttons."""
    deliveries, standing = reader.deliveries, judged.standing
    failure, cause = _last_failure(webhook, deliveries, judged) if deliveries is not None else (None, "")
    front = _front(webhook, deliveries, standing) if deliveries is not None else None
    limit = health.limit_of(webhook) if standing is Standing.HELD_BACK else ""
    if front and limit:  # either the limit holds back the event in front, or this one the others
        front, limit = (None, limit) if _is_limited(front) else (front, "")
    given = _circumstances(webhook, judged, reader, limit=limit, has_front=front is not None)
    stop = health.stop_of(webhook, standing)
    failures = reader.listed(webhook_id=webhook.pk, state=State.GIVEN_UP) if deliveries is not None else ""
    said = [] if standing is Standing.HEALTHY else health.sentences(webhook, judged, stop, reader.name_of, limit)
    return {
        "standing": standing,
        "remedies": remedies_of(given),
        "advice": advice_of(given),
        "until_verified": until_verified(webhook),
        "shown_url": breakable(Truncator(webhook.url).chars(MAX_URL)),
        "status_reason": translated(webhook.status_reason) or (translated(stop.reason) if stop else ""),
        "cause": cause,
        "cause_url": reader.url(failure.pk) if failure else "",
        "front": front,
        "shows_status_since": standing.began_with_status and stop is None,
        "health_sentences": [*said, *([_of_front(front, reader.url)] if front else [])],
        "facts": [fact for fact in _facts(webhook, failures) if fact.value],
    }


def _circumstances(webhook: Webhook, judged: Health, reader: Reader, *, limit: str, has_front: bool) -> Circumstances:
    missed = missed_by(webhook, judged)
    can_test = bool(missed) and judged.standing is Standing.FAILING and reader.deliveries is not None
    return Circumstances(
        standing=judged.standing,
        missed=missed,
        answers_test=can_test and _answers_test(webhook, reader.deliveries),
        is_paused=webhook.paused_at is not None,
        changes_url=webhook.is_changing_url,
        is_verifying=_is_verifying(webhook),
        is_stopped_by_person=is_disabled_by_person(webhook),
        limit=limit,
        has_front=has_front,
        is_of_platform=webhook.owner_id is None,
        for_staff=reader.is_staff,
    )


def _is_verifying(webhook: Webhook) -> bool:
    """Return True while a URL of the webhook is verified."""
    if not webhook.awaited_url or (webhook.paused_at is not None and not webhook.is_changing_url):
        return False
    return webhook.deliveries.handshakes().in_state(State.PENDING).exists()


def _front(webhook: Webhook, deliveries: DeliveryQuerySet, standing: Standing) -> Delivery | None:
    """Return the delivery for which others of an ordered webhook wait, if they wait for its next attempt."""
    if standing not in (*FAILS, Standing.HELD_BACK) or not (fronts := fronts_of(webhook)):
        return None
    found: list[Delivery] = list(deliveries.filter(pk__in=fronts, state=State.PENDING))
    return min(found, key=lambda each: (not each.attempt_count, each.pk), default=None)


def _is_limited(delivery: Delivery) -> bool:
    """Return True if only a limit of the webhook holds back a delivery."""
    (hold,) = holds_of([delivery], now=timezone.now())
    return hold is not None and hold.reason in (HoldReason.RATE_LIMITED, HoldReason.CONCURRENCY)


def _answers_test(webhook: Webhook, deliveries: Any) -> bool:
    """Return True if a test event, one of the latest deliveries, has arrived since the last failed request."""
    stored = WebhookHealth.of(webhook)
    failed_at = (stored.refused_at or stored.last_given_up_at) if stored else None
    return any(
        each.kind == Delivery.Kind.TEST
        and each.state == State.SUCCEEDED
        and each.finished_at is not None
        and (failed_at is None or each.finished_at > failed_at)
        for each in deliveries.order_by("-pk")[:MAX_EXAMINED_FOR_TEST]
    )


def _of_front(front: Delivery, url: DeliveryUrl) -> SafeString:
    text = gettext("The others wait for {delivery}.")
    link = link_to_delivery(front.pk, url, front.event_type)
    return format_html("{} {}", format_html(text, delivery=link), how_far(front, url=url))


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
