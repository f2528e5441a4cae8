"""The accounts of a host. A host with its own owner or user model has this module in its folder."""

from django.contrib.auth import get_user_model

OWNER = "alice"
STAFF = "root"


def create():
    """Create the owner of the webhooks, and a user with access to the whole console."""
    users = get_user_model()
    users.objects.create_user(OWNER)
    users.objects.create_superuser(STAFF, "root@example.com", "secret")


def owner():
    return get_user_model().objects.get_by_natural_key(OWNER)
