"""The queue's statements for MariaDB and MySQL."""

from __future__ import annotations

from .portable import PortableSql


class MysqlSql(PortableSql):
    probes_hint = "FORCE INDEX (webhooks_queue_probes)"
    """Otherwise they read the whole backlog in the order of due times."""
