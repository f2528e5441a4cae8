"""Each column of each table has a sentence, and no sentence is about a column that does not exist."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps

from docs.rendering import database

FIELDS = [
    field for model in apps.get_app_config("webhooks_app").get_models() for field in model._meta.local_concrete_fields
]


@pytest.mark.parametrize("field", [pytest.param(field, id=str(field)) for field in FIELDS])
def test_a_column_has_a_sentence(field: Any) -> None:
    assert database.description(field).endswith(".")


def test_no_sentence_is_left_over() -> None:
    described = {(table, column) for table, columns in database._descriptions().items() for column in columns}

    assert described - {(field.model._meta.db_table, field.column) for field in FIELDS if not field.help_text} == set()
