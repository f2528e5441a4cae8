"""The hosts: projects with unusual configurations. Each is a folder with a ``settings`` module next to this file.

A host's folder precedes ``project`` on its path, so a module in the folder replaces the common one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """A project and its commands. ``{port}`` in a command is the port of the server."""

    name: str
    folder: str = ""
    database: str = "sqlite"
    broker: bool = False
    serve: str = "python {project}/manage.py runserver --noreload {port}"
    work: str = "python {project}/manage.py deliver_webhooks"
    console: str = "/admin/webhooks_app/"
    """The path of the console, or "" for a host without it."""
    staff_has_account: bool = True
    """Whether the user of the console also sees an account on the customers' pages."""

    @property
    def path(self) -> list[Path]:
        return [FOLDER / (self.folder or self.name), FOLDER / "project"]


WORKER = "celery --app work worker --loglevel info --without-mingle --without-gossip --concurrency 4"

HOSTS = [
    Host(name="without_celery_sqlite"),
    Host(name="without_celery_postgresql", database="postgresql"),
    Host(name="celery_threads", folder="celery_broker", broker=True, work=f"{WORKER} --pool threads"),
    Host(name="celery_gevent", folder="celery_broker", broker=True, work=f"{WORKER} --pool gevent"),
    Host(name="django_tasks", work="python {project}/manage.py db_worker"),
    Host(name="organizations"),
    Host(name="email_login"),
    Host(name="django_tenants", database="postgresql"),
    Host(name="read_replica"),
    Host(name="read_replica_postgresql", folder="read_replica", database="postgresql", staff_has_account=False),
    Host(name="api_only", console=""),
    Host(name="api_only_with_templates", console=""),
    Host(name="atomic_requests"),
    Host(name="hostile_rest_framework"),
    Host(name="unfold_admin"),
    Host(name="jazzmin_admin"),
    Host(name="second_admin_site", console="/backoffice/webhooks_app/"),
    Host(name="asgi", serve="uvicorn --port {port} --log-level warning asgi:application"),
]
