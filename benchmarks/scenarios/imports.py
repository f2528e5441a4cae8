"""The cost of installing the app for each process of a project: CPU time, memory and modules of its start."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most

SETTINGS = """
SECRET_KEY = "imports"
USE_TZ = True
ROOT_URLCONF = "urls"
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware",
              "django.contrib.auth.middleware.AuthenticationMiddleware",
              "django.contrib.messages.middleware.MessageMiddleware"]
TEMPLATES = [{{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}}]
INSTALLED_APPS = ["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
                  "django.contrib.sessions", "django.contrib.messages", "django.contrib.staticfiles", {apps}]
"""
URLS = """
from django.contrib import admin
from django.urls import include, path
urlpatterns = [path("admin/", admin.site.urls), {urls}]
"""
START = """
import json, os, sys, time
import django
django.setup()
if "--urls" in sys.argv:
    from django.urls import get_resolver
    get_resolver().url_patterns
with open("/proc/self/statm") as memory:
    pages = int(memory.read().split()[1])
mb = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
print(json.dumps({"cpu_s": time.process_time(), "mb": mb, "modules": len(sys.modules)}))
"""
WITHOUT, WITH = "without", "with"
APPS = {WITHOUT: "", WITH: '"rest_framework", "webhooks_app"'}
PATHS = {WITHOUT: "", WITH: 'path("v1/", include("webhooks_app.api.urls"))'}


class Imports(BaseScenario):
    name = "imports"
    summary = "a project's start with the app over the same project without it: CPU time, memory, modules"
    variants = (
        Variant(
            label="django.setup()",
            database="sqlite",
            broker="folder",
            targets={"cpu_s": at_most(0.3), "mb": at_most(15)},
        ),
        Variant(label="and the URLs of the API", database="sqlite", broker="folder", settings={}),
    )
    runs = 5

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        progress.step("starting")
        options = ["--urls"] if variant is self.variants[1] else []
        with tempfile.TemporaryDirectory() as folder:
            started = {name: _started(Path(folder, name), name, options) for name in (WITHOUT, WITH)}
        return {name: started[WITH][name] - started[WITHOUT][name] for name in started[WITH]}


def _started(project: Path, name: str, options: list[str]) -> Figures:
    """Start a project in a process of its own; return its figures after the start."""
    project.mkdir()
    (project / "settings.py").write_text(SETTINGS.format(apps=APPS[name]))
    (project / "urls.py").write_text(URLS.format(urls=PATHS[name]))
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{project}:{Path.cwd()}"}
    command = [sys.executable, "-c", START, *options]
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    figures: Figures = json.loads(ended.stdout)
    return figures
