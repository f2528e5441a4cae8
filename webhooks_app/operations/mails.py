"""Choosing how often an owner gets mails about webhooks and API keys."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import router
from django.utils.translation import gettext_lazy as _

from ..database.clock import now
from ..database.sql import writing
from ..models import Announcement, MailPreference
from ..models.audit import Action, acting
from .actors import BaseActor
from .rights import UPDATE_WEBHOOK

__all__ = ["choose_mails"]


def choose_mails(owner: Any, mails: str, *, actor: BaseActor) -> None:
    """Choose how often an owner gets mails: ``at_once``, ``daily`` or ``none``. Pending mails follow the choice.

    Raise django.core.exceptions.ValidationError for another choice, and PermissionDenied.
    """
    actor.require(UPDATE_WEBHOOK, owner.pk)
    if mails not in MailPreference.Mails:
        message = _("%(mails)s: unknown choice. Choose from %(known)s.")
        params = {"mails": mails, "known": ", ".join(MailPreference.Mails)}
        raise ValidationError({"mails": ValidationError(message, code="unknown_choice", params=params)})
    using = router.db_for_write(MailPreference)
    with acting(actor), writing(using, MailPreference):
        rows = MailPreference.objects.using(using)
        rows.bulk_create([MailPreference(owner_id=owner.pk)], ignore_conflicts=True)
        preference = rows.select_for_update().get(owner=owner.pk)
        if preference.mails == mails:
            return
        with preference.auditing(Action.MAILS_CHANGED):
            preference.mails = mails
            preference.save(update_fields=["mails"])
        moment = now()
        waiting = Announcement.objects.using(using).waiting().owned_by(owner.pk).filter(created_at__lte=moment)
        ids = list(waiting.values_list("pk", flat=True))
        Announcement.objects.using(using).filter(pk__in=ids, due_at__isnull=False).update(due_at=moment)
