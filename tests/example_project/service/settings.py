"""The example project's own settings, on the test run's database and a broker in memory."""

import os
import tempfile

_directory = tempfile.TemporaryDirectory(prefix="wh-example-")
os.environ["VAR_DIR"] = _directory.name
os.environ["CELERY_BROKER_URL"] = "memory://"

from example_project.settings import *  # noqa: E402, F403
from tests.settings import CACHES, DATABASES, PASSWORD_HASHERS  # noqa: E402, F401

DEBUG = False
SECRET_KEY = "tests only"
ALLOWED_HOSTS = ["testserver"]
BASE_URL = "https://service.example"
