"""``manage.py resume_webhook``"""

from __future__ import annotations

from ...pages.actions import WEBHOOK
from . import pause_webhook


class Command(pause_webhook.Command):
    help = (
        "Resume a paused webhook. Held deliveries are sent first, oldest due time first. "
        "Prints the number of its waiting deliveries."
    )
    action = WEBHOOK["resume"]
