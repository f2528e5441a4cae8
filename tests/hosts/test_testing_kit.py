"""The pytest plugin in another project, as described in ``docs/testing.md``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"

HOST = {
    "settings.py": """
        SECRET_KEY = "host"
        USE_TZ = True
        INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "webhooks_app", "shop"]
        DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
        CELERY_TASK_ALWAYS_EAGER = True
    """,
    "shop/__init__.py": "",
    "shop/webhook_events.py": """
        from pydantic import BaseModel
        from webhooks_app import EventType, registry

        class OrderPaid(BaseModel):
            order_id: int

        registry.register(
            EventType(name="shop.order_paid", description="Paid", data_model=OrderPaid, example={"order_id": 1})
        )
    """,
    "shop/orders.py": """
        from webhooks_app import emit

        def pay(customer, order_id):
            emit("shop.order_paid", {"order_id": order_id}, owner=customer)
    """,
    "conftest.py": """
        import pytest

        @pytest.fixture
        def customer(django_user_model):
            return django_user_model.objects.create_user("berta")
    """,
}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "PYTEST_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(cwd), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_examples_of_the_page_work_in_a_host(tmp_path: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    tests = {f"test_example_{number}.py": example for number, example in enumerate(examples)}
    for name, content in (HOST | tests).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(content))

    done = run("-m", "pytest", "--ds=settings", "-p", "no:cacheprovider", "-q", cwd=tmp_path)

    written = sum(example.count("def test_") for example in examples)
    assert f"{written} passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_is_imported_without_django(tmp_path: Path) -> None:
    done = run("-c", "import webhooks_app.pytest_plugin, sys; sys.exit('django' in sys.modules)", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
