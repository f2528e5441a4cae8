"""Fixtures of the service. ``test_service.py`` runs these tests under the service's own settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from django.contrib.auth.models import User

collect_ignore_glob = [] if os.environ.get("DJANGO_SETTINGS_MODULE") == f"{__package__}.settings" else ["*"]


@pytest.fixture(autouse=True)
def _everything_fresh(db: None) -> Iterator[None]:
    from django.core.cache import cache

    from example_project.celery import app

    yield
    cache.clear()  # It contains the counters of the throttles.
    with app.connection_for_write() as connection:
        connection.default_channel.queue_purge("celery")


class Account:
    """An account with an API key. Every request has its own transaction."""

    def __init__(self, user: User, run_callbacks: Callable[..., Any]) -> None:
        from rest_framework.test import APIClient

        from webhooks_app.models import ApiKey

        self.user = user
        self.id = f"user_{user.pk}"
        self._client = APIClient(headers={"Authorization": f"Bearer {ApiKey.objects.make(owner=user)[1]}"})
        self._run_callbacks = run_callbacks

    def get(self, path: str, **options: Any) -> Any:
        return self._client.get(path, **options)

    def post(self, path: str, content: Any = None, *, kind: str = "json") -> Any:
        with self._run_callbacks(execute=True):
            return self._client.post(path, content, format=kind)

    def delete(self, path: str) -> Any:
        with self._run_callbacks(execute=True):
            return self._client.delete(path)

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """Return type and data of this account's events, in order."""
        from webhooks_app.models import Event

        return [(event.type, event.data) for event in Event.objects.filter(owner=self.user).order_by("created_at")]

    def event_types(self) -> list[str]:
        return [event_type for event_type, _ in self.events()]


@pytest.fixture
def make_account(
    db: None, django_user_model: type[User], django_capture_on_commit_callbacks: Callable[..., Any]
) -> Callable[[str], Account]:
    def make(username: str) -> Account:
        user = django_user_model.objects.create_user(username)
        account = Account(user, django_capture_on_commit_callbacks)
        _forget_events()
        return account

    return make


@pytest.fixture
def amina(make_account: Callable[[str], Account]) -> Account:
    return make_account("amina")


@pytest.fixture
def work(db: None, django_capture_on_commit_callbacks: Callable[..., Any]) -> Callable[[], None]:
    """Run the tasks in the broker's queue, as a worker does."""
    from queue import Empty

    from example_project.celery import app

    def work() -> None:
        with app.connection_for_read() as connection, django_capture_on_commit_callbacks(execute=True):
            queue = connection.SimpleQueue("celery")
            while True:
                try:
                    message = queue.get_nowait()
                except Empty:
                    return
                message.ack()
                name = message.headers["task"]
                if name.startswith("example_project."):
                    app.tasks[name](*message.payload[0])

    return work


def _forget_events() -> None:
    from webhooks_app.models import Event

    Event.objects.all().delete()
