"""A project on SQLite without Celery, as created by ``startproject`` except for two options."""

from common_settings import *

WEBHOOKS_SWEEP_SECONDS = 3600  # only a wake-up starts a delivery
