"""The pages of the section Start, followed to the letter."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import requests
import trustme
import yaml

from webhooks_app.conf import Settings

from ..acceptance.newcomer import FENCE, Newcomer
from ..support.missing import skip_without
from ..support.servers.process import ServerMissingError, free_port, program
from .pages import DOCS, blocks

QUICKSTART = (DOCS / "start" / "quickstart.md").read_text()
CUSTOMERS_PAGES = (DOCS / "guides" / "customers-pages.md").read_text()
PRODUCTION = (DOCS / "start" / "production.md").read_text()
PASSWORD = "a password of alice"
UNITS = {
    Path(name).name: (DOCS / "start" / name).read_text()
    for name in re.findall(r"\{literalinclude\} (\S+/systemd/\S+)", PRODUCTION)
}
(COMPOSE,) = [yaml.safe_load(block.code) for block in blocks("yaml", under=("start/",)) if block.file == "compose.yaml"]


@pytest.mark.timeout(300)
@pytest.mark.only_on("sqlite")
def test_the_first_delivery_arrives_by_the_page_alone(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path, project=False)
    try:
        for match in FENCE.finditer(QUICKSTART):
            if "emit_event" in match["code"]:
                newcomer.wait_for("webhook.verification")
            newcomer.follow(match)
        newcomer.wait_for("inv_1")
        service = newcomer.with_free_ports("http://127.0.0.1:8000")
        for match in FENCE.finditer(CUSTOMERS_PAGES):
            if "changepassword" not in match["code"]:
                newcomer.follow(match)
            else:
                newcomer.run(f"printf '{PASSWORD}\\n{PASSWORD}\\n' | {match['code']}")
                newcomer.wait_until_served(f"{service}/webhooks/")
        with requests.Session() as browser:
            assert "invoice.paid" in deliveries_of_alice(newcomer, browser, service)
            (framed,) = re.findall('<iframe src="([^"]+)"', browser.get(f"{service}/integrations/", timeout=10).text)
        page = requests.get(framed, headers={"Sec-Fetch-Dest": "iframe"}, timeout=10)
        assert page.status_code == 200
        assert page.headers["Content-Security-Policy"].endswith("; frame-ancestors 'self'")
        newcomer.run(
            'python -c \'import django, os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"; '
            "django.setup(); import billing.payments, billing.views'"
        )
    finally:
        newcomer.stop_all()

    # W014 is about an extra that the environment of the tests has.
    assert not re.search(r"webhooks_app\.(?!W014)[WE]\d|database is locked|Traceback", newcomer.seen()), newcomer.seen()


def deliveries_of_alice(newcomer: Newcomer, browser: requests.Session, service: str) -> str:
    """Log in and return the page with the deliveries, after the development server has restarted with it."""
    newcomer.wait_until_served(f"{service}/event-types/")  # the last change of the URLs
    login = browser.get(f"{service}/webhooks/", timeout=10)
    form = {"username": "alice", "password": PASSWORD}
    token = browser.cookies["csrftoken"]
    overview = browser.post(login.url, {**form, "csrfmiddlewaretoken": token}, timeout=10)
    return browser.get(f"{overview.url}deliveries/", timeout=10).text


def test_the_page_includes_the_hardened_units_of_a_project_without_celery() -> None:
    """tests/acceptance/test_deployment.py passes each unit to systemd."""
    assert UNITS.keys() == {"webhooks-deliver@.service", "webhooks-prune.service", "webhooks-prune.timer"}
    for name, unit in UNITS.items():
        assert name.endswith(".timer") or {"NoNewPrivileges=yes", "ProtectSystem=full"} <= set(unit.splitlines())


def test_the_page_has_what_django_needs_in_production() -> None:
    assert all(name in PRODUCTION for name in ("DEBUG = False", "ALLOWED_HOSTS", "STATIC_ROOT", "collectstatic"))
    assert "django_celery_beat.schedulers:DatabaseScheduler" in PRODUCTION


@pytest.mark.only_on("sqlite")
def test_nginx_accepts_the_configuration_of_the_page(tmp_path: Path) -> None:
    try:
        nginx = program("nginx", "/usr/sbin", package="nginx")
    except ServerMissingError as error:
        skip_without(error)
    authority = trustme.CA()
    certificate = authority.issue_cert("www.example.com")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "fullchain.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "privkey.pem")
    (block,) = blocks("nginx", under=("start/",))
    servers = block.code.replace("/etc/mysite/tls", str(tmp_path))
    servers = servers.replace("listen 80;", f"listen {free_port()};").replace("listen 443", f"listen {free_port()}")
    kinds = ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    folders = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {folders}\n{servers} }}"
    )

    tested = subprocess.run(
        [nginx, "-t", "-c", configuration, "-p", tmp_path], capture_output=True, text=True, check=False
    )

    assert tested.returncode == 0, tested.stderr
    assert "proxy_set_header X-Forwarded-Proto" in block.code
    assert 'SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")' in PRODUCTION


def test_the_services_depend_on_services() -> None:
    services = COMPOSE["services"]

    assert {"web", "deliver", "prune", "migrate", "postgresql"} <= services.keys()
    for service in services.values():
        assert service.get("depends_on", {}).keys() <= services.keys()


def test_the_celery_workers_consume_the_queue_of_the_settings() -> None:
    (queue,) = re.findall(r'CELERY_TASK_ROUTES = .*"queue": "(\w+)"', PRODUCTION)

    commands = re.findall(r"celery -A mysite worker.*?(?=[`\n])", PRODUCTION)
    assert len(commands) == 2
    assert [command for command in commands if f"--queues {queue}" not in command] == []


def test_requests_in_flight_may_finish_before_the_kill() -> None:
    needed = Settings.TIMEOUT_SECONDS + 20

    assert int(re.search(r"TimeoutStopSec=(\d+)", UNITS["webhooks-deliver@.service"])[1]) > needed
    assert int(COMPOSE["services"]["deliver"]["stop_grace_period"].rstrip("s")) > needed
