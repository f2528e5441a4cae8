"""Celery with a broker."""

import work
from common_settings import *

from webhooks_app.beat import BEAT_SCHEDULE

CELERY_BROKER_URL = os.environ["HOST_BROKER_URL"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULE = BEAT_SCHEDULE

assert work.app
