"""Print the API's OpenAPI document and the status of its page as JSON."""

import json
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")

import django

django.setup()

from django.test import Client

client = Client(SERVER_NAME="localhost")
page = client.get("/v1/docs")
print(json.dumps({"document": client.get("/v1/openapi.json").json(), "page": page.status_code, "text": page.text}))
