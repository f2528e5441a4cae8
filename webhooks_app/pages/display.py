"""Formats of all pages: JSON, times, states, results, and reasons in the current language."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django import forms
from django.conf import settings
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..models import Delivery, DeliveryAttempt, Webhook
from ..models.disclosure import UNREACHABLE
from ..models.fields import translated
from ..models.hold import SILENT, Hold, HoldReason, holds_of
from ..models.signing_key import KeyState
from ..replays.missed import Missed, delivered_instead

MAX_REASON = 80
MAX_URL = 160

DeliveryUrl = Callable[[str], str]
"""Returns the URL of the page of a delivery, by its ID."""

NO_VALUE = "\N{EN DASH}"
"""Shown where a row has no value."""

TO_THE_SECOND = "Y-m-d H:i:s T"
"""Time format of all pages, to the second, with the zone, and the same in every language."""

PARTS_OF_URL = re.compile(r"(?<=[^:/])(?=[/?&])")
PARTS_OF_TYPE = re.compile(r"(?=\.[^.]*$)")


PARTS_OF_JSON = re.compile(
    r"""(?P<name>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<text>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<value>\b(?:true|false|null)\b|-?\d[\d.eE+-]*)|[^"\w-]+|.""",
    re.DOTALL,
)
MAX_COLOURED = 10_000
"""The length in characters up to which JSON is coloured, since that doubles its size."""


class MomentInput(forms.DateTimeInput):
    """The browser's date and time input, to the second."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(attrs={"step": "1"}, format="%Y-%m-%dT%H:%M:%S")


def pretty_json(text: str) -> str:
    """Return JSON with indentation, not yet escaped for HTML."""
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False)


def coloured_json(text: str) -> SafeString:
    """Return JSON with its names, strings and other values marked for the style sheet; a long text stays unmarked."""
    if len(text) > MAX_COLOURED or not text.lstrip().startswith(("{", "[")):
        return format_html("{}", text)
    parts = (
        format_html('<span class="webhooks-json-{}">{}</span>', token.lastgroup, token[0])
        if token.lastgroup
        else token[0]
        for token in PARTS_OF_JSON.finditer(text)
    )
    return format_html_join("", "{}", ((part,) for part in parts))


def breakable(text: Any, parts: re.Pattern[str] = PARTS_OF_URL) -> SafeString:
    """Return a text with break opportunities between its parts, such as the segments of a URL, for narrow columns."""
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in parts.split(str(text))))


def until_verified(webhook: Webhook) -> SafeString | str:
    """Return words that follow the URL of a webhook while a new one is verified; "" for any other webhook."""
    return format_html(gettext("until {url} is verified"), url=_new_url(webhook)) if webhook.is_changing_url else ""


def change_of_url(webhook: Webhook) -> SafeString | str:
    """Return a sentence with both URLs of a webhook while a new one is verified; "" for any other webhook."""
    if not webhook.is_changing_url:
        return ""
    text = gettext("Events go to {url} until {new_url} is verified.")
    return format_html(text, url=breakable(Truncator(webhook.url).chars(MAX_URL)), new_url=_new_url(webhook))


def _new_url(webhook: Webhook) -> SafeString:
    return breakable(Truncator(webhook.pending_url).chars(MAX_URL))


def state_of(webhook: Webhook) -> str:
    """Return a webhook's status with its reason, and "paused" if it is."""
    status = str(webhook.get_status_display())
    if webhook.paused_at is not None:
        return f"{status}, {gettext('paused')}"
    if not webhook.status_reason:
        return status
    reason = translated(webhook.status_reason)
    short = Truncator(reason).chars(MAX_REASON)
    return format_html('<span class="webhooks-reason" title="{}">{}: {}</span>', reason, status, short)


def link_to_delivery(pk: str, url: DeliveryUrl, text: str = "") -> SafeString:
    """Return a link to the page of a delivery, with the ID or a text."""
    return format_html('<a href="{}">{}</a>', url(pk), text or pk)


def moment(at: datetime, text: str = "") -> SafeString:
    """Return a time with its zone, and its distance from now as the title; or a text, and the time as its title."""
    exact = date_format(timezone.localtime(at) if settings.USE_TZ else at, TO_THE_SECOND)
    shown, title = (text, exact) if text else (exact, distance(at))
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), title, shown)


def clock(at: datetime) -> SafeString:
    """Return the time of day, with the date unless it is today, for lists."""
    local, today = (timezone.localtime(at), timezone.localdate()) if settings.USE_TZ else (at, timezone.now().date())
    return moment(at, date_format(local, "H:i:s" if local.date() == today else "m-d H:i:s"))


