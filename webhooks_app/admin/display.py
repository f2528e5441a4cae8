"""What several pages show: JSON laid out, links between models, a secret for this once."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext


class WideCheckboxes(forms.CheckboxSelectMultiple):
    """Check boxes whose labels are not broken after a few letters: the admin's own class for that is this one."""

    def __init__(self, attrs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__({"class": "radiolist", **(attrs or {})}, **kwargs)


def pretty_json(text: str) -> SafeString:
    return preformatted(json.dumps(json.loads(text), indent=2, ensure_ascii=False))


def preformatted(text: str) -> SafeString:
    return format_html("<pre>{}</pre>", text)


def link_to(item: Model, *, site: str) -> SafeString:
    """Return a link to the page of a row in the admin site of this name."""
    name = f"admin:{item._meta.app_label}_{item._meta.model_name}_change"
    return format_html('<a href="{}">{}</a>', reverse(name, args=(item.pk,), current_app=site), item.pk)


def link_to_search(model: type[Model], term: str, label: Any, *, site: str) -> SafeString:
    """Return a link to the list of a model, narrowed to what a search finds."""
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
    url = reverse(name, current_app=site, query={"q": term})
    return format_html('<a href="{}">{}</a>', url, label)


def shown_once(label: str, secret: str) -> SafeString:
    return format_html("{} <code>{}</code> {}", label, secret, gettext("Copy it now: it is not shown again."))
