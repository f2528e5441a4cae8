from django.contrib.auth import get_user_model
from people.models import Organization

OWNER = "Acme"
STAFF = "staff@example.com"


def create():
    """Create two organizations, and a member of one with permission to view webhooks, but not those of others."""
    from django.contrib.auth.models import Permission

    member = get_user_model().objects.create_user(STAFF, "secret", is_staff=True)
    member.user_permissions.set(
        Permission.objects.filter(content_type__app_label="webhooks_app").exclude(codename="manage_all_webhooks")
    )
    Organization.objects.create(name=OWNER).members.add(member)
    Organization.objects.create(name="Globex")


def owner():
    return Organization.objects.get(name=OWNER)