def state_of_key(key: Mapping[str, Any]) -> SafeString | str:
    """Return what one of the ``public_keys`` of a webhook signs, and until when."""
    if key["state"] == KeyState.NEXT:
        return format_html(gettext("next, current from {time} on"), time=moment(key["valid_from"]))
    if key["state"] == KeyState.PREVIOUS:
        return format_html(gettext("previous, signs until {time}"), time=moment(key["valid_until"]))
    return str(KeyState.CURRENT.label)


def distance(at: datetime) -> str:
    """Return the time between now and a moment: ``3 min ago``, ``in 2 h``."""
    span = timezone.now() - at
    text = gettext("%(time)s ago") if span >= timedelta(0) else gettext("in %(time)s")
    return text % {"time": in_time(abs(span))}


def in_time(span: timedelta) -> str:
    """Return a span in the largest fitting unit: ``4 s``, ``3 min``, ``2 h``, ``5 d``."""
    seconds = max(0.0, span.total_seconds())
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    tenths = round(seconds, 1) if seconds < 10 else round(seconds)
    return f"{number_format(tenths, 0 if tenths == round(tenths) else 1)} s"


def state_and_result(delivery: Delivery, last: DeliveryAttempt | None = None) -> str:
    """Return the state of a delivery, with the result of its last attempt if that differs."""
    state = str(delivery.get_state_display())
    if not delivery.last_result or delivery.last_result == DeliveryAttempt.Result.SUCCEEDED:
        return state
    is_last = last is not None and last.result == delivery.last_result
    return f"{state}: {attempt_in_words(last) if last and is_last else result_in_words(delivery.last_result)}"


TONES = {
    Delivery.State.SUCCEEDED: "good",
    Delivery.State.GIVEN_UP: "bad",
    Delivery.State.PENDING: "late",
    Delivery.State.CANCELLED: "open",
}
"""The tone of each state, as that of a ``Standing``. A state of a later version is as one without a tone."""


def in_tone(tone: str, text: Any) -> SafeString:
    """Return the text of a state in the colour of a tone."""
    return format_html('<span class="webhooks-state webhooks-{}">{}</span>', tone, text)


def coloured(state: str, text: Any) -> SafeString:
    """Return a text in the colour of a delivery's state."""
    return in_tone(TONES.get(state, "open"), text)  # type: ignore[call-overload]


RESULTS: Mapping[str, Any] = {**dict(DeliveryAttempt.Result.choices), UNREACHABLE: _("URL not reached")}
"""The results of attempts, and the one that an owner sees in place of masked ones."""


def result_in_words(result: str) -> str:
    return str(RESULTS.get(result, result))


def cause_in_words(cause: str) -> str:
    """Return the commonest cause of failed requests: a status or the result of an attempt."""
    return gettext("status %(status)s") % {"status": cause} if cause.isdecimal() else result_in_words(cause)


def attempt_in_words(attempt: DeliveryAttempt) -> str:
    """Return the result of an attempt, with the number of a status that confirms no receipt."""
    is_told_by_status = attempt.result == DeliveryAttempt.Result.HTTP_STATUS and attempt.response_status
    return cause_in_words(str(attempt.response_status) if is_told_by_status else attempt.result)


def next_try(delivery: Delivery, hold: Hold | None, *, now: datetime, url: DeliveryUrl) -> SafeString | str:
    """Return the time of a delivery's next attempt in short form, or the reason why there is none.

    A delivery that has to be sent before is linked.
    """
    if hold is None:
        return moment(delivery.due_at or now, gettext("due"))
    if hold.reason in SILENT:
        return ""
    if hold.reason == HoldReason.NOT_DUE and hold.until is not None:
        return moment(hold.until, gettext("in %(time)s") % {"time": in_time(hold.until - now)})
    at = hold.until or hold.since
    label = str(hold.reason.label)
    if hold.reason == HoldReason.ORDERED and hold.blocker:
        return link_to_delivery(hold.blocker, url, label)
    return moment(at, label) if at else label


LISTED = ("delivery_id", "number", "url", "result", "response_status", "duration_ms", "is_masked")
"""The facts about an attempt that lists show."""


