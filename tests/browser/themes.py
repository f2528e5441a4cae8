"""Settings of the test project with another admin theme, whose name is in ``ADMIN_THEME``."""

import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS, MIDDLEWARE

THEMES = {
    "unfold": ["unfold", "unfold.contrib.filters", "unfold.contrib.forms", "tests.hosts.unfold_admin.look"],
    "jazzmin": ["jazzmin"],
}

INSTALLED_APPS = [*THEMES[os.environ["ADMIN_THEME"]], *INSTALLED_APPS]
MIDDLEWARE = [each for each in MIDDLEWARE if each != "tests.browser.policy.strict_policy"]  # themes run inline scripts
JAZZMIN_UI_TWEAKS = {"default_theme_mode": "auto"}
