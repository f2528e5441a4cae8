"""Two admin sites; the one that the staff uses is not Django's default."""

from common_settings import *

INSTALLED_APPS += ["backoffice"]
