"""What the owner of a webhook may see: over the REST API, in a portal, and as staff who do not manage all webhooks.

Accounts choose the URLs of their webhooks. The cause of a failed connection to an unverified URL would reveal which
hosts and ports exist in the network of the workers, and so would the time that it took. An attempt with such a cause is
masked: its owner only sees that the URL was not reached, and of the cause only whether the name is unknown or the
certificate is not trusted, the two that owners repair most often. The stored facts are true. Whether an attempt is
masked is decided once, when it is recorded, and stored in ``is_masked``; a later verification does not unmask it.

Every reader for an owner begins with ``for_owner()``::

    deliveries = Delivery.objects.owned_by(owner).for_owner()
    deliveries.with_result(result)         # filters by the result that is shown, which can be UNREACHABLE
    delivery = deliveries.get(pk=pk)       # last_result, finished_at and due_at as shown; its hold is HIDDEN
    delivery.shown_attempts()              # its attempts, as shown

    DeliveryAttempt.objects.filter(...).select_related("delivery").for_owner()
    AuditEntry.objects.owned_by(owner).for_owner()    # without entries whose time reveals a cause
    webhook.shown_status_changed_at

Rows of ``for_owner()`` keep their other values, so lists, counts and exports of them need nothing else. Filtering or
sorting them by a masked field raises FieldError, and so does reading its bare values. Such rows are only for showing:
never save them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

from django.core.exceptions import FieldError
from django.db.models.query import ModelIterable

from ..reasons import ReasonText, code_of
from .base import BaseModel, BaseQuerySet, Row_co
from .status import StatusRules

UNREACHABLE = "unreachable"
"""The result shown for a masked attempt. It is never stored."""

UNREACHABLE_MESSAGE = ReasonText("unreachable")
UNREACHABLE_MESSAGES = (
    UNREACHABLE_MESSAGE,
    ReasonText("unreachable_name"),
    ReasonText("unreachable_certificate"),
)
"""The messages shown for masked attempts, and stored as the reasons of failed verifications."""

TLS_FAILED = ReasonText("tls_failed")

UNREACHED = frozenset(("dns_error", "address_refused", "connection_error", "timeout", "tls_error"))
"""Results of attempts without an answer, which describe the network rather than the receiver."""


def masks(result: str, *, is_handshake: bool, status: str) -> bool:
    """Return True if the owner may not see the cause of this result. ``status`` is that of the locked webhook."""
    return result in UNREACHED and (is_handshake or status != StatusRules.Status.ACTIVE)


def reason_of_handshake(result: str, message: str) -> str:
    """Return the reason of a failed verification, which is stored with the webhook and sent to signal handlers."""
    return unreachable_message(message) if result in UNREACHED else message


def unreachable_message(message: str) -> ReasonText:
    """Return what the owner may know of the cause of a masked attempt."""
    code = code_of(message)
    if code == "name_unknown":
        return ReasonText("unreachable_name")
    return ReasonText("unreachable_certificate") if code.startswith("certificate_") else UNREACHABLE_MESSAGE


class Masked(BaseModel):
    """A mixin for rows of ``for_owner()``."""

    is_for_owner = False
    """Whether this instance holds the values that the owner may see, instead of the stored ones."""

    class Meta:
        abstract = True

    def show_to_owner(self) -> None:
        """Replace the values that the owner may not see."""
        self.is_for_owner = True


class MaskedIterable(ModelIterable):  # type: ignore[type-arg] # not subscriptable at runtime
    def __iter__(self) -> Iterator[Any]:
        for row in super().__iter__():
            row.show_to_owner()
            yield row


class MaskedQuerySet(BaseQuerySet[Row_co]):
    is_for_owner = False
    masked_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields and relations with values that are masked."""

    def for_owner(self) -> Self:
        """Return the rows as their owner may see them. See ``webhooks_app.models.disclosure``."""
        shown = self.all()
        shown.is_for_owner = True
        shown._iterable_class = MaskedIterable  # noqa: SLF001 - iterator() and slices use it too
        return shown

    if not TYPE_CHECKING:

        def _clone(self) -> Self:
            clone = super()._clone()
            clone.is_for_owner = self.is_for_owner
            return clone

        def filter(self, *args: Any, **lookups: Any) -> Self:
            self._require_shown(lookups)
            return super().filter(*args, **lookups)

        def exclude(self, *args: Any, **lookups: Any) -> Self:
            self._require_shown(lookups)
            return super().exclude(*args, **lookups)

        def order_by(self, *names: Any) -> Self:
            self._require_shown(name.lstrip("-") for name in names if isinstance(name, str))
            return super().order_by(*names)

        def _values(self, *names: Any, **expressions: Any) -> Self:
            if self.is_for_owner:
                self._require_shown(names or self.masked_fields)
            return super()._values(*names, **expressions)

    def _require_shown(self, names: Iterable[Any]) -> None:
        if self.is_for_owner:
            masked = {name for name in map(str, names) if name.partition("__")[0] in self.masked_fields}
            if masked:
                raise FieldError(f"{', '.join(sorted(masked))}: masked for owners, see webhooks_app.models.disclosure.")
