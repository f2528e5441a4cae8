"""Django signals about presentations.

All are sent inside the transaction of the change, with the argument ``presentation``. Failures also have ``error``.
"""

from django.dispatch import Signal

generation_started = Signal()
generation_completed = Signal()
generation_failed = Signal()
generation_cancelled = Signal()
edit_started = Signal()
edit_completed = Signal()
edit_failed = Signal()