def last_attempts(deliveries: Sequence[Delivery]) -> dict[str, DeliveryAttempt]:
    """Return the last stored attempt of each delivery by ID, with the facts that lists show, for the same reader."""
    of = {delivery.pk: delivery for delivery in deliveries if delivery.attempt_count}
    # By primary keys: for a join, PostgreSQL may read all deliveries.
    last = DeliveryAttempt.objects.filter(pk__in=[(pk, each.attempt_count) for pk, each in of.items()]).order_by()
    return {each.delivery_id: each for each in attempts_with(last.values(*LISTED), of)} if of else {}


def attempts_with(rows: Iterable[Mapping[str, Any]], of: Mapping[str, Delivery]) -> Iterator[DeliveryAttempt]:
    """Yield attempts that have only these facts, as the reader of their deliveries may see them."""
    for facts in rows:
        attempt = DeliveryAttempt(**facts)
        attempt.delivery = of[attempt.delivery_id]
        if attempt.delivery.is_for_owner:
            attempt.show_to_owner()
        yield attempt


def sent_to(deliveries: Sequence[Delivery]) -> dict[str, str]:
    """Return the URL of each delivery's last attempt, or its webhook's if no attempt is stored, by ID."""
    last = last_attempts(deliveries)
    return {each.pk: last[each.pk].url if each.pk in last else each.webhook.url for each in deliveries}


class DeliveryRow(NamedTuple):
    """A row of a list of deliveries."""

    delivery: Delivery
    url: str
    sent_to: str
    """The URL of the last attempt."""
    state: str
    next_try: SafeString | str
    instead: SafeString | str = ""
    """When the event of a failed delivery was delivered nevertheless, with a link; "" if it was not."""
    answer: str = ""
    """The state in short: the status of the last answer, or its result if there was none."""
    duration_ms: int | None = None

    @property
    def webhook(self) -> str:
        """The name of the webhook: its description, or the URL without its scheme."""
        return self.delivery.webhook.description or self.sent_to.partition("://")[2]


def delivered_later(delivery: Delivery | None, *, url: DeliveryUrl) -> SafeString | str:
    """Return the time of a success, with a link to it."""
    if delivery is None:
        return ""
    text = format_html(gettext("delivered {moment}"), moment=clock(delivery.finished_at or delivery.created_at))
    return format_html('<a href="{}">{}</a>', url(delivery.pk), text)


def delivery_rows(deliveries: Iterable[Delivery], *, url: DeliveryUrl) -> list[DeliveryRow]:
    """Return the rows of a short list of deliveries, linked to their pages."""
    now, rows = timezone.now(), list(deliveries)
    last, successes = last_attempts(rows), delivered_instead(rows)
    return [
        DeliveryRow(
            delivery,
            url(delivery.pk),
            (last.get(delivery.pk) or delivery.webhook).url,
            state_and_result(delivery, last.get(delivery.pk)),
            next_try(delivery, hold, now=now, url=url),
            delivered_later(successes.get(delivery.pk), url=url),
            _answer(delivery, last.get(delivery.pk)),
            getattr(last.get(delivery.pk), "duration_ms", None),
        )
        for delivery, hold in zip(rows, holds_of(rows, now=now), strict=True)
    ]


def _answer(delivery: Delivery, last: DeliveryAttempt | None) -> str:
    if last is not None and last.response_status is not None:
        return str(last.response_status)
    is_told = delivery.last_result and delivery.last_result != DeliveryAttempt.Result.SUCCEEDED
    return result_in_words(delivery.last_result) if is_told else str(delivery.get_state_display())


def grouped(number: float) -> str:
    """Return a whole number with separators of thousands."""
    return number_format(number, 0, force_grouping=True)


def percent(part: int, whole: int) -> str:
    """Return a share in percent, to a tenth; 0 means none and 100 all."""
    tenths = round(1000 * part / whole)
    if part:
        tenths = max(1, tenths)
    if part < whole:
        tenths = min(999, tenths)
    return gettext("%(number)s%%") % {"number": number_format(tenths / 10, 0 if tenths % 10 == 0 else 1)}


def missed_in_words(counts: Sequence[Missed]) -> str:
    """Return a sentence about the events that one or more webhooks have missed, as far as they were examined."""
    number, has_more = sum(each.number for each in counts), any(each.has_more for each in counts)
    if not number and has_more:
        return gettext("None of the first events was missed. This page has examined no others.")
    if not number:
        return gettext("No event was missed: each was delivered, or is still attempted.")
    if has_more:
        text = ngettext("At least %(number)s event was missed.", "At least %(number)s events were missed.", number)
    else:
        text = ngettext("%(number)s event was missed.", "%(number)s events were missed.", number)
    return text % {"number": grouped(number)}
