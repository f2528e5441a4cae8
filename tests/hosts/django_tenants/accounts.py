from django.contrib.auth import get_user_model
from django.core.management import call_command

OWNER = "alice"
STAFF = "root"


def prepare():
    """Create the shared schema, and a tenant at the address of the server."""
    call_command("migrate_schemas", shared=True, verbosity=0)
    from customers.models import Customer, Domain

    customer = Customer.objects.create(schema_name="acme", name="Acme")
    Domain.objects.create(domain="127.0.0.1", tenant=customer, is_primary=True)


def create():
    users = get_user_model()
    users.objects.create_user(OWNER)
    users.objects.create_superuser(STAFF, "root@example.com", "secret")


def owner():
    return get_user_model().objects.get_by_natural_key(OWNER)
