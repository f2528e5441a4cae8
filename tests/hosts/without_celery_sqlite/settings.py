"""A project on SQLite without Celery, as created by ``startproject`` except for the database's options."""

from common_settings import *
