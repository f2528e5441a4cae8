"""Organizations with UUID keys own the webhooks. Their members log in with an email address."""

from common_settings import *

INSTALLED_APPS += ["people"]
AUTH_USER_MODEL = "people.Person"
WEBHOOKS_OWNER_MODEL = "people.Organization"
WEBHOOKS_OWNERS = "webhooks_app.owners.MemberOwners"
