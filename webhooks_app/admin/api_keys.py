"""API keys in the admin."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import ApiKey
from ..models.api_key import SERVICE_SCOPES
from ..operations.api_keys import change_key, create_key, may_grant
from ..operations.rights import CREATE_KEY
from ..owners import owners
from ..pages.actions import API_KEY
from ..pages.form_fields import NEVER_EXPIRES, ExpiryField
from ..pages.forms import RefusableForm
from ..pages.lists import KEYS
from .actions import with_deletion
from .display import time_column
from .export import ExportingAdmin
from .owned import actor_of, manages_all, without_names
from .owner_fields import Audience, AudienceForm, OwnableAdmin
from .shown_once import ShowingSecrets

GENERATED_FIELDS = ("id", "prefix", "created_by", "created", "last_used", "revoked")


class ApiKeyForm(AudienceForm, RefusableForm):
    names_one = _("Enter an account or choose “a service”.")
    names_none = _("Leave this empty for a service key, or choose “one account”.")

    audience = forms.ChoiceField(
        label=_("Key of"),
        choices=[(Audience.ONE, _("one account")), (Audience.EVERY, _("a service"))],
        initial=Audience.ONE,
        widget=forms.RadioSelect,
        help_text=_("A service key emits events of every account, and does nothing else: its scope is events:emit."),
    )
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=ApiKey.Scope.choices,
        widget=forms.CheckboxSelectMultiple({"class": "radiolist"}),
        help_text=_("Only what you may do yourself for the account. Leave empty for a service key."),
    )
    expires_at = ExpiryField()

    class Meta:
        model = ApiKey
        fields = ("owner", "name", "scopes", "expires_at")

    grantable: Collection[str] = ()
    """The scopes that the user may give to a key."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settle_audience()
        is_new = self.instance._state.adding
        scopes = self.fields.get("scopes")
        if isinstance(scopes, forms.MultipleChoiceField) and (is_new or not self.instance.is_service_key):
            grantable = {*self.grantable, *([] if is_new else self.instance.scopes)} - SERVICE_SCOPES
            scopes.choices = [choice for choice in ApiKey.Scope.choices if choice[0] in grantable]
            scopes.required = "audience" not in self.fields  # by the model then: a service key has its own scope

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self.check_audience()
        if self.is_for_every and self.cleaned_data.get("scopes"):
            self.add_error("scopes", _("A service key has no scope of accounts. Untick them, or choose “one account”."))
        elif self.is_for_every:
            self.cleaned_data["scopes"] = sorted(SERVICE_SCOPES)
        elif "scopes" in self.fields and not self.cleaned_data.get("scopes") and "scopes" not in self.errors:
            self.add_error("scopes", _("Tick at least one scope."))
        return cleaned


@admin.register(ApiKey)
class ApiKeyAdmin(OwnableAdmin, ShowingSecrets, ExportingAdmin):
    form = ApiKeyForm
    creating = CREATE_KEY
    listed = KEYS
    exported = {}  # noqa: RUF012 # each column exports itself
    list_display = ("prefix", "name", "owner_name", "created", "expires", "last_used", "revoked")
    created = time_column("created_at", _("created"))
    expires = time_column("expires_at", _("expires"))
    last_used = time_column("last_used_at", _("last used"))
    revoked = time_column("revoked_at", _("revocation"))
    list_select_related = ("owner",)
    table = with_deletion(API_KEY)
    actions = tuple(table)
    page_actions = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        if obj is None:
            audience = ["audience"] if manages_all(request) else []
            return [*audience, *self.owner_fields(request), "name", "scopes", "expires_at"]
        return list(without_names(request, ["owner_name", "name", "scopes", "expires_at", *GENERATED_FIELDS]))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.grantable = self._grantable(request, obj)
        return form

    def _grantable(self, request: HttpRequest, obj: ApiKey | None) -> list[str]:
        """Return the scopes that the user may give to this key, or to a new key of one of their accounts."""
        actor = actor_of(request)
        if obj is not None or manages_all(request):
            owner_ids = [obj.owner_id if obj is not None else None]
        else:
            owner_ids = [owner.pk for owner in actor.owners_for(CREATE_KEY)]
        return [name for name in ApiKey.Scope.values if any(may_grant(name, owner_id, actor) for owner_id in owner_ids)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("owner_name", *GENERATED_FIELDS) if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        if change:
            change_key(obj, actor=actor_of(request))
            return
        fields = {"id": obj.pk, "name": obj.name, "scopes": obj.scopes, "expires_at": obj.expires_at}
        made, text = create_key(owner=obj.owner, actor=actor_of(request), **fields)
        obj.prefix, obj.text = made.prefix, text

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponseRedirect:
        if obj.expires_at is None:
            self.message_user(request, str(NEVER_EXPIRES), messages.WARNING)
        return self.show_once(request, obj, obj.text)

    def label_of_secret(self, item: ApiKey) -> str:
        return gettext("New API key")

    def described(self, item: ApiKey) -> str:
        account = gettext("service") if item.owner is None else owners().label(item.owner)
        return f"{item} ({account})"
