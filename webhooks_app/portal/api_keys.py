"""The API keys of an account."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..maintenance.announcements import STAGES
from ..models import ApiKey
from ..operations.api_keys import create_key, may_grant
from ..operations.rights import CREATE_KEY
from ..pages.actions import API_KEY
from ..pages.form_fields import NEVER_EXPIRES, ExpiryField
from ..pages.shown_once import SubmittedForm, show_once, take
from .base import AccountPage, SecretFormPage

__all__ = ["ApiKeyListPage", "ApiKeySecretPage", "NewApiKeyPage"]

MAX_KEYS = 200

SOON = max(STAGES.values())


class NewKeyForm(SubmittedForm):
    name = forms.CharField(label=_("Name"), max_length=100, help_text=_("The program or person that uses the key."))
    scopes = forms.MultipleChoiceField(label=_("Scopes"), widget=forms.CheckboxSelectMultiple)
    expires_at = ExpiryField()

    def __init__(self, *args: Any, scopes: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["scopes"].choices = [  # type: ignore[attr-defined]
            (name, f"{name}: {label}") for name, label in ApiKey.Scope.choices if name in scopes
        ]

    @property
    def arguments(self) -> dict[str, Any]:
        """The values as arguments of ``create_key``."""
        return {name: self.cleaned_data[name] for name in ("name", "scopes", "expires_at")}


class ApiKeyListPage(AccountPage):
    """The API keys of the account."""

    template_name = "webhooks_app/portal/api_key_list.html"
    section = "keys"
    title = _("API keys")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        keys = list(ApiKey.objects.owned_by(self.owner).order_by("-pk")[:MAX_KEYS])
        now = timezone.now()
        for key in keys:
            key.is_expired = key.expires_at is not None and key.expires_at <= now  # type: ignore[attr-defined]
            key.expires_soon = key.expires_at is not None and key.expires_at <= now + SOON  # type: ignore[attr-defined]
        return super().get_context_data(keys=keys, may_revoke=self.may(API_KEY["revoke"].right), **kwargs)


class NewApiKeyPage(SecretFormPage):
    """The form for a new API key."""

    template_name = "webhooks_app/portal/form.html"
    section = "keys"
    title = _("New API key")
    right = CREATE_KEY
    form_class = NewKeyForm
    submit = _("Create")
    back = "keys"

    def get_form_kwargs(self) -> dict[str, Any]:
        grantable = [name for name in ApiKey.Scope.values if may_grant(name, self.owner.pk, self.actor)]
        return {**super().get_form_kwargs(), "scopes": grantable}

    def carry_out(self, form: Any) -> HttpResponse:
        key, text = create_key(owner=self.owner, actor=self.actor, **form.arguments)
        if key.expires_at is None:
            messages.warning(self.request, str(NEVER_EXPIRES), fail_silently=True)
        return show_once(self.request, text, lambda token: self.url("key-secret", key.pk, token))


class ApiKeySecretPage(AccountPage):
    """The text of an API key, shown once."""

    template_name = "webhooks_app/portal/secret.html"
    section = "keys"
    title = _("New API key")
    right = CREATE_KEY
    is_shareable = False

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        key = self.find(ApiKey.objects.all(), self.kwargs["pk"])
        return super().get_context_data(
            key=key, subject=key.name, secret=take(self.request, self.kwargs["token"]), **kwargs
        )
