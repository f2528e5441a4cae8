from django.contrib.auth import get_user_model

OWNER = "alice@example.com"
STAFF = "root@example.com"


def create():
    people = get_user_model()
    people.objects.create_user(OWNER)
    people.objects.create_superuser(STAFF, "secret")


def owner():
    return get_user_model().objects.get_by_natural_key(OWNER)
