"""How often an account gets mails about its webhooks and API keys."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import MailPreference
from ..operations.mails import choose_mails
from ..operations.rights import UPDATE_WEBHOOK
from .base import FormPage

__all__ = ["MailsPage"]


class MailsForm(forms.Form):
    mails = forms.ChoiceField(
        label=_("Mails"),
        choices=MailPreference.Mails.choices,
        widget=forms.RadioSelect,
        help_text=_(
            "About webhooks that fail, work again, are disabled, or wait for you. A webhook that fails again and again "
            "causes one mail in six hours at most. The expiry of an API key is not part of the summary."
        ),
    )


class MailsPage(FormPage):
    """The choice of mails."""

    template_name = "webhooks_app/portal/form.html"
    section = "overview"
    title = _("Mails")
    right = UPDATE_WEBHOOK
    form_class = MailsForm
    back = "overview"

    def get_initial(self) -> dict[str, Any]:
        return {"mails": MailPreference.objects.of(self.owner)}

    def carry_out(self, form: Any) -> HttpResponse:
        choose_mails(self.owner, form.cleaned_data["mails"], actor=self.actor)
        messages.success(self.request, gettext("Saved the choice of mails."), fail_silently=True)
        return HttpResponseRedirect(self.cancel_url)
