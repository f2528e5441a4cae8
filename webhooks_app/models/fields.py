"""Model fields and indexes shared by several models."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.fields.related_descriptors import ForwardManyToOneDescriptor
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..database.clock import is_followed, now
from ..database.dialects import dialect_for
from ..database.sql import current
from ..owners import owner_model_name
from ..protocol.ids import new_id, pattern_of
from ..reasons import ReasonText, as_parameter, as_stored, from_stored, template_for

if TYPE_CHECKING:
    _TextField = models.Field[str, str]
    _ForeignKey = models.ForeignKey[Any, Any]
    _Descriptor = ForwardManyToOneDescriptor[Any]
else:
    _TextField = models.Field
    _ForeignKey = models.ForeignKey
    _Descriptor = ForwardManyToOneDescriptor

# Replaces an invalid identifier in a query. No row has this value.
_NO_ID = "0" * 32


class IdField(_TextField):
    """A public identifier such as ``evt_…``. Stored as a UUID if that type sorts by bytes, else as 32 digits."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": _("“%(value)s” is not an identifier of the form %(prefix)s_….")
    }

    def __init__(self, *args: Any, prefix: str, **kwargs: Any) -> None:
        self.prefix = prefix
        self._pattern = pattern_of(prefix)
        kwargs.setdefault("verbose_name", _("ID"))
        kwargs.setdefault("primary_key", True)
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        return name, path, args, {**kwargs, "primary_key": self.primary_key, "prefix": self.prefix}

    def get_internal_type(self) -> str:
        return "IdField"

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return dialect_for(connection).id_column

    def get_default(self) -> str | None:
        return new_id(self.prefix, now() if is_followed() else None) if self.primary_key else None

    def has_default(self) -> bool:
        return self.primary_key

    def to_python(self, value: Any) -> Any:
        if value is None or (isinstance(value, str) and self._pattern.fullmatch(value)):
            return value
        raise ValidationError(
            self.error_messages["invalid"], code="invalid", params={"value": value, "prefix": self.prefix}
        )

    def get_prep_value(self, value: Any) -> str | None:
        # Django may prepare a value repeatedly, so the prefix is removed only in get_db_prep_value().
        if value is None:
            return None
        return str(value) if self._pattern.fullmatch(str(value)) else f"{self.prefix}_{_NO_ID}"

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        text = self.get_prep_value(value)
        if text is None:
            return None
        return dialect_for(connection).to_db_id(text.removeprefix(f"{self.prefix}_"))

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> str | None:
        if value is None:
            return None
        return f"{self.prefix}_{value.hex if isinstance(value, uuid.UUID) else value}"


class _CurrentDescriptor(_Descriptor):
    def get_queryset(self, **hints: Any) -> models.QuerySet[Any]:
        return current(super().get_queryset(**hints), **hints)


class CurrentForeignKey(_ForeignKey):
    """A foreign key whose row is read and validated in the database for writes, as replicas lag behind."""

    forward_related_accessor_class = _CurrentDescriptor

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        is_plain = type(self) is CurrentForeignKey
        return name, "django.db.models.ForeignKey" if is_plain else path, args, kwargs

    def validate(self, value: Any, model_instance: models.Model | None) -> None:
        super(models.ForeignKey, self).validate(value, model_instance)
        model = self.remote_field.model
        rows = current(model._base_manager, instance=model_instance)  # noqa: SLF001 - as ForeignKey.validate
        if value is not None and not rows.filter(pk=value).exists():
            raise ValidationError(
                self.error_messages["invalid"],
                code="invalid",
                params={"model": model._meta.verbose_name, "pk": value, "field": "pk", "value": value},
            )


class OwnerField(CurrentForeignKey):
    """A reference to an owner. Migrations refer to the setting, as they do for the user model."""

    swappable_setting = "WEBHOOKS_OWNER_MODEL"

    def __init__(self, to: Any = None, on_delete: Any = None, **kwargs: Any) -> None:
        super().__init__(to or owner_model_name(), on_delete, **kwargs)


class CompactJSONField(models.JSONField):
    """JSON that is never queried. Stored as text on every database, a third smaller than ``jsonb`` for short values.

    Numbers and the order of keys stay as they were given: ``jsonb`` turns ``1e23`` into an integer. A stored text that
    is not JSON is read as that text.
    """

    def get_internal_type(self) -> str:
        return "TextField"

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        try:
            return None if value is None else json.loads(value)
        except (ValueError, RecursionError):
            return value

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        return value if value is None or isinstance(value, str) else compact_json(value)


def compact_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class ReasonField(models.CharField):  # type: ignore[type-arg]
    """A reason, stored as its code and parameters, or a text that a person wrote."""

    def from_db_value(self, value: str | None, expression: Any, connection: BaseDatabaseWrapper) -> str | None:
        return from_stored(value) if value else value

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        value = super().get_db_prep_value(value, connection, prepared)
        return as_stored(value, self.max_length or len(value)) if isinstance(value, str) else value


class PartialIndex(models.Index):
    """An index of the rows that match ``only``.

    On a database without partial indexes it covers all rows, and the fields in ``otherwise`` if there are any. With
    ``otherwise=None`` there is no index on such a database. ``models.Index(condition=…)`` would always create one.
    """

    def __init__(self, *, only: models.Q, otherwise: Sequence[str] | None = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.only = only
        self.otherwise = None if otherwise is None else tuple(otherwise)

    def deconstruct(self) -> Any:
        path, args, kwargs = super().deconstruct()
        return path, args, {**kwargs, "only": self.only, "otherwise": self.otherwise}

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        connection = schema_editor.connection
        partial = connection.features.supports_partial_indexes
        if self.otherwise is None and not partial:
            return dialect_for(connection).no_operation_sql
        fields = self.fields if partial else self.otherwise or self.fields
        plain = models.Index(fields=fields, name=self.name, condition=self.only if partial else None)
        return plain.create_sql(model, schema_editor, using, **kwargs)

    def remove_sql(self, model: Any, schema_editor: Any, **kwargs: Any) -> Any:
        connection = schema_editor.connection
        if self.otherwise is None and not connection.features.supports_partial_indexes:
            return dialect_for(connection).no_operation_sql
        return super().remove_sql(model, schema_editor, **kwargs)


def translated(text: str) -> str:
    """Return a reason in the current language, and any other text unchanged."""
    if not isinstance(text, ReasonText):
        return text
    params = {
        name: translated(value) if isinstance(value, str) else as_parameter(value)
        for name, value in text.params.items()
    }
    return gettext(template_for(text.code, text.params)) % params


class LooseCharField(models.CharField):  # type: ignore[type-arg]
    """A text that is far shorter than its limit in most rows. Not every database has the limit."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return dialect_for(connection).loose_text_column or super().db_type(connection)
