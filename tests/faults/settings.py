"""The test project's settings, with what a fault needs otherwise taken from the environment."""

import json
import os

from tests.settings import *  # noqa: F403

for _name, _value in json.loads(os.environ.get("TEST_SETTINGS", "{}")).items():
    globals()[_name] = _value
