"""What happens to presentations, as Django signals.

All are sent inside the transaction that makes it so, with ``presentation``; the failures with ``error`` beside it.
"""

from django.dispatch import Signal

generation_started = Signal()
generation_completed = Signal()
generation_failed = Signal()
generation_cancelled = Signal()
edit_started = Signal()
edit_completed = Signal()
edit_failed = Signal()
