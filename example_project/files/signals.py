"""What happens to files, as Django signals; sent inside the transaction that makes it so, with ``file``."""

from django.dispatch import Signal

file_uploaded = Signal()
file_processed = Signal()
file_deleted = Signal()
