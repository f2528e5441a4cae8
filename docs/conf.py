"""Configuration of the documentation site: ``make docs``."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

import django

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()  # autodoc imports modules with models

project = "webhooks_app"
author = "webhooks_app contributors"
copyright = author  # noqa: A001 (Sphinx's name for it)
release = version_of("django-webhooks-app")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "rendering"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
# Examples leave out values with "…", which no lexer knows.
suppress_warnings = ["misc.highlighting_failure"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"

html_theme = "furo"
html_title = "webhooks_app"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_search_scorer = str(ROOT / "docs" / "scorer.js")
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp"
