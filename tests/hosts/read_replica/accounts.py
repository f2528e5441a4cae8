from django.contrib.auth import get_user_model
from django.core.management import call_command

OWNER = "alice"
STAFF = "root"


def prepare():
    call_command("migrate", database="primary", verbosity=0)


def create():
    users = get_user_model()
    users.objects.create_user(OWNER)
    users.objects.create_superuser(STAFF, "root@example.com", "secret")


def owner():
    return get_user_model().objects.get_by_natural_key(OWNER)
