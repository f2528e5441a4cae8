"""The receiver's side: verification of requests, signed requests for tests, and a local receiver for development.

The distribution webhooks-receiver carries the same files as the package ``webhooks_receiver``, without the app. They
need no other package, run on Python 3.9, and import nothing else of the app.
"""

from .schemes import WebhookVerificationError
from .sender import SignedRequest, WebhookSender, signed_request
from .verification import DEFAULT_TOLERANCE, ReceivedEvent, Reception, challenge_answer, receive, verify

__all__ = [
    "DEFAULT_TOLERANCE",
    "ReceivedEvent",
    "Reception",
    "SignedRequest",
    "WebhookSender",
    "WebhookVerificationError",
    "challenge_answer",
    "receive",
    "signed_request",
    "verify",
]
