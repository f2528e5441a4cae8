"""Storage parameters of tables."""

from typing import Any

from django.db import migrations
from django.db.migrations.operations.base import Operation

from webhooks_app.database.dialects import dialect_for


class SetFillfactor(Operation):
    """Reserve space on the pages of a model's table for new versions of its rows.

    PostgreSQL can then update columns without an index without changing any index. Other databases need no such space.
    """

    reduces_to_sql = False
    reversible = True

    def __init__(self, model_name: str, percent: int) -> None:
        self.model_name = model_name
        self.percent = percent

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Do nothing. Models have no storage parameters."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        self._set(app_label, schema_editor, to_state, self.percent)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        self._set(app_label, schema_editor, to_state, 100)

    def describe(self) -> str:
        return f"Fill pages of {self.model_name} to {self.percent} %"

    def _set(self, app_label: str, schema_editor: Any, state: Any, percent: int) -> None:
        model = state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            table = schema_editor.quote_name(model._meta.db_table)
            for sql in dialect_for(schema_editor.connection).fillfactor_sql(table, percent):
                schema_editor.execute(sql)


class Migration(migrations.Migration):
    dependencies = [("webhooks_app", "0001_initial")]

    operations = [
        SetFillfactor("QueueEntry", 45),
        SetFillfactor("QueueLane", 40),
        SetFillfactor("Delivery", 47),
        SetFillfactor("WorkerSession", 40),
    ]
