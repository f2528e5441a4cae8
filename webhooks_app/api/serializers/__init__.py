"""Serializers of records and request bodies."""

from .audit import AuditEntrySerializer
from .bodies import (
    NewSecretSerializer,
    NewWebhookSerializer,
    SchemeSerializer,
    TestRequestSerializer,
    TryFilterSerializer,
    WebhookChangesSerializer,
)
from .deliveries import (
    AttemptSerializer,
    DeliveryListSerializer,
    DeliverySerializer,
    DeliveryWithAttemptsSerializer,
    HoldSerializer,
    QueuedDeliverySerializer,
    QueuedEventSerializer,
)
from .events import (
    DecisionSerializer,
    EventSerializer,
    EventTypeSerializer,
    EventWithDataSerializer,
    TriedFilterSerializer,
)
from .webhooks import (
    OfferedPolicySerializer,
    OfferedSignatureSerializer,
    OfferSerializer,
    PublicKeySerializer,
    RotatedWebhookSerializer,
    WebhookSerializer,
    WebhookWithSecretSerializer,
)

__all__ = [
    "AttemptSerializer",
    "AuditEntrySerializer",
    "DecisionSerializer",
    "DeliveryListSerializer",
    "DeliverySerializer",
    "DeliveryWithAttemptsSerializer",
    "EventSerializer",
    "EventTypeSerializer",
    "EventWithDataSerializer",
    "HoldSerializer",
    "NewSecretSerializer",
    "NewWebhookSerializer",
    "OfferSerializer",
    "OfferedPolicySerializer",
    "OfferedSignatureSerializer",
    "PublicKeySerializer",
    "QueuedDeliverySerializer",
    "QueuedEventSerializer",
    "RotatedWebhookSerializer",
    "SchemeSerializer",
    "TestRequestSerializer",
    "TriedFilterSerializer",
    "TryFilterSerializer",
    "WebhookChangesSerializer",
    "WebhookSerializer",
    "WebhookWithSecretSerializer",
]
