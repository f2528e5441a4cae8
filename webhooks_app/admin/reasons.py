"""Translation of stored reasons and messages.

They are stored in English, as shown by the API. Templates extract the variable parts of a stored text.
"""

from __future__ import annotations

import re
from functools import cache

from django.utils.translation import gettext, gettext_noop

TEMPLATES = (
    gettext_noop("Disabled by its owner."),
    gettext_noop("Disabled by the operator."),
    gettext_noop("Every delivery was given up for %(days)s day: %(number)s since %(since)s UTC."),
    gettext_noop("Every delivery was given up for %(days)s days: %(number)s since %(since)s UTC."),
    gettext_noop(
        "The URL could not be reached. Check that its host name is in the public DNS, and that the receiver runs, "
        "answers in time and has a trusted certificate."
    ),
    gettext_noop("No trusted TLS connection could be made."),
    gettext_noop("Answered with status %(status)s. Only status 200 confirms receipt; other 2xx statuses do not."),
    gettext_noop(
        "Answered with the redirect %(status)s. Redirects are not followed; only status 200 confirms receipt."
    ),
    gettext_noop("Answered with status %(status)s. Only status 200 confirms receipt."),
    gettext_noop("Answered with status %(status)s. Only a 2xx status confirms receipt."),
    gettext_noop(
        "Answered with the redirect %(status)s. Redirects are not followed; only a 2xx status confirms receipt."
    ),
    gettext_noop("The name %(host)s resolves to an address to which webhooks must not be sent."),
    gettext_noop("The name %(host)s could not be resolved. Check that it exists in the public DNS."),
    gettext_noop("The name %(host)s could not be resolved within %(seconds)s seconds. Check its name servers."),
    gettext_noop(
        "No connection to %(authority)s could be opened. Check that the receiver runs and its port is reachable."
    ),
    gettext_noop("The receiver closed the connection before its answer's header was complete."),
    gettext_noop(
        "The receiver closed the connection before its answer's header was complete. The connection had been kept "
        "open after an earlier request, as the receiver had announced. The next attempt uses a new connection."
    ),
    gettext_noop(
        "The name %(host)s could not be looked up in time, because too many names of this account or of this domain "
        "have name servers that do not answer. Check them."
    ),
    gettext_noop("The egress proxy could not be used, or did not open a connection to the receiver."),
    gettext_noop("The receiver's TLS certificate is not valid yet."),
    gettext_noop("The receiver's TLS certificate has expired."),
    gettext_noop("The receiver's TLS certificate is self-signed."),
    gettext_noop("The receiver's TLS certificate comes from an issuer that is not trusted."),
    gettext_noop(
        "The receiver's TLS certificate comes from an issuer that is not trusted, or its intermediate certificates "
        "are missing."
    ),
    gettext_noop("The receiver's TLS certificate has been revoked."),
    gettext_noop("The receiver's TLS certificate is for another host name."),
    gettext_noop("The receiver's TLS certificate is for another address."),
    gettext_noop("The receiver's TLS certificate could not be verified."),
    gettext_noop("The TLS handshake failed. Check that the receiver serves HTTPS on this port, with TLS 1.2 or newer."),
    gettext_noop("The TLS handshake did not finish within %(seconds)s seconds."),
    gettext_noop("The receiver did not accept a connection within %(seconds)s seconds."),
    gettext_noop("The receiver sent no complete answer within %(seconds)s seconds."),
    gettext_noop("The receiver's answer is not valid HTTP/1.1."),
    gettext_noop("The request could not be sent for a reason on the sender's side. See its log for details."),
    gettext_noop("The worker that made this attempt ended before it could record the answer."),
    gettext_noop("The webhook was deleted."),
    gettext_noop("The webhook was disabled. Enable it, then resume."),
    gettext_noop("The webhook failed its verification. Verify it, then resume."),
)


def translated(text: str) -> str:
    """Return a stored text in the current language, or unchanged if it matches no template."""
    for template in TEMPLATES:
        if found := _pattern(template).fullmatch(text):
            return gettext(template) % found.groupdict() if found.groupdict() else gettext(template)
    return text


@cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"%\((\w+)\)s", template)
    names = (rf"(?P<{part}>.+?)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
    return re.compile("".join(names))
