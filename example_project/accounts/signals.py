"""What happens to subscriptions, as Django signals; sent inside the transaction that makes it so.

Each comes with ``subscription``.

That an account is registered is told by Django itself: ``post_save`` of the user model.
"""

from django.dispatch import Signal

user_subscribed = Signal()
user_unsubscribed = Signal()
