"""A project on SQLite, as ``startproject`` makes it but for the database's options, without Celery."""

from common_settings import *
