"""The errors of attempts without a response, worded for owners, and the log of those that our machine causes."""

from __future__ import annotations

import errno
import logging
import math
import resource
import threading
import time
from collections.abc import Callable

from ..plurals import counted
from ..reasons import ReasonText
from .base import ErrorClass, TransportError

logger = logging.getLogger("webhooks_app.transport")

CERTIFICATE_PROBLEMS = {
    9: "certificate_not_yet_valid",
    10: "certificate_expired",
    18: "certificate_self_signed",
    19: "certificate_issuer_untrusted",
    20: "certificate_chain_incomplete",
    21: "certificate_chain_incomplete",
    23: "certificate_revoked",
    62: "certificate_for_another_host",
    64: "certificate_for_another_address",
}
"""The OpenSSL verification results that a receiver can cause, and the codes of their reasons."""

BODY_TOO_LONG = ReasonText("body_too_long")
BODY_TOO_SHORT = ReasonText("body_too_short")


LOG_SECONDS = 60.0
"""Time after a record in which further failures are only counted."""

SHORT_SECONDS = 300.0
"""Time after a failure in which the process counts as short of a resource."""

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class AttemptError(Exception):
    """An attempt cannot continue."""

    def __init__(self, error: TransportError) -> None:
        super().__init__(error.message)
        self.error = error


def address_refused(host: str) -> TransportError:
    """Return the error for a refused address. It does not reveal the address or its kind."""
    return _error(ErrorClass.ADDRESS_REFUSED, "address_refused", host=host)


def url_refused(reason: str) -> TransportError:
    return TransportError(error_class=ErrorClass.ADDRESS_REFUSED, message=reason)


def name_unknown(host: str) -> TransportError:
    return _error(ErrorClass.DNS_ERROR, "name_unknown", host=host)


def name_timed_out(host: str, seconds: float) -> TransportError:
    return _error(ErrorClass.DNS_ERROR, "name_timed_out", host=host, seconds=round(seconds, 3))


def name_not_looked_up(host: str) -> TransportError:
    return _error(ErrorClass.DNS_ERROR, "name_not_looked_up", host=host)


def not_connected(authority: str) -> TransportError:
    return _error(ErrorClass.CONNECTION_ERROR, "not_connected", authority=authority)


def connection_lost(*, was_kept: bool = False) -> TransportError:
    return _error(ErrorClass.CONNECTION_ERROR, "no_header_on_kept_connection" if was_kept else "no_header")


def reset_at_once(scheme: str) -> TransportError:
    """Return the error for a connection that was accepted and immediately reset."""
    return handshake_failed() if scheme == "https" else connection_lost()


def proxy_failed() -> TransportError:
    return _error(ErrorClass.CONNECTION_ERROR, "proxy_failed")


def certificate_refused(verify_code: int) -> TransportError:
    """Return the error for OpenSSL's verification result ``verify_code``."""
    return _error(ErrorClass.TLS_ERROR, CERTIFICATE_PROBLEMS.get(verify_code, "certificate_unverified"))


def handshake_failed() -> TransportError:
    return _error(ErrorClass.TLS_ERROR, "handshake_failed")


def handshake_timed_out(seconds: float) -> TransportError:
    return _error(ErrorClass.TLS_ERROR, "handshake_timed_out", seconds=seconds)


def connect_timed_out(seconds: float) -> TransportError:
    return _error(ErrorClass.TIMEOUT, "connect_timed_out", seconds=seconds)


def timed_out(seconds: float) -> TransportError:
    return _error(ErrorClass.TIMEOUT, "answer_timed_out", seconds=seconds)


def invalid_response(problem: str) -> TransportError:
    message = problem or ReasonText("not_http")
    return TransportError(error_class=ErrorClass.INVALID_RESPONSE, message=message)


def internal_error() -> TransportError:
    return _error(ErrorClass.INTERNAL_ERROR, "sender_failed")


def _error(error_class: ErrorClass, code: str, **params: object) -> TransportError:
    return TransportError(error_class=error_class, message=ReasonText(code, **params))


def is_exhaustion(error: BaseException) -> bool:
    """Return True if the error means that the sender, not the receiver, lacks a resource."""
    return isinstance(error, OSError) and error.errno in EXHAUSTED


class ExhaustionLog:
    """Log at most one failure per minute, because all requests fail for the same reason. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next_at = 0.0
        self._omitted = 0
        self._failed_at = -math.inf

    @property
    def is_recent(self) -> bool:
        """Whether a request has failed within the last minutes."""
        return self._clock() - self._failed_at < SHORT_SECONDS

    def add(self, error: BaseException) -> None:
        """Log the failure of a request, or count it for the next record."""
        with self._lock:
            now = self._failed_at = self._clock()
            if now < self._next_at:
                self._omitted += 1
                return
            self._next_at = now + LOG_SECONDS
            failed, self._omitted = self._omitted + 1, 0
        text = (
            "%s could not be sent, because the worker lacks a resource: %s."
            " Raise its limits (ulimit -n), or lower WEBHOOKS_MAX_IN_FLIGHT."
        )
        logger.error(text, counted(failed, "request"), error)


exhaustion_log = ExhaustionLog()
"""The log of this process."""


def lacks_descriptors(wanted: int) -> bool:
    """Return True if the limit on open files is below ``wanted``, or if it has been too low for a recent request."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return exhaustion_log.is_recent or (limit != resource.RLIM_INFINITY and limit < wanted)


def error_of(cause: BaseException, blamed: TransportError) -> TransportError:
    """Return the error of a request: ``blamed``, or an internal error, logged, if the sender lacks a resource."""
    if not is_exhaustion(cause):
        return blamed
    exhaustion_log.add(cause)
    return internal_error()
