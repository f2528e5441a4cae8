"""Asynchronous views under an ASGI server."""

from common_settings import *
