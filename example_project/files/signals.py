"""Django signals about files, sent inside the transaction of the change, with the argument ``file``."""

from django.dispatch import Signal

file_uploaded = Signal()
file_processed = Signal()
file_deleted = Signal()
