"""Two admin sites. The one used by the staff is not Django's default."""

from common_settings import *

INSTALLED_APPS += ["backoffice"]
