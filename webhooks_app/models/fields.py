"""Database fields and indexes that the models share."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext_lazy as _

from ..ids import new_id

if TYPE_CHECKING:
    _TextField = models.Field[str, str]
else:
    _TextField = models.Field

# What a text that is no identifier becomes in a query: an identifier that no row has.
_NO_ID = "0" * 32

NOTHING = "DO 0"
"""What MySQL and MariaDB are told instead of making an index: a migration has to tell them something."""


class IdField(_TextField):
    """A public identifier such as ``evt_…``, stored in 16 bytes where the database has a UUID type that sorts by bytes.

    MariaDB's UUID type sorts in an order of its own, so it gets the 32 hexadecimal digits, as SQLite does.
    """

    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": _("“%(value)s” is not an identifier of the form %(prefix)s_….")
    }

    def __init__(self, *args: Any, prefix: str, **kwargs: Any) -> None:
        self.prefix = prefix
        self._pattern = re.compile(rf"{prefix}_([0-9a-f]{{32}})", re.ASCII)
        kwargs.setdefault("primary_key", True)
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        return name, path, args, {**kwargs, "primary_key": self.primary_key, "prefix": self.prefix}

    def get_internal_type(self) -> str:
        return "IdField"

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "uuid" if connection.vendor == "postgresql" else "char(32)"

    def get_default(self) -> str | None:
        return new_id(self.prefix) if self.primary_key else None

    def has_default(self) -> bool:
        return self.primary_key

    def to_python(self, value: Any) -> Any:
        if value is None or (isinstance(value, str) and self._pattern.fullmatch(value)):
            return value
        raise ValidationError(
            self.error_messages["invalid"], code="invalid", params={"value": value, "prefix": self.prefix}
        )

    def get_prep_value(self, value: Any) -> str | None:
        # Django prepares a value more than once, so the prefix stays until the value goes to the database.
        if value is None:
            return None
        return str(value) if self._pattern.fullmatch(str(value)) else f"{self.prefix}_{_NO_ID}"

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        text = self.get_prep_value(value)
        if text is None:
            return None
        digits = text.removeprefix(f"{self.prefix}_")
        return uuid.UUID(digits) if connection.vendor == "postgresql" else digits

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> str | None:
        if value is None:
            return None
        return f"{self.prefix}_{value.hex if isinstance(value, uuid.UUID) else value}"


class PartialIndex(models.Index):
    """An index over the rows that match ``only``; over all rows, and the fields ``otherwise``, where the
    database has no partial indexes.

    With ``otherwise=None`` there is none on such a database, where it would not be worth its cost for all rows. Django
    makes one over all rows of a ``models.Index(condition=…)`` there.
    """

    def __init__(self, *, only: models.Q, otherwise: Sequence[str] | None = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.only = only
        self.otherwise = None if otherwise is None else tuple(otherwise)

    def deconstruct(self) -> Any:
        path, args, kwargs = super().deconstruct()
        return path, args, {**kwargs, "only": self.only, "otherwise": self.otherwise}

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        partial = schema_editor.connection.features.supports_partial_indexes
        if self.otherwise is None and not partial:
            return NOTHING
        fields = self.fields if partial else self.otherwise or self.fields
        plain = models.Index(fields=fields, name=self.name, condition=self.only if partial else None)
        return plain.create_sql(model, schema_editor, using, **kwargs)

    def remove_sql(self, model: Any, schema_editor: Any, **kwargs: Any) -> Any:
        if self.otherwise is None and not schema_editor.connection.features.supports_partial_indexes:
            return NOTHING
        return super().remove_sql(model, schema_editor, **kwargs)
