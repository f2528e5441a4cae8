"""Every request is a transaction."""

from common_settings import *

DATABASES["default"]["ATOMIC_REQUESTS"] = True
