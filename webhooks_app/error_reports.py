"""What Django tells of an error, in mails to the admins and on its debug page, where secrets and keys go in and out."""

from __future__ import annotations

from collections.abc import ItemsView
from types import FrameType
from typing import Any

from django.http import HttpRequest
from django.views.debug import SafeExceptionReporterFilter, get_default_exception_reporter_filter


class DiscreetReporterFilter(SafeExceptionReporterFilter):
    """Keep back every variable and every posted value, and leave the rest to the host's own filter.

    Django shows the variables of each frame of a traceback. A secret is in many of them, under whatever name, and also
    in those of Django and of the libraries on its way.
    """

    def __init__(self) -> None:
        self.hosts_own: Any = get_default_exception_reporter_filter()

    def get_safe_settings(self) -> Any:
        return self.hosts_own.get_safe_settings()

    def get_safe_request_meta(self, request: HttpRequest) -> Any:
        return self.hosts_own.get_safe_request_meta(request)

    def get_safe_cookies(self, request: HttpRequest) -> Any:
        return self.hosts_own.get_safe_cookies(request)

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        return dict.fromkeys(request.POST if request else (), self.cleansed_substitute)

    def get_traceback_frame_variables(self, request: HttpRequest | None, tb_frame: FrameType) -> ItemsView[str, Any]:
        return dict.fromkeys(tb_frame.f_locals, self.cleansed_substitute).items()


def keep_discreet(request: HttpRequest) -> None:
    """Let reports of errors in this request show no values."""
    request.exception_reporter_filter = DiscreetReporterFilter()
