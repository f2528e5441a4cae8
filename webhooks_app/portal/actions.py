"""The buttons of actions, and the pages that ask before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from ..models import ApiKey, Delivery, Replay, Webhook
from ..operations.rights import UPDATE_WEBHOOK, VIEW_DELIVERIES
from ..pages.actions import API_KEY, DELIVERY, REPLAY, WEBHOOK, WEBHOOK_AND_MISSED, Button, UserAction
from ..pages.confirmations import ReasonForm
from ..pages.webhook_card import Remedy
from .base import AccountPage, FormPage

__all__ = ["ActionPage", "ReplayStepPage", "RevocationPage", "WebhookActionPage"]

FORMS = {"send_test": "webhook-test", "rotate_secret": "webhook-rotate", "replay_missed": "replay-new"}
"""The actions with a form of their own, and its page."""

ACTIONS = {name.replace("_", "-"): action for name, action in WEBHOOK_AND_MISSED.items() if name not in FORMS}
"""The other actions on a webhook, by their part of the URL."""


def buttons_of(
    page: AccountPage, table: Mapping[str, UserAction], row: Any, url: Callable[[str], str]
) -> Iterator[Button]:
    """Yield the buttons of the actions that the user may perform, and that the state of the row permits."""
    for name, action in table.items():
        if page.may(action.right) and action.is_for(row):
            yield Button(action.label, url(name), action.is_destructive)


def buttons_at(page: AccountPage, webhook: Webhook, place: str) -> list[Button]:
    """Return the buttons of a part of a webhook's page. Its head has those of ``remedies``."""
    table = {name: action for name, action in WEBHOOK.items() if action.place == place}
    return list(buttons_of(page, table, webhook, lambda name: url_of_action(page, webhook, name)))


def url_of_action(page: AccountPage, webhook: Webhook, name: str) -> str:
    if name in FORMS:
        return page.url(FORMS[name], webhook.pk)
    return page.url("webhook-action", webhook.pk, name.replace("_", "-"))


def remedies(
    page: AccountPage, webhook: Webhook, helpful: Iterable[Remedy], front: Delivery | None = None
) -> Iterator[Button]:
    """Yield the buttons of what helps. ``front`` is what others wait for."""
    if front:
        yield _button_of_front(page, front)
    for remedy in helpful:
        action = WEBHOOK_AND_MISSED.get(remedy.action)
        if action is None and page.may(UPDATE_WEBHOOK):
            url = f"{page.url('webhook-settings', webhook.pk)}#id_{remedy.field}"
            yield Button(remedy.label, url, is_main=remedy.is_main)
        elif action is not None and page.may(action.right) and action.is_for(webhook):
            yield Button(remedy.label, url_of_action(page, webhook, remedy.action), is_main=remedy.is_main)


def _button_of_front(page: AccountPage, front: Delivery) -> Button:
    retry = DELIVERY["retry"]
    can_retry = page.may(retry.right) and retry.is_for(front)
    label = _("Retry the event in front") if can_retry else _("See the event in front")
    return Button(label, page.delivery_url(front.pk), runs_at_once=can_retry, is_main=True)


class ActionPage(FormPage):
    """The confirmation of an action on one row, with a reason if there is one to ask.

    If the state of the row does not permit the action, the page of the row says why.
    """

    template_name = "webhooks_app/portal/confirm.html"
    table: ClassVar[Mapping[str, UserAction]]
    name = ""
    """The action, if it is not in the URL."""

    def find_row(self) -> Any:
        """Return the row, or answer 404."""
        raise NotImplementedError

    def subject_of(self, row: Any) -> str:
        raise NotImplementedError

    def back_url(self, row: Any) -> str:
        """Return the URL of the page with the button."""
        raise NotImplementedError

    @property
    def cancel_url(self) -> str:
        return self.back_url(self.found[0])

    def next_url(self, row: Any, result: Any) -> str:
        """Return the URL of the page to show after the action, with the result of its operation."""
        return self.back_url(row)

    @cached_property
    def found(self) -> tuple[Any, UserAction]:
        """Return the row and the action. Raise Http404, and AccessDeniedError without the right."""
        row, action = self.find_row(), self.table.get(self.name or self.kwargs["action"])
        if action is None:
            raise Http404
        self.actor.require(action.right, self.owner.pk)
        return row, action

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        row, action = self.found
        if not (refusal := action.refusal(row)):
            return super().get(request, *args, **kwargs)
        messages.error(request, refusal, fail_silently=True)
        return HttpResponseRedirect(self.back_url(row))

    def get_form(self, form_class: Any = None) -> forms.Form:
        _row, action = self.found
        return (ReasonForm if action.asks_reason else forms.Form)(**self.get_form_kwargs())

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        row, action = self.found
        return super().get_context_data(
            title=action.label,
            subject=self.subject_of(row),
            question=action.asked_of(1),
            consequences=action.consequences([row]),
            is_destructive=action.is_destructive,
            **kwargs,
        )

    def carry_out(self, form: Any) -> HttpResponse:
        row, action = self.found
        return HttpResponseRedirect(self.next_url(row, self.perform(action, row, **form.cleaned_data)))


class WebhookActionPage(ActionPage):
    """The confirmation of an action on a webhook."""

    section = "webhooks"
    table = ACTIONS

    def find_row(self) -> Webhook:
        return self.find_webhook()

    def subject_of(self, row: Webhook) -> str:
        return row.url

    def back_url(self, row: Webhook) -> str:
        return self.url("webhooks") if row.is_deleted else self.url("webhook", row.pk)

    def next_url(self, row: Webhook, result: Any) -> str:
        return self.url("replay", result.pk) if isinstance(result, Replay) else self.back_url(row)


class ReplayStepPage(ActionPage):
    """The confirmation of a step of a replay."""

    section = "webhooks"
    right = VIEW_DELIVERIES
    table = REPLAY

    def find_row(self) -> Any:
        return self.find(Replay.objects.select_related("webhook"), self.kwargs["pk"])

    def subject_of(self, row: Replay) -> str:
        return str(row.webhook.url)

    def back_url(self, row: Replay) -> str:
        return self.url("replay", row.pk)


class RevocationPage(ActionPage):
    """The confirmation of the revocation of an API key."""

    section = "keys"
    table = API_KEY
    name = "revoke"

    def find_row(self) -> Any:
        return self.find(ApiKey.objects.all(), self.kwargs["pk"])

    def subject_of(self, row: ApiKey) -> str:
        return str(row)

    def back_url(self, row: ApiKey) -> str:
        return self.url("keys")
