"""The reasons that this package states: each has a code, an English sentence, and parameters.

A reason is stored as its code and parameters, and the console translates it when it shows it. Everywhere else it is its
English sentence, because ``ReasonText`` is a string. A text that a person or a transport of the host wrote has the code
``text``.

To add a reason, add its template to ``TEMPLATES`` and its translation to the catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

TEXT = "text"
"""The code of every other text."""

_MARK = ":"
"""The first character of a stored reason. A text that begins with it is stored with another one."""


def gettext_noop(text: str) -> str:
    """Mark a text for translation. Django's function is not available to the rooms that know no framework."""
    return text


class Counted(NamedTuple):
    """A template in the singular and the plural, and the name of the parameter that decides."""

    one: str
    many: str
    by: str


class ReasonText(str):
    """An English sentence that knows its code and its parameters. Raise KeyError for an unknown code.

    Parameters are texts, numbers or other reasons. Numbers are shown with separators of thousands.
    """

    __slots__ = ("code", "params")

    code: str
    params: Mapping[str, Any]

    def __new__(cls, code: str, /, **params: Any) -> Self:
        reason = super().__new__(
            cls, template_for(code, params) % {name: as_parameter(params[name]) for name in params}
        )
        reason.code = code
        reason.params = params
        return reason

    def __str__(self) -> str:
        """Return the reason itself, so that ``str(error)`` still knows the code, as Django's ``SafeString`` does."""
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.code,), dict(self.params)


def template_for(code: str, params: Mapping[str, Any]) -> str:
    """Return the English template of a code, in the singular if the counted parameter is 1."""
    template = TEMPLATES[code]
    if isinstance(template, str):
        return template
    return template.one if params[template.by] == 1 else template.many


def as_parameter(value: Any) -> str:
    """Return a parameter as its sentence shows it."""
    return f"{value:,.15g}" if isinstance(value, int | float) else value


def code_of(text: str) -> str:
    """Return the code of a reason, ``text`` for any other text, and "" without one."""
    if isinstance(text, ReasonText):
        return text.code
    return TEXT if text else ""


