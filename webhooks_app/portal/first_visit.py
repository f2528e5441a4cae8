"""The three steps of an account's first visit, which are done when the facts say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from ..conf import known_signatures
from ..models import Delivery, Webhook
from ..models.standing import Standing, health_of
from ..models.webhook_secret import default_signatures
from ..operations.rights import REGISTER_WEBHOOK
from ..pages.actions import WEBHOOK
from ..pages.verification import samples_for
from .base import AccountPage

__all__ = ["first_visit"]

NEW = (Standing.UNVERIFIED, Standing.VERIFICATION_FAILED, Standing.UNUSED)
"""The states of a webhook to which no event has been sent yet."""

EXAMINED = 20
"""The latest deliveries among which a successful test is looked for."""


class Step(NamedTuple):
    label: Any
    text: Any
    is_done: bool
    url: str = ""
    button: Any = ""
    samples: Sequence[Any] = ()


def first_visit(page: AccountPage, webhooks: QuerySet[Webhook]) -> list[Step]:
    """Return the steps of an account with at most one webhook, which has received no event yet; none for any other.

    ``webhooks`` are those of the account, at most one.
    """
    webhook = webhooks.first()
    if webhook is not None and health_of(webhook).standing not in NEW:
        return []
    done = (webhook is not None, webhook is not None and webhook.status == Webhook.Status.ACTIVE, _is_tested(webhook))
    return [] if all(done) else [_create(page, done[0]), _verify(page, webhook, done[1]), _test(page, webhook, done)]


def _is_tested(webhook: Webhook | None) -> bool:
    latest = Delivery.objects.filter(webhook=webhook).order_by("-pk") if webhook else Delivery.objects.none()
    answered = latest.values_list("kind", "state")[:EXAMINED]
    return (Delivery.Kind.TEST, Delivery.State.SUCCEEDED) in list(answered)


def _create(page: AccountPage, is_done: bool) -> Step:
    text = _("Enter the URL of your receiver, and choose the event types. The code verifies each request.")
    samples = samples_for(known_signatures()[name] for name in default_signatures())
    url = page.url("webhook-new") if page.may(REGISTER_WEBHOOK) and not is_done else ""
    return Step(_("Create a webhook"), text, is_done, url, _("New webhook"), samples)


def _verify(page: AccountPage, webhook: Webhook | None, is_done: bool) -> Step:
    text = _("A first request carries a challenge. Your receiver returns it, and proves that the URL is yours.")
    url = page.url("webhook", webhook.pk) if webhook and not is_done else ""
    return Step(_("See the verification"), text, is_done, url, _("See the request and the response"))


def _test(page: AccountPage, webhook: Webhook | None, done: Sequence[bool]) -> Step:
    action, (_created, is_verified, is_tested) = WEBHOOK["send_test"], done
    text = _("It has the example data of its type, and is signed like every event.")
    url = page.url("webhook-test", webhook.pk) if webhook and is_verified and page.may(action.right) else ""
    return Step(action.label, text, is_tested, url, action.label)
