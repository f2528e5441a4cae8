"""The WSGI and ASGI applications of the test project, with a receiver, for the servers of ``test_servers``."""

import os

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.urls import path

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"

wsgi = get_wsgi_application()
asgi = get_asgi_application()

from tests import urls  # noqa: E402
from webhooks_app.receiver_view import WebhookReceiverView  # noqa: E402

settings.ROOT_URLCONF = __name__
urlpatterns = [*urls.urlpatterns, path("receive", WebhookReceiverView.as_view(secret="s" * 16, handle=print))]
