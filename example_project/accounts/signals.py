"""Django signals about subscriptions, sent inside the transaction of the change.

Each has the argument ``subscription``.

For new accounts, Django's own ``post_save`` of the user model is used.
"""

from django.dispatch import Signal

user_subscribed = Signal()
user_unsubscribed = Signal()
