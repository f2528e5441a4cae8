"""The receiver's side: verification of requests, and a local receiver for development. Needs no Django."""

from .verification import DEFAULT_TOLERANCE, ReceivedEvent, challenge_answer, verify

__all__ = ["DEFAULT_TOLERANCE", "ReceivedEvent", "challenge_answer", "verify"]
