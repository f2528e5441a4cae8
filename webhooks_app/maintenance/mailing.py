"""Mails from announcements: when one is sent, and what it contains.

An owner who wants mails at once gets one for each announcement, except about a receiver that may be flapping: after a
mail about a failure or its end, the next one about the same webhook follows six hours later and sums up what happened
meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from datetime import datetime, time, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from ..conf import settings
from ..database.sql import writing
from ..models import Announcement, MailPreference, WebhookHealth
from ..models.disclosure import UNREACHABLE, UNREACHABLE_MESSAGE
from ..models.fields import translated
from ..models.problem import Cause
from .announcements import announces_after
from .notifications import MOST_COUNTED, Kind
from .outgoing import Mail, room, send_soon

logger = logging.getLogger("webhooks_app.health")

QUIET = timedelta(hours=6)
"""Time between two mails about the failures of one webhook."""

SUMMARY_AT = time(8)
"""When daily summaries are sent, in the time zone of the settings."""

FLAPPING = (Kind.FAILING, Kind.RECOVERED)
"""What a flapping receiver causes again and again. Everything else is told at once."""

REPLACED_BY = {
    Kind.FAILING: (Kind.WARNING, Kind.DISABLED),
    Kind.WARNING: (Kind.DISABLED,),
    Kind.KEY_EXPIRES: (Kind.KEY_EXPIRES_SOON,),
}
"""The announcements of the same occasion that make another one superfluous, if both wait."""

MOST_LISTED = 100
"""Announcements in one mail."""

AT_A_TIME = 200
"""Announcements that one run considers."""


def sent_at(
    waiting: Sequence[Announcement],
    last_mailed_at: datetime | None,
    *,
    failing_since: datetime | None,
    settles: timedelta,
) -> datetime:
    """Return when the waiting announcements of a webhook are mailed, for an owner who wants mails at once.

    ``last_mailed_at`` is the time of the last mail about its failures, None before the first one. ``settles`` is for
    how long the webhook must have been working, or failing, to be called so.
    """
    newest = waiting[-1]
    if told_at_once := [each.created_at for each in waiting if each.kind not in FLAPPING]:
        return min(told_at_once)
    ready_at = newest.created_at
    if newest.kind == Kind.RECOVERED:
        ready_at = max(ready_at, failing_since or ready_at) + settles
    return ready_at if last_mailed_at is None else max(ready_at, last_mailed_at + QUIET)


def summary_at(first: datetime, zone: Any) -> datetime:
    """Return when the daily summary is sent whose first announcement was made at ``first``."""
    local = first.astimezone(zone)
    today = datetime.combine(local.date(), SUMMARY_AT, zone)
    return today if first <= today else datetime.combine(local.date() + timedelta(days=1), SUMMARY_AT, zone)


def worth_telling(waiting: Sequence[Announcement]) -> list[Announcement]:
    """Return the announcements that still hold and are not made superfluous by others."""
    made = {(each.subject.pk, each.since, each.kind) for each in waiting}
    return [
        each
        for each in waiting
        if each.is_true
        and not any((each.subject.pk, each.since, kind) in made for kind in REPLACED_BY.get(Kind(each.kind), ()))
    ]


def send_due(using: str, now: datetime) -> bool:
    """Send the mails that are due, after the commit. Return True if there may be more.

    ``now`` is the database's time. An exception for one owner is raised after the mails to the others.
    """
    number = min(AT_A_TIME, room())
    due = Announcement.objects.using(using).due(now).select_related("webhook", "api_key").order_by("due_at")[:number]
    due_ones = due.readable()
    found = [each for each in due_ones if each.webhook or each.api_key]
    if orphans := [each.pk for each in due_ones if each not in found]:  # made while their subject was being deleted
        Announcement.objects.using(using).filter(pk__in=orphans).delete()
    owner_ids = {each.subject.owner_id for each in found} - {None}
    preferences = MailPreference.objects.using(using).by_owner(owner_ids)
    recipients = {each.key: each for each in (_recipient(announcement, preferences) for announcement in found)}
    problem: Exception | None = None
    for each in recipients.values():
        try:
            _settle(using, each, now)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # A damaged row, or a policy of the host, must not affect other owners.
            logger.exception("The mails about %s could not be composed.", each.key)
            problem = problem or error
    if problem is not None:
        raise problem
    return len(due_ones) == number > 0


class Recipient(NamedTuple):
    """Whose announcements make one mail: all webhooks of an owner in a daily summary, otherwise one webhook or key.

    The expiry of a key is in no summary, because the creator of the key gets the mail too.
    """

    key: Hashable
    mails: str
    rows: Q


def _recipient(announcement: Announcement, preferences: dict[Any, str]) -> Recipient:
    owner_id = announcement.subject.owner_id
    mails = preferences.get(owner_id, MailPreference.Mails.AT_ONCE)
    if announcement.api_key:
        return Recipient(announcement.api_key.pk, mails, Q(api_key=announcement.api_key))
    if mails == MailPreference.Mails.DAILY:
        return Recipient(("owner", str(owner_id)), mails, Q(webhook__owner=owner_id))
    return Recipient(announcement.webhook_id, mails, Q(webhook=announcement.webhook_id))


def _settle(using: str, recipient: Recipient, now: datetime) -> None:
    """Mail what waits for a recipient, put it off, or drop it. Its rows are locked against other workers."""
    with writing(using, Announcement):
        rows = Announcement.objects.using(using)
        made = rows.waiting().filter(recipient.rows, created_at__lte=now).order_by("created_at", "pk")
        ids = list(made.values_list("pk", flat=True)[:MOST_LISTED])
        locked = rows.waiting().filter(pk__in=ids).select_for_update().order_by("created_at", "pk").readable()
        if not locked:
            return
        waiting = worth_telling(locked)
        wants_none = recipient.mails == MailPreference.Mails.NONE or not settings.HEALTH_MAILS
        dropped = locked if wants_none else [each for each in locked if each not in waiting]
        rows.filter(pk__in=[each.pk for each in dropped]).update(due_at=None)
        told = [each for each in waiting if each not in dropped]
        if not told:
            return
        at = _sent_at(using, recipient, told)
        if at > now:
            rows.filter(pk__in=[each.pk for each in told]).update(due_at=at)
            return
        rows.filter(pk__in=[each.pk for each in told]).update(due_at=None, mailed_at=now)
        transaction.on_commit(partial(send_soon, compose(told, now)), using=using)


def _sent_at(using: str, recipient: Recipient, told: Sequence[Announcement]) -> datetime:
    webhook = told[0].webhook
    if webhook is None:
        return told[0].created_at
    if recipient.mails == MailPreference.Mails.DAILY:
        return summary_at(told[0].created_at, timezone.get_default_timezone())
    health = WebhookHealth.of(webhook)
    since = health.failing_since if health is not None else None
    return sent_at(told, last_mailed_at(using, webhook.pk), failing_since=since, settles=announces_after())


def last_mailed_at(using: str, webhook_id: str) -> datetime | None:
    """Return the time of the last mail about the failures of a webhook, None before the first one."""
    about = Announcement.objects.using(using).filter(webhook=webhook_id, kind__in=FLAPPING).mailed()
    return about.order_by("-mailed_at").values_list("mailed_at", flat=True).first()


def compose(told: Sequence[Announcement], now: datetime) -> Mail:
    """Return the mail with these announcements, all of one owner."""
    first, subjects = told[0], {each.subject.pk for each in told}
    items = [_item(each) for each in told]
    seconds = settings.TIMEOUT_SECONDS
    context: dict[str, Any] = {
        "items": items,
        "now": now,
        "timeout": int(seconds) if seconds == int(seconds) else seconds,
        "choice_url": page_url("mails", first.subject.owner_id),
        "most_counted": MOST_COUNTED,
        "is_about_one": len(subjects) == 1,
    }
    subject_id = first.subject.pk if len(subjects) == 1 else ""
    if len(told) > 1:
        return Mail("summary", subject_id, first.subject.owner, context)
    name = first.kind.removesuffix("_soon")
    return Mail(name, subject_id, first.subject.owner, context | items[0], _creators_address(first))


def _item(announcement: Announcement) -> dict[str, Any]:
    """Return an announcement as its template shows it, with its facts."""
    webhook = announcement.webhook
    page, args = ("webhook", (webhook.pk,)) if webhook else ("keys", ())
    return {
        **{name: _read(value) if name.endswith("_at") else value for name, value in announcement.facts.items()},
        "kind": announcement.kind,
        "at": announcement.created_at,
        "since": announcement.since,
        "webhook": webhook,
        "api_key": announcement.api_key,
        "cause": _cause(announcement),
        "url": page_url(page, announcement.subject.owner_id, *args),
    }


def _read(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None


def _cause(announcement: Announcement) -> str:
    """Return why requests failed, or why a verification did, in words that the owner may read."""
    if announcement.kind in (Kind.VERIFICATION_FAILED, Kind.URL_REFUSED) and announcement.webhook:
        return translated(announcement.webhook.status_reason)
    result, code = announcement.facts.get("result", ""), announcement.facts.get("status_code")
    if result == UNREACHABLE:
        return translated(UNREACHABLE_MESSAGE).rstrip(".")
    return str(Cause(result, code or 0)) if result else ""


def _creators_address(announcement: Announcement) -> list[str]:
    creator = announcement.api_key.created_by if announcement.api_key else None
    if creator is None or not getattr(creator, "is_active", True):
        return []
    address = getattr(creator, creator.get_email_field_name(), "")
    return [address] if address else []


def page_url(name: str, owner_id: Any, *args: str) -> str:
    """Return the URL of a customers' page, or of the console for what belongs to the platform; "" without one."""
    if not settings.SITE_URL:
        return ""
    try:
        if owner_id is not None:
            path = reverse(f"webhooks_portal:{name}", args=(str(owner_id), *args))
        elif name == "webhook":
            path = reverse("admin:webhooks_app_webhook_change", args=args)
        else:
            return ""
    except (ImproperlyConfigured, NoReverseMatch):
        return ""
    return f"{settings.SITE_URL.rstrip('/')}{path}"
