"""API keys in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import ApiKey
from ..models.api_key import all_scopes
from .actions import ActingAdmin
from .display import WideCheckboxes
from .filters import CreatedFilter
from .owned import manages_all

GENERATED_FIELDS = ("id", "prefix", "created_at", "last_used_at", "revoked_at")


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"), choices=ApiKey.Scope.choices, initial=all_scopes, widget=WideCheckboxes
    )

    class Meta:
        model = ApiKey
        fields = ("owner", "name", "scopes", "expires_at")


@admin.register(ApiKey)
class ApiKeyAdmin(ActingAdmin):
    form = ApiKeyForm
    id_lookups = (("key", "pk"),)
    search_help_text = _("An id (key_…), the beginning of a key (whk_…), or the name of an account.")
    list_display = ("prefix", "name", "owner", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_filter = (CreatedFilter, "revoked_at")
    list_select_related = ("owner",)
    raw_id_fields = ("owner",)
    actions = ("revoke", "delete_selected")
    page_actions = ("revoke",)

    def offers(self, item: ApiKey, action: str) -> bool:
        return item.revoked_at is None

    def matches_text(self, term: str) -> Q:
        if term.startswith("whk_"):
            return Q(prefix=term.split("_")[1])
        return super().matches_text(term)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        owner = ["owner"] if manages_all(request) else []
        shown = GENERATED_FIELDS if obj else ()
        return [*owner, "name", "scopes", "expires_at", *shown]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("owner", *GENERATED_FIELDS) if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        if change:
            obj.change()
            return
        owner = obj.owner if manages_all(request) else request.user
        made, text = ApiKey.objects.make(
            id=obj.pk, owner=owner, name=obj.name, scopes=obj.scopes, expires_at=obj.expires_at
        )
        obj.prefix, obj.text = made.prefix, text

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> TemplateResponse:
        return self.show_once(request, gettext("The key is"), obj.text)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for api_key in queryset:
            api_key.delete()

    @admin.action(description=_("Revoke"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext("Refuse these keys from now on? That cannot be undone.")
        return self.ask_and_carry_out(
            request, queryset, _revoke, action="revoke", question=question, history=gettext("Revoked the key.")
        )


def _revoke(api_key: ApiKey) -> None:
    if api_key.revoked_at is None:
        api_key.revoke()
