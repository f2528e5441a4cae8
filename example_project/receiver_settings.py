"""Settings of the demonstration's receiver, which has URLs of its own."""

from .settings import *  # noqa: F403

ROOT_URLCONF = "example_project.receiver"
