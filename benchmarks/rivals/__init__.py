"""The rivals of the app: one Celery task per delivery, and two packages."""
