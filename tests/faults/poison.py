"""A delivery that kills its worker, as a fault in a native library does."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from webhooks_app.transport.native import NativeTransport

if TYPE_CHECKING:
    from webhooks_app.transport import Request


class PoisonedTransport(NativeTransport):
    def start(self, request: Request) -> None:
        if "/poison" in request.url:
            os.kill(os.getpid(), signal.SIGKILL)
        super().start(request)
