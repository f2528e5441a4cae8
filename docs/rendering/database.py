"""The tables of the app, from its models. ``columns.toml`` describes the columns that have no help text."""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import models

COLUMNS = ("| column | type | null | meaning |", "|---|---|---|---|")
DESCRIPTIONS = Path(__file__).with_name("columns.toml")


def database_tables() -> str:
    """Return a section for each table, with its columns, indexes and constraints."""
    found = sorted(apps.get_app_config("webhooks_app").get_models(), key=lambda model: model._meta.db_table)
    return "\n".join(line for model in found for line in _section(model))


def _section(model: type[models.Model]) -> Iterator[str]:
    yield from (f"## {model._meta.db_table}", "", _summary(model), "", *COLUMNS)
    for field in sorted(model._meta.local_concrete_fields, key=lambda field: not field.primary_key):
        yield _row(field)
    yield ""
    names = [index.name for index in model._meta.indexes]
    if names:
        yield from (f"Indexes: {', '.join(f'`{name}`' for name in names)}", "")
    rules = [constraint.name for constraint in model._meta.constraints]
    if rules:
        yield from (f"Constraints: {', '.join(f'`{name}`' for name in rules)}", "")


def _summary(model: type[models.Model]) -> str:
    """Return the first paragraph of the docstring of the model or, if Django made that, of its module."""
    text = inspect.getdoc(model) or ""
    if text.startswith(f"{model.__name__}("):
        text = inspect.getdoc(sys.modules[model.__module__]) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _row(field: Any) -> str:
    key = " (primary key)" if field.primary_key else ""
    null = "yes" if field.null else "no"
    target = f" References `{field.related_model._meta.db_table}`." if field.related_model else ""
    return f"| `{field.column}` | {field.get_internal_type()}{key} | {null} | {description(field)}{target} |"


def description(field: Any) -> str:
    """Return the sentence about a column. Raises KeyError if nothing describes it."""
    return str(field.help_text) or _descriptions()[field.model._meta.db_table][field.column]


@cache
def _descriptions() -> dict[str, dict[str, str]]:
    """Return the sentences by table and column."""
    return tomllib.loads(DESCRIPTIONS.read_text(encoding="utf-8"))
