"""The Python of the guides runs: settings pass the checks, and examples do not fail."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core import checks
from django.test import override_settings
from django.urls import path

from tests.support.rows import make_webhook
from webhooks_app import EventType, registry
from webhooks_app.event_types import EventData

from .pages import Block, blocks

PAGES = ("start/", "guides/", "reference/", "waking", "index")
NEEDING_MORE = ("HueyWake", "RqWake", "DramatiqWake", "Organization")
"""Settings that need another package, or a model of the project."""
SETTINGS = [
    block
    for block in blocks("python", under=PAGES)
    if block.file == "mysite/settings.py" and not any(name in block.code for name in NEEDING_MORE)
]
EXAMPLES = {
    page: [block for block in blocks("python", under=(page,)) if block.file != "mysite/settings.py"]
    for page in sorted({block.page for block in blocks("python", under=PAGES)})
}
OTHER_PACKAGES = ("huey.contrib", "django_rq", "dramatiq", "opentelemetry.exporter")
NOT_HERE = ("accounts/models.py", "presentations/models.py", "mysite/celery.py", "mysite/__init__.py")
"""A process of the tests cannot have other models, and has a Celery app."""
REPLACED = {'using("replica")': 'using("default")'}


class InvoicePaid(EventData):
    invoice_id: str
    amount: int


@pytest.fixture
def billing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of the examples, and a catalogue that is as before afterwards."""
    package = types.ModuleType("billing")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "billing", package)
    with registry.temporarily():
        yield
    for name in [name for name in sys.modules if name.startswith("billing.")]:
        del sys.modules[name]


@pytest.mark.parametrize("block", [pytest.param(block, id=str(block)) for block in SETTINGS])
def test_settings_pass_the_system_checks(block: Block, settings: Any, billing: None) -> None:
    for other in blocks("python", under=(block.page,)):
        if other.file.startswith("billing/") and not any(package in other.code for package in OTHER_PACKAGES):
            run(other, {}, {})
    found = values_of(block)
    changed = {name: value for name, value in found.items() if name.startswith("WEBHOOKS_")}

    with override_settings(**changed):
        # Settings of development are warned of.
        messages = checks.run_checks(tags=["webhooks"])

    errors = {message.id for message in messages if message.level >= checks.ERROR}
    assert errors - {"webhooks_app.E021"} == set()  # PostgreSQL's wake-up on another database


def values_of(block: Block) -> dict[str, Any]:
    values: dict[str, Any] = {
        "DEBUG": True,
        "BASE_DIR": Path(),
        "INSTALLED_APPS": [],
        "DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    }
    exec(compile(block.code, str(block), "exec"), values)  # the namespace of a settings module
    return values


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", EXAMPLES)
def test_the_examples_of_a_page_run(page: str, settings: Any, billing: None) -> None:
    settings.PRESENTATION_WEBHOOK_SECRET = "a secret of the examples"
    names: dict[str, Any] = {"urlpatterns": [], "path": path, "InvoicePaid": InvoicePaid}
    define_invoice_paid(page, names)

    for block in EXAMPLES[page]:
        if block.file in NOT_HERE or any(package in block.code for package in OTHER_PACKAGES):
            continue
        account = get_user_model().objects.create_user(f"carla-{block.line}")
        run(block, names | {"account": account, "webhook": make_webhook(account)}, names)


def define_invoice_paid(page: str, names: dict[str, Any]) -> None:
    """Register the event type that most examples use, unless the page does so itself."""
    if any("registry.register(INVOICE_PAID)" in block.code for block in EXAMPLES[page]):
        return
    names["INVOICE_PAID"] = EventType(
        name="invoice.paid",
        group="Billing",
        description="An invoice was paid.",
        data_model=InvoicePaid,
        example={"invoice_id": "inv_1", "amount": 4200},
    )
    registry.register(names["INVOICE_PAID"])


def run(block: Block, names: dict[str, Any], later: dict[str, Any]) -> None:
    """Run a block, and add its names to ``later``. One that names a module of ``billing`` becomes that module."""
    code = block.code
    for old, new in REPLACED.items():
        code = code.replace(old, new)
    name = block.file.removesuffix(".py").replace("/", ".")
    module = sys.modules.get(name)
    if block.file.startswith("billing/"):
        if module is None:
            module = types.ModuleType(name)
            module.__package__ = "billing"
            sys.modules[name] = module
        exec(compile(code, str(block), "exec"), vars(module))  # the example itself
        names = vars(module)
    else:
        exec(compile(code, str(block), "exec"), names)  # the example itself
    later.update({key: value for key, value in names.items() if not key.startswith("_")})


def test_the_reference_of_models_names_models() -> None:
    importlib.import_module("webhooks_app.models")

    known = {model.__name__ for model in apps.get_app_config("webhooks_app").get_models()}
    assert {"Webhook", "Event", "Delivery", "DeliveryAttempt", "Replay", "ApiKey", "AuditEntry"} <= known
