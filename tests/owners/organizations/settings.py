"""Settings of a project whose owners are organizations with UUID keys and members, and whose users log in by e-mail."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.owners.organizations"]
AUTH_USER_MODEL = "organizations.User"
WEBHOOKS_OWNER_MODEL = "organizations.Organization"
WEBHOOKS_OWNERS = "webhooks_app.owners.MemberOwners"
