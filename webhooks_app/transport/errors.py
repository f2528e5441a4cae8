"""The errors of attempts without a response, worded for owners of webhooks. Every transport uses them."""

from __future__ import annotations

from ..reasons import ReasonText
from .base import ErrorClass, TransportError

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
