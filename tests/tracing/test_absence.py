"""Without a tracer provider, nothing of OpenTelemetry is imported or used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from opentelemetry import trace

from webhooks_app.conf import settings as own_settings
from webhooks_app.delivery.spans import delivery_spans
from webhooks_app.tracing import configured_tracing

IMPORTS = """
import sys
{first}
import django
django.setup()
import webhooks_app.api.views, webhooks_app.delivery.engine, webhooks_app.emission, webhooks_app.tasks
from webhooks_app.delivery.spans import delivery_spans
assert delivery_spans() is None
print([name for name, module in sys.modules.items() if name.startswith("opentelemetry") and module])
"""


@pytest.mark.parametrize(
    "first", ["", 'sys.modules["opentelemetry"] = None'], ids=["installed", "without the packages"]
)
def test_a_process_without_a_provider_imports_nothing(first):
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "example_project.settings"}

    command = [sys.executable, "-c", IMPORTS.format(first=first)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)

    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_an_import_of_opentelemetry_alone_turns_nothing_on():
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    assert configured_tracing() is None
    assert not own_settings.SEND_TRACEPARENT
    assert delivery_spans() is None


def test_a_module_that_another_thread_imports_turns_nothing_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", sys)

    assert configured_tracing() is None
