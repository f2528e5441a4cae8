"""Django's error reports, in mails to the admins and on the debug page, without secrets."""

from __future__ import annotations

from collections.abc import ItemsView
from types import FrameType
from typing import Any

from django.http import HttpRequest
from django.views.debug import SafeExceptionReporterFilter, get_default_exception_reporter_filter

PROXY = "WEBHOOKS_EGRESS_PROXY"
"""A setting with a password that Django does not recognize by the name."""

COOKIES = "webhooks_portal_"
"""How the names of the cookies of links to the customers' pages begin."""


class HidingReporterFilter(SafeExceptionReporterFilter):
    """Hide all variables and posted values; the host's own filter applies to the rest.

    Django shows the variables of each frame of a traceback. Many of them contain a secret under an arbitrary name, also
    in the frames of Django and of other libraries.
    """

    def __init__(self) -> None:
        self.hosts_own: Any = get_default_exception_reporter_filter()

    def get_safe_settings(self) -> Any:
        found = self.hosts_own.get_safe_settings()
        return {**found, PROXY: self._without_user(found[PROXY])} if found.get(PROXY) else found

    def _without_user(self, url: Any) -> str:
        """Return a URL without its user and password."""
        scheme, _, rest = str(url).rpartition("://")
        user, _, address = rest.rpartition("@")
        return f"{scheme}://{self.cleansed_substitute}@{address}" if user else str(url)

    def get_safe_request_meta(self, request: HttpRequest) -> Any:
        return self.hosts_own.get_safe_request_meta(request)

    def get_safe_cookies(self, request: HttpRequest) -> Any:
        found = self.hosts_own.get_safe_cookies(request)
        return {name: self.cleansed_substitute if name.startswith(COOKIES) else value for name, value in found.items()}

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        return dict.fromkeys(request.POST if request else (), self.cleansed_substitute)

    def get_traceback_frame_variables(self, request: HttpRequest | None, tb_frame: FrameType) -> ItemsView[str, Any]:
        return dict.fromkeys(tb_frame.f_locals, self.cleansed_substitute).items()


def hide_values(request: HttpRequest) -> None:
    """Hide all values in error reports on this request."""
    request.exception_reporter_filter = HidingReporterFilter()
