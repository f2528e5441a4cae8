"""Defaults of the REST framework that would break the API if they affected it."""

from common_settings import *

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.StaticHTMLRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.FormParser"],
    "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.AnonRateThrottle"],
    "DEFAULT_THROTTLE_RATES": {"anon": "1/day", "user": "1/day"},
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
    "DEFAULT_FILTER_BACKENDS": ["rest_framework.filters.OrderingFilter"],
    "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
    "ALLOWED_VERSIONS": ["3.0"],
    "DEFAULT_VERSION": "2.0",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "hostile.refuse_to_answer",
    "COERCE_DECIMAL_TO_STRING": False,
    "DATETIME_FORMAT": "%d.%m.%Y",
    "DATETIME_INPUT_FORMATS": ["%d.%m.%Y"],
    "NON_FIELD_ERRORS_KEY": "wrong",
    "ORDERING_PARAM": "cursor",
    "SEARCH_PARAM": "type",
    "PAGE_SIZE": 1,
    "STRICT_JSON": False,
    "UNICODE_JSON": False,
    "URL_FORMAT_OVERRIDE": "type",
    "URL_FIELD_NAME": "id",
}
