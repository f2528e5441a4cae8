"""Settings of a project whose users log in by e-mail address; owners are users, by default."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.owners.organizations"]
AUTH_USER_MODEL = "organizations.User"
