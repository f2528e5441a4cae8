"""Rotation of a webhook's secret, and of its keys of other signature schemes."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..configured import known_signatures
from ..models import Webhook
from ..operations import rights, rotation
from ..operations.actors import BaseActor
from ..pages.form_fields import NEW_PUBLIC_KEY
from ..pages.forms import RotationForm
from ..pages.shown_once import shown_by_first
from .shown_once import ShowingSecrets


class KeyRotation(ShowingSecrets):
    """To be mixed into the admin of webhooks."""

    def has_rotate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, rights.ROTATE_SECRET, obj)

    @admin.action(description=_("Rotate the secret"), permissions=["rotate"])
    def rotate_secret(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        if (already_done := shown_by_first(request)) is not None:
            return already_done
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
        history = gettext("Expired the old secret.")
        return self.ask_and_carry_out(
            request, queryset, rotation.revoke_previous_keys, action="revoke_previous_secret", history=history
        )

    def label_of_secret(self, item: Webhook) -> str:
        return gettext("Secret of %(id)s") % {"id": item.id}
