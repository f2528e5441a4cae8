"""The English texts that the console translates when it shows them.

Rows, logs and the API have them in English only. ``%(name)s`` stands for a variable part, ``%%`` for a percent sign.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop

STORED = (
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
    gettext_noop("The TLS handshake did not finish within %(seconds)s second."),
    gettext_noop("The receiver did not accept a connection within %(seconds)s second."),
    gettext_noop("The receiver sent no complete answer within %(seconds)s second."),
    gettext_noop("The name %(host)s could not be resolved within %(seconds)s second. Check its name servers."),
    gettext_noop("The receiver's answer does not begin with an HTTP/1.1 status line."),
    gettext_noop("The receiver's header is too large: more than %(lines)s lines or %(size)s KiB."),
    gettext_noop(
        "The request could not be made from the stored data. The operator of this service finds the cause in its log."
    ),
    gettext_noop("The webhook's list of signature schemes is empty or damaged. Choose its schemes again."),
    gettext_noop("The webhook's own headers are damaged. Set them again."),
    gettext_noop(
        "A stored secret was encrypted with a key that is not configured. Add that key to WEBHOOKS_ENCRYPTION_KEYS "
        "again, where %(derived)s stands for the keys derived from SECRET_KEY and SECRET_KEY_FALLBACKS, or rotate the "
        "webhook's secret."
    ),
    gettext_noop(
        "The webhook's signature scheme %(name)s is not configured. Add it to WEBHOOKS_SIGNATURES again, or choose "
        "another scheme for the webhook."
    ),
    gettext_noop("%(problem)s Answer with a JSON object in UTF-8 that has the field challenge."),
    gettext_noop("The answer is not a JSON object."),
    gettext_noop("The answer has no field challenge at its top level."),
    gettext_noop("The field challenge of the answer differs from the challenge that was sent."),
    gettext_noop("The answer has no body."),
    gettext_noop("The answer is compressed (%(coding)s). Send it without compression."),
    gettext_noop("The answer begins with a byte order mark, which JSON may not have."),
    gettext_noop("The answer is not JSON in UTF-8, but in UTF-16 or UTF-32."),
    gettext_noop("The answer is not JSON: it contains %(constant)s, which JSON does not have."),
    gettext_noop("The answer is not JSON in UTF-8."),
    gettext_noop("The answer is too long: more than 64 KiB."),
    gettext_noop("The answer ended before its announced end, or arrived too slowly."),
    gettext_noop("A chunk has no valid size."),
    gettext_noop("A chunk is longer than its announced size."),
    gettext_noop("A line between the chunks is too long."),
    gettext_noop("A trailer is not a header line."),
    gettext_noop("The answer is not JSON that can be read: it is nested too deeply."),
    gettext_noop("The answer is not JSON."),
)
"""Reasons of states, and messages of attempts."""

URLS = (
    gettext_noop("The URL has no scheme and host. Write it as https://host/path."),
    gettext_noop("The URL has %(number)s characters. Use at most %(limit)s."),
    gettext_noop(
        "The URL contains the character %(character)s. Write international names in punycode and percent-encode every "
        "other character that is not printable ASCII."
    ),
    gettext_noop("The URL contains a backslash. Write / or, in a query, %%5C."),
    gettext_noop("The URL has a fragment (#…), which is never sent. Remove it."),
    gettext_noop("The URL begins with http://. Use https://, as plain http is not allowed."),
    gettext_noop("The URL begins with %(scheme)s://. Use https://."),
    gettext_noop("The URL contains a user name or password (…@). Remove it: deliveries are signed instead."),
    gettext_noop("The URL's host is invalid. Write https://host/path or https://host:port/path."),
    gettext_noop("The URL's port %(port)s may not be used. Use %(default)s, or one from 1024 to 65535."),
    gettext_noop("The URL's host looks like an address but is not one. Write 203.0.113.7 or [2001:db8::7] in full."),
    gettext_noop(
        "The address %(address)s may not be used (%(reason)s). Use a host that is reachable from the internet."
    ),
    gettext_noop("The host %(host)s is not a full name. Use one with a domain, as in hooks.example.com."),
    gettext_noop(
        "The URL's host is not a valid name. Use parts of at most 63 letters, digits and inner hyphens, joined by "
        "single dots, 253 characters in all, with no dot at the end."
    ),
    gettext_noop("The host %(host)s is a local name. Use a host that is reachable from the internet."),
    gettext_noop(
        "The host %(host)s is a local name. Use a host that is reachable from the internet; in development, use "
        "127.0.0.1 and allow its network with WEBHOOKS_ALLOWED_NETWORKS."
    ),
    gettext_noop("The part %(label)s of the URL's host is not a valid international name."),
    gettext_noop("The URL's path or query contains %(found)s. Percent-encode it, as in %%7B for {."),
)
"""Reasons for refusing a URL."""

ADDRESSES = (
    gettext_noop("this host"),
    gettext_noop("a private network"),
    gettext_noop("a carrier's shared network"),
    gettext_noop("loopback"),
    gettext_noop("a cloud platform's own service"),
    gettext_noop("link-local"),
    gettext_noop("reserved for protocols"),
    gettext_noop("reserved for documentation"),
    gettext_noop("reserved for benchmarks"),
    gettext_noop("a 6to4 relay"),
    gettext_noop("multicast"),
    gettext_noop("reserved"),
    gettext_noop("an IPv4 address in IPv6"),
    gettext_noop("discarded"),
    gettext_noop("unallocated"),
    gettext_noop("refused by the operator"),
)
"""Kinds of refused addresses."""

REFUSALS = (
    gettext_noop("Webhook %(id)s is disabled (%(reason)s). Enable it first."),
    gettext_noop("Webhook %(id)s is paused. Resume it first."),
    gettext_noop("Webhook %(id)s is not disabled: it failed its verification. Verify it."),
    gettext_noop("Webhook %(id)s is not disabled; there is nothing to enable."),
    gettext_noop("Webhook %(id)s is already disabled."),
    gettext_noop("Webhook %(id)s failed its verification. Verify it again first."),
    gettext_noop("Webhook %(id)s is deleted."),
    gettext_noop("Webhook %(id)s is no longer kept: its retention ended."),
    gettext_noop("Webhook %(id)s is already paused."),
    gettext_noop("Webhook %(id)s is not paused."),
    gettext_noop("Webhook %(id)s is not subscribed to: %(types)s."),
    gettext_noop("Webhook %(id)s has %(number)s replays that are ready, running or paused. Cancel one of them first."),
    gettext_noop("The secret of webhook %(id)s was rotated in the meantime. It has not been replaced."),
    gettext_noop("Replay %(id)s is no longer kept. Plan another."),
    gettext_noop("API key %(id)s is deleted."),
    gettext_noop("Replay %(id)s of this webhook is running. Wait for it, pause or cancel it."),
    gettext_noop("Replay %(id)s is %(state)s; %(rule)s."),
    gettext_noop("only a ready replay can be started"),
    gettext_noop("only a paused or stopped replay can be resumed"),
    gettext_noop("only a running replay can be paused"),
    gettext_noop("an ended replay cannot be cancelled"),
    gettext_noop("A verification is not redelivered; verify the webhook again."),
    gettext_noop("Event %(id)s is no longer kept: its retention ended."),
    gettext_noop("The body of event %(id)s is no longer kept: its retention ended."),
    gettext_noop("Too many %(counted)s: at most %(rate)s. Try again in %(seconds)s second."),
    gettext_noop("Too many %(counted)s: at most %(rate)s. Try again in %(seconds)s seconds."),
    gettext_noop("test events to one webhook"),
    gettext_noop("verifications of one webhook"),
    gettext_noop("tests and verifications of one account"),
    gettext_noop("Rate limits are unavailable, so tests and verifications are refused. Try again later."),
)
"""Reasons for refusing an operation."""

STATES = (
    gettext_noop("counting"),
    gettext_noop("ready"),
    gettext_noop("running"),
    gettext_noop("paused"),
    gettext_noop("stopped"),
    gettext_noop("done"),
    gettext_noop("cancelled"),
)
"""States of replays in these reasons."""

INPUT = (
    gettext_noop("Unknown event type %(name)s. Did you mean %(near)s? Known types: %(known)s."),
    gettext_noop("Unknown event type %(name)s. Known types: %(known)s."),
    gettext_noop("Unknown event type %(name)s."),
    gettext_noop("The owner is not saved yet; save it first."),
    gettext_noop("The owner is deleted; emit its last events before you delete it."),
    gettext_noop("is missing"),
    gettext_noop("is not a field of this type; the fields are %(fields)s"),
    gettext_noop("is not a field of this type"),
    gettext_noop("is nested deeper than %(limit)s levels"),
    gettext_noop("has the key %(key)s, which %(problem)s"),
    gettext_noop("contains NUL"),
    gettext_noop("contains a lone surrogate"),
    gettext_noop("is an integer of more than %(limit)s bits; send it as a string"),
    gettext_noop("makes an envelope of %(size)s bytes; the limit is %(limit)s bytes"),
    gettext_noop("%(value)s is not a JSON number"),
    gettext_noop("Invalid data for %(type)s: %(problem)s"),
    gettext_noop("%(path)s: %(problem)s."),
    gettext_noop("%(path)s: %(problem)s"),
)
"""Problems of input. General templates are last."""

PARTS = (
    gettext_noop("is reserved: it belongs to HTTP or to the service"),
    gettext_noop("is not a header name: give 1 to 100 letters, digits and characters of !#$%&'*+-.^_`|~"),
    gettext_noop("has a value of more than 4,096 characters"),
    gettext_noop("has a value that is empty, begins or ends with a space, or is not printable ASCII"),
    gettext_noop("The user name for basic authentication must not contain a colon."),
    gettext_noop("Credentials for basic authentication must not contain control characters."),
    gettext_noop("It needs a secret of the form whsec_… with 24 to 64 bytes in padded standard base64."),
    gettext_noop("An Ed25519 key has the form whsk_… with 32 bytes in padded standard base64."),
)
"""Parts of messages about headers and keys, which the models translate: protocol and signatures use no Django."""

DESCRIPTIONS = (
    gettext_noop("X-Webhook-Signature: HMAC-SHA256, keyed with the whole secret."),
    gettext_noop("Standard Webhooks v1: HMAC-SHA256, keyed with the decoded bytes of the secret."),
    gettext_noop("Standard Webhooks v1a: Ed25519, verified with a public key."),
    gettext_noop("4 attempts: after 1, 5 and 30 seconds."),
    gettext_noop("10 attempts in about three days: after 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h."),
)
"""Descriptions of the built-in signature schemes and retry policies."""

EVENT_TYPES = (
    gettext_noop("A webhook is failing and will be disabled"),
    gettext_noop("A failing webhook has recovered"),
    gettext_noop("A webhook was disabled"),
    gettext_noop("The last attempt of a delivery failed"),
)
"""Descriptions of the operational event types."""
