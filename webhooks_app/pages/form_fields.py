"""Form fields of the console: JSON, secrets, and the options of a webhook."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import (
    known_policies,
    known_signatures,
    offered_orders,
    offered_policies,
    offered_recoveries,
    offered_signatures,
    retry_policy,
)
from ..encryption import Masked
from ..models import Webhook
from ..models.own_headers import REDACTED
from ..models.webhook import Order, Recovery
from ..models.webhook_secret import default_signatures
from ..retry import BaseRetryPolicy
from ..signatures import BaseSignature
from .display import MomentInput
from .filters import WITHIN

NEW_PUBLIC_KEY = _("The new public key is %(key)s. Receivers verify with it.")

SUGGESTED_EXPIRY = timedelta(days=90)

NEVER_EXPIRES = _("The key never expires. Revoke it when it is no longer needed.")

MAX_NESTING = 100
"""Far below the recursion limit of Python: each form with errors decodes and encodes the value again."""


def suggested_expiry() -> datetime:
    return timezone.localtime(timezone.now() + SUGGESTED_EXPIRY).replace(second=0, microsecond=0)


class ExpiryField(forms.DateTimeField):
    """The time at which an API key expires, with a suggestion for a new one."""

    widget = MomentInput

    def __init__(self) -> None:
        super().__init__(
            label=_("Expires"),
            required=False,
            initial=suggested_expiry,
            validators=WITHIN,
            help_text=_(
                "Its creator and its account get a mail 14 and 3 days before. Empty for a key that never expires: "
                "whoever finds it can use it until it is revoked."
            ),
        )


class BoundedDecoder(json.JSONDecoder):
    """Decoder that raises only JSONDecodeError, the one error that Django's field catches."""

    def decode(self, text: str, *args: Any) -> Any:
        try:
            value = super().decode(text, *args)
            json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:  # too many digits, nested too deeply, a lone surrogate
            raise json.JSONDecodeError(str(error), "", 0) from None
        if _is_deeper(value, MAX_NESTING):
            raise json.JSONDecodeError("The value is nested too deeply.", "", 0)
        return value


class BoundedJSONField(forms.JSONField):
    def __init__(self, *, decoder: Any = None, **kwargs: Any) -> None:
        super().__init__(decoder=decoder or BoundedDecoder, **kwargs)

    def to_python(self, value: Any) -> Any:
        """Name the line and the column of broken JSON in the error."""
        try:
            return super().to_python(value)
        except forms.ValidationError as error:
            cause = error.__context__
            if not isinstance(cause, json.JSONDecodeError) or not cause.doc:
                raise
            place = {"line": cause.lineno, "column": cause.colno, "problem": cause.msg}
        message = _("Invalid JSON in line %(line)d, column %(column)d: %(problem)s.")
        raise forms.ValidationError(message, code="invalid", params=place)


def _is_deeper(value: Any, levels: int) -> bool:
    """Return True if arrays and objects are nested more than ``levels`` deep."""
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


class MaskedField(forms.CharField):
    """A field for a text that contains secrets. Django logs the repr of values that a template looks into."""

    def to_python(self, value: Any) -> str:
        return Masked(super().to_python(value))

    def bound_data(self, data: Any, initial: Any) -> Any:
        return Masked(data) if isinstance(data, str) else data


class SecretField(MaskedField):
    """A field for a secret. A form with errors does not show it again."""

    def bound_data(self, data: Any, initial: Any) -> None:
        return None


class NewSecretForm(forms.Form):
    """Mixin for the forms of a new webhook."""

    secret = SecretField(
        label=_("Secret"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "class": "vTextField"}),
        help_text=_("16 to 256 characters. Leave empty to generate one. It is shown only once."),
    )


def option_choices(webhook: Webhook) -> dict[str, list[tuple[str, Any]]]:
    """Return the choices of each option: those that the settings offer, and the one that the webhook uses."""
    default = ("", _("Default (%(name)s)") % {"name": label_of(retry_policy())})
    orders, recoveries = {*offered_orders(), webhook.order}, {*offered_recoveries(), webhook.recovery}
    policies = _choices(offered_policies(), filter(None, [webhook.retry_policy]), known_policies())
    return {
        "signatures": _choices(offered_signatures(), webhook.signatures, known_signatures()),
        "retry_policy": [default, *policies],
        "order": [choice for choice in Order.choices if choice[0] in orders],
        "recovery": [choice for choice in Recovery.choices if choice[0] in recoveries],
    }


def without_reordering(chosen: list[str], saved: list[str]) -> list[str]:
    """Return the chosen names, or the saved list if it has the same in another order. A form has its own order."""
    return saved if sorted(chosen) == sorted(saved) else chosen


def _choices(offered: Iterable[str], own: Iterable[str], known: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, _label(name, known.get(name))) for name in dict.fromkeys((*offered, *own))]


def _label(name: str, choice: BaseSignature | BaseRetryPolicy | None) -> str:
    if choice is None:
        return _("%(name)s: no longer configured") % {"name": name}
    shown = label_of(choice)
    return f"{shown}: {gettext(choice.description)}" if choice.description else shown


def labels_of_signatures(webhook: Webhook) -> list[str]:
    """Return what pages call the schemes of a webhook; a scheme that is no longer configured has only its name."""
    known = known_signatures()
    return [label_of(known[name]) if name in known else name for name in webhook.signatures]


def label_of(choice: BaseSignature | BaseRetryPolicy) -> str:
    """Return what pages call a scheme or a policy."""
    return gettext(choice.label) if choice.label else choice.name


KEPT_IF_EMPTY = {"accepted_statuses", "order", "recovery"}
"""Fields without an empty choice, which a form of a program may leave out."""


