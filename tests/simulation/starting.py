"""The start of a process of histories, before it imports anything of the app."""

from __future__ import annotations


def set_up() -> None:
    import django

    django.setup()
