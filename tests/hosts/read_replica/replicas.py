"""The router in Django's documentation, and the copy that it reads from."""

import sqlite3
from contextlib import closing

from django.db import connections


class PrimaryReplicaRouter:
    def db_for_read(self, model, **hints):
        return "replica"

    def db_for_write(self, model, **hints):
        return "primary"

    def allow_relation(self, obj1, obj2, **hints):
        return True

    def allow_migrate(self, db, app_label, model_name=None, **hints):
        return db == "primary"


def freeze():
    """Copy the primary as it is now. Nothing updates the copy."""
    primary, replica = (connections[alias].settings_dict for alias in ("primary", "replica"))
    connections.close_all()
    if connections["primary"].vendor == "sqlite":
        copy = replica["NAME"].removeprefix("file:").partition("?")[0]
        with closing(sqlite3.connect(primary["NAME"])) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        return
    import psycopg

    address = {"host": primary["HOST"], "port": primary["PORT"], "user": primary["USER"], "dbname": "postgres"}
    with psycopg.connect(**address, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {replica['NAME']} TEMPLATE {primary['NAME']}")
