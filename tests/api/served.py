"""The WSGI and ASGI applications of the test project, for the servers of ``test_servers``."""

import os

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"

wsgi = get_wsgi_application()
asgi = get_asgi_application()
