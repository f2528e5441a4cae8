from uuid import uuid4

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from replicas import freeze

from webhooks_app import forget_owner
from webhooks_app.owners import MemberOwners

OWNER = "alice"
STAFF = "root"
MEMBER = "member"
ARE_GROUPS = settings.WEBHOOKS_OWNER_MODEL == "auth.Group"


class Groups(MemberOwners):
    members = "user"


def prepare():
    """Copy the primary after the accounts of the staff, by which Django authenticates, and before all owners."""
    call_command("migrate", database="primary", verbosity=0)
    users = get_user_model().objects.db_manager("primary")
    users.create_superuser(STAFF, "root@example.com", "secret")
    member = users.create_user(MEMBER, is_staff=True)
    ours = Permission.objects.using("primary").filter(content_type__app_label="webhooks_app")
    member.user_permissions.set(ours.exclude(codename="manage_all_webhooks"))
    freeze()


def create():
    new_owner(OWNER)


def new_owner(name):
    """Create an owner that the replica does not have."""
    if ARE_GROUPS:
        return Group.objects.create(name=name)
    return get_user_model().objects.create_user(name)


def owner_of_member():
    """Return the only owner whose rows the member of the staff sees."""
    member = get_user_model().objects.using("primary").get(username=MEMBER)
    if not ARE_GROUPS:
        forget_owner(member)
        return member
    group = Group.objects.create(name=f"group-{uuid4()}")
    member.groups.set([group])
    return group


def owner():
    model = Group if ARE_GROUPS else get_user_model()
    return model.objects.using("primary").get(**{"name" if ARE_GROUPS else "username": OWNER})
