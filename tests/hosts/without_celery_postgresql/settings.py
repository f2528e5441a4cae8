"""A project on PostgreSQL, without Celery."""

from common_settings import *

DATABASES = {"default": postgresql()}
