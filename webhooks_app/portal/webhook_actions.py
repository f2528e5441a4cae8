"""Forms about a webhook: test events, rotations, the page of a new secret, and code that verifies requests."""

from __future__ import annotations

import shlex
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from ..models import Webhook
from ..operations.registration import describe_sender
from ..operations.rights import (
    ROTATE_SECRET,
    TEST_WEBHOOK,
)
from ..operations.sending import send_test_event
from ..owners import event_types_for
from ..pages.actions import WEBHOOK
from ..pages.form_fields import label_of
from ..pages.forms import RotationForm, TestEventForm
from ..pages.handshake import latest_handshake
from ..pages.shown_once import show_once, take
from ..pages.transcript import attempts_of
from ..pages.verification import command_for_python, receiver_for, samples_for
from ..transport.endpoint import ANYWHERE, parse_endpoint
from .base import AccountPage, SecretFormPage, WebhookFormPage
from .webhooks import WebhookTab, shown_deliveries

__all__ = ["RotationPage", "SecretPage", "TestEventPage", "VerificationPage"]

FIRST_UNPRIVILEGED_PORT, RECEIVER_PORT = 1024, 8001


class TestEventPage(WebhookFormPage):
    """A form for a test event, with the answer of the receiver to the last one."""

    template_name = "webhooks_app/portal/test_event.html"
    is_live = True
    title = _("Send a test event")
    right = TEST_WEBHOOK
    form_class = TestEventForm
    submit = _("Send")

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        refusal = "" if "delivery" in request.GET else WEBHOOK["send_test"].refusal(self.webhook)
        if not refusal:
            return super().get(request, *args, **kwargs)
        messages.error(request, refusal, fail_silently=True)
        return HttpResponseRedirect(self.cancel_url)

    def get_form(self, form_class: Any = None) -> TestEventForm:
        sent = self.request.POST if self.request.method == "POST" else None
        event_types = event_types_for(self.owner)
        return TestEventForm.of(sent, self.webhook.event_types, event_types=event_types, label_suffix="")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        pk = self.request.GET.get("delivery")
        answer = {} if pk is None else attempts_of(self.find_delivery(pk), url=self.delivery_url)
        return {**context, "examples": context["form"].examples(), **answer}

    def carry_out(self, form: Any) -> HttpResponse:
        event_type, data = form.cleaned_data["event_type"], form.cleaned_data["event_data"]
        delivery = send_test_event(self.webhook, event_type, data, actor=self.actor)
        return HttpResponseRedirect(f"{self.url('webhook-test', self.webhook.pk)}?delivery={delivery.pk}#answer")


class RotationPage(WebhookFormPage, SecretFormPage):
    """The form for a new secret of a webhook."""

    template_name = "webhooks_app/portal/form.html"
    title = _("Rotate the secret")
    right = ROTATE_SECRET
    form_class = RotationForm
    submit = _("Rotate")

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "webhook": self.webhook}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        intro = _(
            "The new secret is shown only once. While it is prepared, the old secret signs X-Webhook-Signature as "
            "before. Add the new one to your receiver, or replace the old one at the moment of the activation. A "
            "receiver that reads only this header accepts the secret that is active."
        )
        return super().get_context_data(intro=intro, **kwargs)

    def carry_out(self, form: Any) -> HttpResponse:
        webhook = self.webhook
        secret, about = form.rotate(webhook, actor=self.actor)
        for level, text in about:
            messages.add_message(self.request, level, text, fail_silently=True)
        if not secret:
            return HttpResponseRedirect(self.cancel_url)
        return show_once(self.request, secret, lambda token: self.url("webhook-secret", webhook.pk, token))


class SecretPage(AccountPage):
    """The secret of a webhook, shown once. The token is valid only in the session that created the secret."""

    template_name = "webhooks_app/portal/secret.html"
    section = "webhooks"
    title = _("Secret")
    right = ROTATE_SECRET
    is_shareable = False

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        webhook, secret, verify = self.find_webhook(), take(self.request, self.kwargs["token"]), WEBHOOK["verify"]
        return super().get_context_data(
            webhook=webhook,
            subject=webhook.url,
            secret=secret,
            **(_receivers(webhook, secret) if secret else {}),
            live_url=self.url("webhook", webhook.pk),  # this page can be read only once
            handshake=latest_handshake(shown_deliveries(webhook), url=self.delivery_url),
            can_verify=self.may(verify.right) and verify.is_for(webhook),
            sender=describe_sender(),
            **kwargs,
        )


def _receivers(webhook: Webhook, secret: str) -> dict[str, str]:
    """Return the command that starts a receiver in a Django project with this app, and a receiver without Django."""
    port = parse_endpoint(webhook.url, allow_http=True, allowed_networks=ANYWHERE).port
    if port < FIRST_UNPRIVILEGED_PORT:  # a proxy or a tunnel listens there, and passes requests on
        port = RECEIVER_PORT
    return {
        "receiver": f"python manage.py listen_webhooks --port {port} --secret={shlex.quote(secret)}",
        "receiver_code": receiver_for(webhook.schemes),
        "receiver_command": command_for_python(secret, port),
    }


class VerificationPage(WebhookTab):
    """Code that verifies the signatures of a webhook's requests."""

    template_name = "webhooks_app/portal/verification.html"
    tab = "code"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        schemes = self.webhook.schemes
        return super().get_context_data(
            schemes=[(label_of(each), each.signature_header) for each in schemes],
            samples=samples_for(schemes),
            sender=describe_sender(),
            **kwargs,
        )
