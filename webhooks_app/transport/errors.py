"""The errors of attempts without a response, worded for owners of webhooks. Every transport uses them."""

from __future__ import annotations

from ..plurals import counted
from .base import RESPONSE_READ_LIMIT, ErrorClass, TransportError

CERTIFICATE_PROBLEMS = {
    9: "is not valid yet",
    10: "has expired",
    18: "is self-signed",
    19: "comes from an issuer that is not trusted",
    20: "comes from an issuer that is not trusted, or its intermediate certificates are missing",
    21: "comes from an issuer that is not trusted, or its intermediate certificates are missing",
    23: "has been revoked",
    62: "is for another host name",
    64: "is for another address",
}
"""The OpenSSL verification results that a receiver can cause, and their descriptions."""

BODY_TOO_LONG = f"The answer is too long: more than {RESPONSE_READ_LIMIT // 1024} KiB."
BODY_TOO_SHORT = "The answer ended before its announced end, or arrived too slowly."


class AttemptError(Exception):
    """An attempt cannot continue."""

    def __init__(self, error: TransportError) -> None:
        super().__init__(error.message)
        self.error = error


def address_refused(host: str) -> TransportError:
    """Return the error for a refused address. It does not reveal the address or its kind."""
    message = f"The name {host} resolves to an address to which webhooks must not be sent."
    return TransportError(error_class=ErrorClass.ADDRESS_REFUSED, message=message)


def url_refused(reason: str) -> TransportError:
    return TransportError(error_class=ErrorClass.ADDRESS_REFUSED, message=reason)


def name_unknown(host: str) -> TransportError:
    message = f"The name {host} could not be resolved. Check that it exists in the public DNS."
    return TransportError(error_class=ErrorClass.DNS_ERROR, message=message)


def name_timed_out(host: str, seconds: float) -> TransportError:
    given = counted(round(seconds, 3), "second")
    message = f"The name {host} could not be resolved within {given}. Check its name servers."
    return TransportError(error_class=ErrorClass.DNS_ERROR, message=message)


def name_not_looked_up(host: str) -> TransportError:
    message = (
        f"The name {host} could not be looked up in time, because too many names of this account or of this domain"
        " have name servers that do not answer. Check them."
    )
    return TransportError(error_class=ErrorClass.DNS_ERROR, message=message)


def not_connected(authority: str) -> TransportError:
    message = f"No connection to {authority} could be opened. Check that the receiver runs and its port is reachable."
    return TransportError(error_class=ErrorClass.CONNECTION_ERROR, message=message)


def connection_lost(*, was_kept: bool = False) -> TransportError:
    message = "The receiver closed the connection before its answer's header was complete."
    if was_kept:
        message += (
            " The connection had been kept open after an earlier request, as the receiver had announced."
            " The next attempt uses a new connection."
        )
    return TransportError(error_class=ErrorClass.CONNECTION_ERROR, message=message)


def reset_at_once(scheme: str) -> TransportError:
    """Return the error for a connection that was accepted and immediately reset."""
    return handshake_failed() if scheme == "https" else connection_lost()


def proxy_failed() -> TransportError:
    message = "The egress proxy could not be used, or did not open a connection to the receiver."
    return TransportError(error_class=ErrorClass.CONNECTION_ERROR, message=message)


def certificate_refused(verify_code: int) -> TransportError:
    """Return the error for OpenSSL's verification result ``verify_code``."""
    problem = CERTIFICATE_PROBLEMS.get(verify_code, "could not be verified")
    message = f"The receiver's TLS certificate {problem}."
    return TransportError(error_class=ErrorClass.TLS_ERROR, message=message)


def handshake_failed() -> TransportError:
    message = "The TLS handshake failed. Check that the receiver serves HTTPS on this port, with TLS 1.2 or newer."
    return TransportError(error_class=ErrorClass.TLS_ERROR, message=message)


def handshake_timed_out(seconds: float) -> TransportError:
    message = f"The TLS handshake did not finish within {counted(seconds, 'second')}."
    return TransportError(error_class=ErrorClass.TLS_ERROR, message=message)


def connect_timed_out(seconds: float) -> TransportError:
    message = f"The receiver did not accept a connection within {counted(seconds, 'second')}."
    return TransportError(error_class=ErrorClass.TIMEOUT, message=message)


def timed_out(seconds: float) -> TransportError:
    message = f"The receiver sent no complete answer within {counted(seconds, 'second')}."
    return TransportError(error_class=ErrorClass.TIMEOUT, message=message)


def invalid_response(problem: str) -> TransportError:
    message = problem or "The receiver's answer is not valid HTTP/1.1."
    return TransportError(error_class=ErrorClass.INVALID_RESPONSE, message=message)


def internal_error() -> TransportError:
    message = "The request could not be sent for a reason on the sender's side. See its log for details."
    return TransportError(error_class=ErrorClass.INTERNAL_ERROR, message=message)