def clipped(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters. A clipped reason is a plain text."""
    return text if len(text) <= limit else text[:limit]


def as_stored(text: str, limit: int) -> str:
    """Return the form in which a text is stored, of at most ``limit`` characters."""
    if isinstance(text, ReasonText):
        stored = _coded(text)
        if len(stored) <= limit:
            return stored
    return f"{_MARK if text.startswith(_MARK) else ''}{text}"[:limit]


def from_stored(stored: str) -> str:
    """Return the text that was stored. An unknown code, or one with other parameters, stays as it is."""
    if not stored.startswith(_MARK):
        return stored
    if stored.startswith(_MARK * 2):
        return stored[1:]
    code, _, params = stored[1:].partition(" ")
    try:
        return ReasonText(code, **{name: _param(value) for name, value in json.loads(params or "{}").items()})
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return stored


def _coded(reason: ReasonText) -> str:
    if not reason.params:
        return f"{_MARK}{reason.code}"
    params = {name: _nested(value) if isinstance(value, str) else value for name, value in reason.params.items()}
    return f"{_MARK}{reason.code} {json.dumps(params, separators=(',', ':'))}"


def _nested(value: str) -> str:
    return _coded(value) if isinstance(value, ReasonText) else as_stored(value, len(value) + 1)


def _param(value: Any) -> Any:
    return from_stored(value) if isinstance(value, str) else value


TEMPLATES: Mapping[str, str | Counted] = {
    # States of webhooks and replays
    "disabled_by_owner": gettext_noop("Disabled by its account."),
    "disabled_by_operator": gettext_noop("Disabled by the operator."),
    "disabled_by_owner_because": gettext_noop("Disabled by its account: %(words)s"),
    "disabled_by_operator_because": gettext_noop("Disabled by the operator: %(words)s"),
    "all_given_up": Counted(
        gettext_noop("Every delivery was given up for %(days)s day: %(number)s since %(since)s UTC."),
        gettext_noop("Every delivery was given up for %(days)s days: %(number)s since %(since)s UTC."),
        "days",
    ),
    "unreachable": gettext_noop(
        "The URL could not be reached. Check that its host name is in the public DNS, and that the receiver runs, "
        "answers in time and has a trusted certificate."
    ),
    "unreachable_name": gettext_noop(
        "The URL could not be reached: its host name is unknown. Check its spelling, and that the public DNS has it."
    ),
    "unreachable_certificate": gettext_noop(
        "The URL could not be reached: its certificate is not trusted. Check its authority, host name and expiry, and "
        "that the receiver sends intermediate certificates."
    ),
    "webhook_was_deleted": gettext_noop("The webhook was deleted."),
    "webhook_was_disabled": gettext_noop("The webhook was disabled. Enable it, then resume."),
    "verification_failed": gettext_noop("The webhook failed its verification. Verify it, then resume."),
    "receiver_fails_again": gettext_noop(
        "The receiver fails again. The replay continues by itself after the next success."
    ),
    # Answers
    "status_not_200_but_2xx": gettext_noop(
        "Answered with status %(status)s. Only status 200 confirms receipt; other 2xx statuses do not."
    ),
    "redirect_not_200": gettext_noop(
        "Answered with the redirect %(status)s. Redirects are not followed; only status 200 confirms receipt."
    ),
    "status_not_200": gettext_noop("Answered with status %(status)s. Only status 200 confirms receipt."),
    "status_not_2xx": gettext_noop("Answered with status %(status)s. Only a 2xx status confirms receipt."),
    "redirect_not_2xx": gettext_noop(
        "Answered with the redirect %(status)s. Redirects are not followed; only a 2xx status confirms receipt."
    ),
    "no_header": gettext_noop("The receiver closed the connection before its answer's header was complete."),
    "no_header_on_kept_connection": gettext_noop(
        "The receiver closed the connection before its answer's header was complete. The connection had been kept "
        "open after an earlier request, as the receiver had announced. The next attempt uses a new connection."
    ),
    "not_http": gettext_noop("The receiver's answer is not valid HTTP/1.1."),
    "no_status_line": gettext_noop("The receiver's answer does not begin with an HTTP/1.1 status line."),
    "header_too_large": gettext_noop("The receiver's header is too large: more than %(lines)s lines or %(size)s KiB."),
    "answer_timed_out": Counted(
        gettext_noop("The receiver sent no complete answer within %(seconds)s second."),
        gettext_noop("The receiver sent no complete answer within %(seconds)s seconds."),
        "seconds",
    ),
    # Names and connections
    "address_refused": gettext_noop("The name %(host)s resolves to an address to which webhooks must not be sent."),
    "name_unknown": gettext_noop("The name %(host)s could not be resolved. Check that it exists in the public DNS."),
    "name_timed_out": Counted(
        gettext_noop("The name %(host)s could not be resolved within %(seconds)s second. Check its name servers."),
        gettext_noop("The name %(host)s could not be resolved within %(seconds)s seconds. Check its name servers."),
        "seconds",
    ),
    "name_not_looked_up": gettext_noop(
        "The name %(host)s could not be looked up in time, because too many names of this account or of this domain "
        "have name servers that do not answer. Check them."
    ),
    "not_connected": gettext_noop(
        "No connection to %(authority)s could be opened. Check that the receiver runs and its port is reachable."
    ),
    "connect_timed_out": Counted(
        gettext_noop("The receiver did not accept a connection within %(seconds)s second."),
        gettext_noop("The receiver did not accept a connection within %(seconds)s seconds."),
        "seconds",
    ),
    "proxy_failed": gettext_noop("The egress proxy could not be used, or did not open a connection to the receiver."),
    # TLS
    "tls_failed": gettext_noop("No trusted TLS connection could be made."),
    "certificate_not_yet_valid": gettext_noop("The receiver's TLS certificate is not valid yet."),
    "certificate_expired": gettext_noop("The receiver's TLS certificate has expired."),
    "certificate_self_signed": gettext_noop("The receiver's TLS certificate is self-signed."),
    "certificate_issuer_untrusted": gettext_noop(
        "The receiver's TLS certificate comes from an issuer that is not trusted."
    ),
    "certificate_chain_incomplete": gettext_noop(
        "The receiver's TLS certificate comes from an issuer that is not trusted, or its intermediate certificates "
        "are missing."
    ),
    "certificate_revoked": gettext_noop("The receiver's TLS certificate has been revoked."),
    "certificate_for_another_host": gettext_noop("The receiver's TLS certificate is for another host name."),
    "certificate_for_another_address": gettext_noop("The receiver's TLS certificate is for another address."),
    "certificate_unverified": gettext_noop("The receiver's TLS certificate could not be verified."),
    "handshake_failed": gettext_noop(
        "The TLS handshake failed. Check that the receiver serves HTTPS on this port, with TLS 1.2 or newer."
    ),
    "handshake_timed_out": Counted(
        gettext_noop("The TLS handshake did not finish within %(seconds)s second."),
        gettext_noop("The TLS handshake did not finish within %(seconds)s seconds."),
        "seconds",
    ),
    # The sender's side
    "sender_failed": gettext_noop(
        "The request could not be sent for a reason on the sender's side. See its log for details."
    ),
    "worker_lost": gettext_noop("The worker that made this attempt ended before it could record the answer."),
    "request_not_made": gettext_noop(
        "The request could not be made from the stored data. The operator of this service finds the cause in its log."
    ),
    "schemes_damaged": gettext_noop(
        "The webhook's list of signature schemes is empty or damaged. Choose its schemes again."
    ),
    "headers_damaged": gettext_noop("The webhook's own headers are damaged. Set them again."),
    "secret_missing": gettext_noop("Webhook %(id)s has no secret. Rotate it."),
    "secret_unreadable": gettext_noop(
        "A stored secret was encrypted with a key that is not configured. Add that key to WEBHOOKS_ENCRYPTION_KEYS "
        "again, where %(derived)s stands for the keys derived from SECRET_KEY and SECRET_KEY_FALLBACKS, or rotate the "
        "webhook's secret."
    ),
    "scheme_unavailable": gettext_noop(
        "The webhook's signature scheme %(name)s is not configured. Add it to WEBHOOKS_SIGNATURES again, or choose "
        "another scheme for the webhook."
    ),
    "new_url_failed": gettext_noop(
        "The new URL %(url)s failed its verification, so the webhook keeps its URL. %(reason)s"
    ),
    # Answers to handshakes
    "challenge_not_json": gettext_noop("%(problem)s Answer with a JSON object in UTF-8 with a field “challenge”."),
    "challenge_missing": gettext_noop("The answer has no field “challenge” at its top level."),
    "challenge_wrong": gettext_noop("The answer contains another challenge than the one that was sent."),
    "answer_not_object": gettext_noop("The answer is not a JSON object."),
    "answer_empty": gettext_noop("The answer has no body."),
    "answer_compressed": gettext_noop("The answer is compressed (%(coding)s). Send it without compression."),
    "answer_has_bom": gettext_noop("The answer begins with a byte order mark, which JSON may not have."),
    "answer_wide": gettext_noop("The answer is not JSON in UTF-8, but in UTF-16 or UTF-32."),
    "answer_has_constant": gettext_noop("The answer is not JSON: it contains %(constant)s, which JSON does not have."),
    "answer_not_utf8": gettext_noop("The answer is not JSON in UTF-8."),
    "answer_nested": gettext_noop("The answer is not JSON that can be read: it is nested too deeply."),
    "answer_not_json": gettext_noop("The answer is not JSON."),
    "body_too_long": gettext_noop("The answer is too long: more than 64 KiB."),
    "body_too_short": gettext_noop("The answer ended before its announced end, or arrived too slowly."),
    "chunk_without_size": gettext_noop("A chunk has no valid size."),
    "chunk_too_long": gettext_noop("A chunk is longer than its announced size."),
    "chunk_line_too_long": gettext_noop("A line between the chunks is too long."),
    "trailer_invalid": gettext_noop("A trailer is not a header line."),
    # Refused URLs
    "url_incomplete": gettext_noop("The URL has no scheme and host. Write it as https://host/path."),
    "url_too_long": gettext_noop("The URL has %(number)s characters. Use at most %(limit)s."),
    "url_character": gettext_noop(
        "The URL contains the character %(character)s. Write international names in punycode and percent-encode every "
        "other character that is not printable ASCII."
    ),
    "url_international": gettext_noop(
        "The URL contains international characters. Use its form in ASCII instead: %(url)s"
    ),
    "url_backslash": gettext_noop("The URL contains a backslash. Write / or, in a query, %%5C."),
    "url_fragment": gettext_noop("The URL has a fragment (#…), which is never sent. Remove it."),
    "url_http": gettext_noop("The URL begins with http://. Use https://, as plain http is not allowed."),
    "url_scheme": gettext_noop("The URL begins with %(scheme)s://. Use https://."),
    "url_userinfo": gettext_noop(
        "The URL contains a user name or password (…@). Remove it: deliveries are signed instead."
    ),
    "url_host": gettext_noop("The URL's host is invalid. Write https://host/path or https://host:port/path."),
    "url_port": gettext_noop("The URL's port %(port)s may not be used. Use %(default)s, or one from 1024 to 65535."),
    "url_like_address": gettext_noop(
        "The URL's host looks like an address but is not one. Write 203.0.113.7 or [2001:db8::7] in full."
    ),
    "url_address": gettext_noop(
        "The address %(address)s may not be used (%(reason)s). Use a host that is reachable from the internet."
    ),
    "url_short_name": gettext_noop(
        "The host %(host)s is not a full name. Use one with a domain, as in hooks.example.com."
    ),
    "url_name": gettext_noop(
        "The URL's host is not a valid name. Use parts of at most 63 letters, digits and inner hyphens, joined by "
        "single dots, 253 characters in all, with no dot at the end."
    ),
    "url_local_name": gettext_noop(
        "The host %(host)s is a local name. Use a host that is reachable from the internet."
    ),
    "url_localhost": gettext_noop(
        "The host %(host)s is a local name. Use a host that is reachable from the internet; in development, use "
        "127.0.0.1 and allow its network with WEBHOOKS_ALLOWED_NETWORKS."
    ),
    "url_punycode": gettext_noop("The part %(label)s of the URL's host is not a valid international name."),
    "url_target": gettext_noop("The URL's path or query contains %(found)s. Percent-encode it, as in %%7B for {."),
    # Kinds of refused addresses
    "address_this_host": gettext_noop("this host"),
    "address_private": gettext_noop("a private network"),
    "address_carrier": gettext_noop("a carrier's shared network"),
    "address_loopback": gettext_noop("loopback"),
    "address_cloud": gettext_noop("a cloud platform's own service"),
    "address_link_local": gettext_noop("link-local"),
    "address_protocols": gettext_noop("reserved for protocols"),
    "address_documentation": gettext_noop("reserved for documentation"),
    "address_benchmarks": gettext_noop("reserved for benchmarks"),
    "address_6to4_relay": gettext_noop("a 6to4 relay"),
    "address_multicast": gettext_noop("multicast"),
    "address_reserved": gettext_noop("reserved"),
    "address_ipv4_in_ipv6": gettext_noop("an IPv4 address in IPv6"),
    "address_discarded": gettext_noop("discarded"),
    "address_unallocated": gettext_noop("unallocated"),
    "address_refused_by_operator": gettext_noop("refused by the operator"),
    # Refused operations
    "webhook_disabled": gettext_noop("Webhook %(id)s is disabled. Enable it first. Reason: %(reason)s"),
    "webhook_paused": gettext_noop("Webhook %(id)s is paused. Resume it first."),
    "webhook_failed_not_disabled": gettext_noop(
        "Webhook %(id)s is not disabled: it failed its verification. Verify it."
    ),
    "webhook_not_disabled": gettext_noop("Webhook %(id)s is not disabled; there is nothing to enable."),
    "webhook_already_disabled": gettext_noop("Webhook %(id)s is already disabled."),
    "webhook_failed": gettext_noop("Webhook %(id)s failed its verification. Verify it again first."),
    "webhook_deleted": gettext_noop("Webhook %(id)s is deleted."),
    "webhook_not_kept": gettext_noop("Webhook %(id)s is no longer kept: its retention ended."),
    "webhook_already_paused": gettext_noop("Webhook %(id)s is already paused."),
    "webhook_already_verified": gettext_noop("Webhook %(id)s is verified already. Its events are sent."),
    "webhook_not_paused": gettext_noop("Webhook %(id)s is not paused."),
    "webhook_not_subscribed": gettext_noop("Webhook %(id)s is not subscribed to: %(types)s."),
    "too_many_replays": gettext_noop(
        "Webhook %(id)s has %(number)s replays that are ready, running or paused. Cancel one of them first."
    ),
    "secret_already_rotated": gettext_noop(
        "The secret of webhook %(id)s was rotated in the meantime. It has not been replaced."
    ),
    "replay_not_kept": gettext_noop("Replay %(id)s is no longer kept. Plan another."),
    "problem_not_kept": gettext_noop("Problem %(id)s is no longer kept."),
    "no_prepared_secret": gettext_noop("Webhook %(id)s has no new secret to activate or withdraw."),
    "no_previous_secret": gettext_noop("Webhook %(id)s has no old secret that still signs."),
    "problem_resolved": gettext_noop("Problem %(id)s is resolved. The next failure opens it again."),
    "problem_already_open": gettext_noop("Problem %(id)s is already open."),
    "problem_already_acknowledged": gettext_noop("Problem %(id)s is already acknowledged."),
    "problem_already_ignored": gettext_noop("Problem %(id)s is already ignored."),
    "key_already_revoked": gettext_noop("API key %(id)s is already revoked."),
    "api_key_deleted": gettext_noop("API key %(id)s is deleted."),
    "another_replay_running": gettext_noop(
        "Replay %(id)s of this webhook is running. Wait for it, pause or cancel it."
    ),
    "replay_state": gettext_noop("Replay %(id)s is %(state)s; %(rule)s."),
    "replay_start_ready": gettext_noop("only a ready replay can be started"),
    "replay_resume_halted": gettext_noop("only a paused or stopped replay can be resumed"),
    "replay_pause_running": gettext_noop("only a running replay can be paused"),
    "replay_cancel_open": gettext_noop("an ended replay cannot be cancelled"),
    "replay_counting": gettext_noop("counting"),
    "replay_ready": gettext_noop("ready"),
    "replay_running": gettext_noop("running"),
    "replay_paused": gettext_noop("paused"),
    "replay_stopped": gettext_noop("stopped"),
    "replay_done": gettext_noop("done"),
    "replay_cancelled": gettext_noop("cancelled"),
    "verification_not_redelivered": gettext_noop("A verification is not redelivered; verify the webhook again."),
    "delivery_pending": gettext_noop(
        "Delivery %(id)s is pending: its event is still attempted. Retry it now instead of redelivering it."
    ),
    "delivery_final": gettext_noop("Delivery %(id)s is finished. Redeliver it to send its event again."),
    "delivery_due": gettext_noop("Delivery %(id)s is due already. The next free worker sends it."),
    "delivery_in_flight": gettext_noop("An attempt of delivery %(id)s is in flight. Wait for its result."),
    "delivery_stopped": gettext_noop("The webhook is disabled or deleted, so delivery %(id)s will be cancelled."),
    "delivery_paused": gettext_noop("The webhook of delivery %(id)s is paused. Resume it first."),
    "delivery_unverified": gettext_noop("The webhook of delivery %(id)s is not verified. Verify it first."),
    "delivery_awaits_filter": gettext_noop("The filter of the webhook is not evaluated yet for delivery %(id)s."),
    "delivery_behind": gettext_noop(
        "Delivery %(id)s waits for an earlier one, because the webhook has an order. Retry the earlier one."
    ),
    "delivery_expired": gettext_noop("Delivery %(id)s has expired and will be cancelled."),
    "delivery_postponed": gettext_noop(
        "Many tests and verifications go to the receiver's address. Delivery %(id)s is sent as soon as possible."
    ),
    "verification_not_retried": gettext_noop("A verification is not retried by hand; verify the webhook again."),
    "test_not_retried": gettext_noop(
        "A test of an unverified URL is not retried by hand. Send another test, or verify the webhook."
    ),
    "delivery_not_kept": gettext_noop("Delivery %(id)s is no longer kept: its retention ended."),
    "delivery_unknown": gettext_noop("There is no such delivery."),
    "event_not_kept": gettext_noop("Event %(id)s is no longer kept: its retention ended."),
    "body_not_kept": gettext_noop("The body of event %(id)s is no longer kept: its retention ended."),
    "too_many": Counted(
        gettext_noop("Too many %(counted)s. Try again in %(seconds)s second."),
        gettext_noop("Too many %(counted)s. Try again in %(seconds)s seconds."),
        "seconds",
    ),
    "too_many_at_most": Counted(
        gettext_noop("Too many %(counted)s: at most %(rate)s. Try again in %(seconds)s second."),
        gettext_noop("Too many %(counted)s: at most %(rate)s. Try again in %(seconds)s seconds."),
        "seconds",
    ),
    "counted_requests": gettext_noop("requests with one API key"),
    "counted_emitting": gettext_noop("requests with one service key"),
    "counted_tests": gettext_noop("test events to one webhook"),
    "counted_verifications": gettext_noop("verifications of one webhook"),
    "counted_probes": gettext_noop("tests and verifications of one account"),
    "limits_unavailable": gettext_noop(
        "Rate limits are unavailable, so tests and verifications are refused. Try again later."
    ),
    # Problems of input
    "event_type_unknown": gettext_noop("Unknown event type %(name)s."),
    "event_type_unknown_among": gettext_noop("Unknown event type %(name)s. Known types: %(known)s."),
    "event_type_unknown_near": gettext_noop(
        "Unknown event type %(name)s. Did you mean %(near)s? Known types: %(known)s."
    ),
    "owner_unsaved": gettext_noop("The owner is not saved yet; save it first."),
    "owner_deleted": gettext_noop("The owner is deleted; emit its last events before you delete it."),
    "field_missing": gettext_noop("is missing"),
    "field_unknown": gettext_noop("is not a field of this type"),
    "field_unknown_among": gettext_noop("is not a field of this type; the fields are %(fields)s"),
    "data_nested": gettext_noop("is nested deeper than %(limit)s levels"),
    "data_key": gettext_noop("has the key %(key)s, which %(problem)s"),
    "data_nul": gettext_noop("contains NUL"),
    "data_surrogate": gettext_noop("contains a lone surrogate"),
    "data_integer": gettext_noop("is an integer of more than %(limit)s bits; send it as a string"),
    "data_number": gettext_noop("%(value)s is not a JSON number"),
    "envelope_too_large": gettext_noop("makes an envelope of %(size)s bytes; the limit is %(limit)s bytes"),
    "filter_invalid": gettext_noop("%(path)s: %(problem)s."),
}
"""The English template of each code: ``%(name)s`` stands for a parameter, ``%%`` for a percent sign."""

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
    gettext_noop("Quick retries"),
    gettext_noop("Retries for three days"),
    gettext_noop("Signature of this service"),
    gettext_noop("Standard Webhooks with the secret"),
    gettext_noop("Standard Webhooks with a public key"),
    gettext_noop("4 attempts: after 1, 5 and 30 seconds."),
    gettext_noop("10 attempts in about three days: after 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h."),
    gettext_noop("A webhook is failing"),
    gettext_noop("A failing webhook has recovered"),
    gettext_noop("A webhook was disabled"),
    gettext_noop("The last attempt of a delivery failed"),
    gettext_noop("An automatic recovery has ended"),
    gettext_noop("PPT generation"),
    gettext_noop("Generation started"),
    gettext_noop("Generation completed"),
    gettext_noop("Generation failed"),
    gettext_noop("Generation cancelled"),
    gettext_noop("Edit"),
    gettext_noop("Editing started"),
    gettext_noop("Editing completed"),
    gettext_noop("Editing failed"),
    gettext_noop("File"),
    gettext_noop("Upload completed"),
    gettext_noop("Processing completed"),
    gettext_noop("File deleted"),
    gettext_noop("User"),
    gettext_noop("User registered"),
    gettext_noop("User subscribed"),
    gettext_noop("User unsubscribed"),
    gettext_noop("Internal"),
    gettext_noop("Verifies a newly registered URL; the body has neither id nor created."),
    gettext_noop("A delivery failed and will be tried again."),
    gettext_noop("Operations"),
)
"""Descriptions of built-in signature schemes, retry policies and event types, and the groups of these types. Pages
translate them."""