class HeadersField(MaskedField):
    """A field for custom headers, one per line. A form with errors shows their names, not the entered values."""

    def bound_data(self, data: Any, initial: Any) -> str:
        lines = [line.partition(":") for line in (data or "").splitlines()]
        return "\n".join(f"{name}:{_without_value(value)}" for name, colon, value in lines if colon)


def _without_value(text: str) -> str:
    return f" {REDACTED}" if text.strip() == REDACTED else ""


HELP_FOR_NEW: Mapping[str, Any] = {
    "signatures": _("Each request carries a signature of every selected scheme."),
    "headers": _("One per line, such as “X-Tenant: acme”. Values are stored encrypted."),
    "basic_auth": _("For basic authentication, sent in the Authorization header."),
    "basic_password": "",
}
"""Help texts in the form of a new webhook, which has no stored values."""


class ChoiceFields(forms.Form):
    """Mixin for ModelForms of webhooks."""

    instance: Webhook

    signatures = forms.MultipleChoiceField(
        label=_("Signatures"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        initial=default_signatures,
        help_text=_(
            "Each request carries a signature of every selected scheme. If none is selected, the schemes stay "
            "unchanged."
        ),
    )
    removes_signatures = forms.BooleanField(
        label=_("Remove signatures"),
        required=False,
        help_text=_("Confirm that no receiver verifies the signatures that you deselect."),
    )
    retry_policy = forms.ChoiceField(label=_("Retry policy"), required=False)
    headers = HeadersField(
        label=_("Headers"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField", "autocomplete": "off"}),
        help_text=_(
            "One per line, such as “X-Tenant: acme”. Values are stored encrypted and shown as ********; leave the "
            "asterisks to keep the stored value. Changing the scheme, host or port of the URL removes the headers."
        ),
    )
    basic_auth = forms.CharField(
        label=_("User name"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "class": "vTextField"}),
        help_text=_(
            "For basic authentication, sent in the Authorization header. Leave empty to keep the current value. To "
            "remove both, delete the line of the header."
        ),
    )
    basic_password = SecretField(
        label=_("Password"),
        help_text=_("Leave empty to keep the current value."),
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "vTextField"}),
    )

    def set_choices(self) -> None:
        """Offer the choices of the webhook, with help texts about stored values unless it is new."""
        webhook, self._headers_before = self.instance, dict(self.instance.headers)
        for name, choices in option_choices(webhook).items():
            if name in self.fields:
                self.fields[name].choices = choices  # type: ignore[attr-defined]
        for name in KEPT_IF_EMPTY & self.fields.keys():
            self.fields[name].required = False
        if "headers" in self.fields:
            self.fields["headers"].initial = _as_lines(self._headers_before)
        for name, text in HELP_FOR_NEW.items() if webhook._state.adding else ():
            if name in self.fields:
                self.fields[name].help_text = text

    def clean_signatures(self) -> list[str]:
        saved = list(self.instance.signatures)
        return without_reordering(self.cleaned_data["signatures"] or saved, saved)

    def _check_removed_signatures(self) -> None:
        """Refuse to drop a signature that receivers may verify, unless the user confirms it."""
        chosen = self.cleaned_data.get("signatures")
        if chosen is None or self.instance._state.adding or self.cleaned_data.get("removes_signatures"):
            return
        if removed := [name for name in self.instance.signatures if name not in chosen and name in known_signatures()]:
            message = _(
                "Receivers that verify %(signatures)s will refuse every request from now on. To remove it "
                "nevertheless, tick “Remove signatures”."
            )
            self.add_error("signatures", forms.ValidationError(message, params={"signatures": _with_headers(removed)}))

    @property
    def selects_no_signature(self) -> bool:
        """True if the form has the field, and no signature is selected in it."""
        return "signatures" in self.fields and not self["signatures"].data

    def messages_about_signatures(self, saved: Webhook) -> Iterator[tuple[int, str]]:
        """Yield the level and the text of messages: that none was selected, and the public keys of added signatures."""
        if self.selects_no_signature:
            text = _("No signature is selected. The signatures stay unchanged: %(names)s.")
            yield messages.WARNING, text % {"names": ", ".join(saved.signatures)}
        added = set(saved.signatures) - set(self.initial["signatures"])
        for key in saved.public_keys if added else ():
            if key["scheme"] in added:
                yield messages.SUCCESS, NEW_PUBLIC_KEY % {"key": key["key"]}

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        for name in KEPT_IF_EMPTY & self.cleaned_data.keys():
            self.cleaned_data[name] = self.cleaned_data[name] or getattr(self.instance, name)
        self._check_removed_signatures()
        return cleaned

    def clean_headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for line in self.cleaned_data["headers"].splitlines():
            name, colon, value = line.partition(":")
            if not line.strip():
                continue
            if not colon or not value.strip():
                raise forms.ValidationError(_("Enter a name, a colon and a value on each line."))
            if name.strip().lower() in (known.lower() for known in headers):
                raise forms.ValidationError(_("Enter each name only once."))
            headers[name.strip()] = Masked(value.strip())
        return headers

    @property
    def header_arguments(self) -> dict[str, Any]:
        """The changed headers and credentials as arguments of operations."""
        data, changes = self.cleaned_data, {}
        if "headers" in data and data["headers"] != self._headers_before:
            changes["headers"] = data["headers"]
        if data.get("basic_auth") or data.get("basic_password"):
            changes["basic_auth"] = data["basic_auth"] or None, data["basic_password"] or None
        return changes


def _with_headers(names: Iterable[str]) -> str:
    schemes = known_signatures()
    return ", ".join(f"{name} ({schemes[name].signature_header})" for name in names)


def _as_lines(headers: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in headers.items())
