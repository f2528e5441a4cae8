"""Wake-ups by Celery."""

from __future__ import annotations

from collections.abc import Sequence

from celery import current_app

from .messages import BaseMessageWake

TASK = "webhooks_app.deliver_due"


class CeleryWake(BaseMessageWake):
    """Sends the task of this name, which the host's settings route. Eager tasks deliver before ``wake`` returns."""

    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        if current_app.conf.task_always_eager:
            current_app.tasks[TASK].delay()
        else:
            super().wake(using, webhook_ids)

    def send(self) -> None:
        # Without retries: the next event sends another message, and the sweep needs none.
        current_app.send_task(TASK, retry=False, expires=60, ignore_result=True)
