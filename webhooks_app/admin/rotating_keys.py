"""Rotation of a webhook's secret, and of its keys of other signature schemes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..choices import known_signatures
from ..conf import settings
from ..models import Webhook
from ..models.limits import MAX_SECRET_OVERLAP
from ..models.webhook_secret import SECRET
from ..operations import rights, rotation
from ..operations.actors import BaseActor
from .shown_once import ShowingSecrets, new_submission

NEW_PUBLIC_KEY = _("The new public key is %(key)s. Receivers verify with it.")

REPLACES = "replaces_"
"""Prefix of the hidden fields with the fingerprint of each key."""


class RotationForm(forms.Form):
    """The key to be replaced, and how long it goes on signing."""

    scheme = forms.ChoiceField(label=_("Key"), widget=forms.RadioSelect)
    overlap_hours = forms.FloatField(
        label=_("Overlap in hours"),
        required=False,
        min_value=0,
        max_value=MAX_SECRET_OVERLAP / timedelta(hours=1),
        initial=lambda: f"{settings.SECRET_OVERLAP_SECONDS / 3600:g}",
        help_text=_(
            "Requests carry signatures of both secrets for this long. 0 expires the old secret at once, for example "
            "after a leak."
        ),
    )

    submission = forms.CharField(required=False, widget=forms.HiddenInput, initial=new_submission)

    def __init__(self, *args: Any, webhook: Webhook, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._keys = _keys(webhook)
        scheme: Any = self.fields["scheme"]
        scheme.choices = list(self._keys.items())
        scheme.initial = next(iter(self._keys))
        if len(self._keys) == 1:
            scheme.required, scheme.widget = False, forms.HiddenInput()
        for key in self._keys:
            initial = rotation.fingerprint_of_key(webhook, key)
            self.fields[REPLACES + key] = forms.CharField(required=False, widget=forms.HiddenInput, initial=initial)

    @property
    def scheme_of_key(self) -> str:
        return str(self.cleaned_data.get("scheme") or next(iter(self._keys)))

    @property
    def replaces(self) -> str:
        """The fingerprint of the key when the form was shown."""
        return str(self.cleaned_data[REPLACES + self.scheme_of_key])

    @property
    def overlap(self) -> timedelta | None:
        """The overlap that was entered, or None to use the setting."""
        hours = self.cleaned_data["overlap_hours"]
        return None if hours is None else timedelta(hours=hours)


class KeyRotation(ShowingSecrets):
    """To be mixed into the admin of webhooks."""

    def has_rotate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, rights.ROTATE_SECRET, obj)

    @admin.action(description=_("Rotate the secret"), permissions=["rotate"])
    def rotate_secret(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        if (shown_by_first := self.shown_by_first(request)) is not None:
            return shown_by_first
        webhooks = list(queryset[:2])
        if len(webhooks) != 1:
            self.message_user(
                request, gettext("Select a single webhook: its new secret is shown only once."), messages.ERROR
            )
            return None
        form = RotationForm(request.POST if self.is_confirmed(request) else None, webhook=webhooks[0])
        if not form.is_valid():
            question = gettext("Create a new secret? It is shown only once and signs all requests from now on.")
            return self.ask(request, queryset, action="rotate_secret", question=question, form=form)
        shown: list[HttpResponseRedirect] = []

        def rotate(webhook: Webhook, *, actor: BaseActor) -> None:
            shown.extend(self._rotated(request, webhook, actor, form))

        self.carry_out(request, queryset, rotate, history=gettext("Rotated the secret."))
        return shown[0] if shown else None

    def _rotated(
        self, request: HttpRequest, webhook: Webhook, actor: BaseActor, form: RotationForm
    ) -> list[HttpResponseRedirect]:
        """Rotate, and return the page that shows a new secret; a public key is shown by a message."""
        name = form.scheme_of_key
        key = rotation.rotate_secret(webhook, actor=actor, overlap=form.overlap, replaces=form.replaces, scheme=name)
        if warning := rotation.warning_about_key(webhook, name):
            self.message_user(request, warning, messages.WARNING)
        scheme = known_signatures()[name]
        if not scheme.is_asymmetric:
            return [self.show_once(request, webhook, key)]
        self.message_user(request, NEW_PUBLIC_KEY % {"key": scheme.verification_key(key)}, messages.SUCCESS)
        return []

    @admin.action(description=_("Expire the old secret now"), permissions=["rotate"])
    def revoke_previous_secret(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        return self.ask_and_carry_out(
            request,
            queryset,
            rotation.revoke_previous_keys,
            action="revoke_previous_secret",
            question=gettext("Expire the old secret now? Requests are no longer signed with it."),
            history=gettext("Expired the old secret."),
        )

    def label_of_secret(self, item: Webhook) -> str:
        return gettext("Secret of %(id)s") % {"id": item.id}


def _keys(webhook: Webhook) -> dict[str, str]:
    """Return the names of the schemes that sign with each key of a webhook, by the scheme of the key."""
    users: dict[str, list[str]] = {}
    for scheme in webhook.schemes:
        users.setdefault(scheme.key_scheme, []).append(scheme.name)
    return {key: ", ".join(names) for key, names in users.items()} or {SECRET: SECRET}
