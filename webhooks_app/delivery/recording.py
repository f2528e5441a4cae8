"""Recording the results of attempts in batches, with notices of retries, the counts for the roll-ups, and signals."""

from __future__ import annotations

import json
import logging
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from datetime import datetime

from ..conf import settings
from ..database.clock import Clock, following
from ..database.sql import concerns_rows, kind_of
from ..event_types import RETRY_NOTICE, retry_notice_data
from ..models import Delivery, DeliveryAttempt, Event, QueueEntry, QueueLane, Webhook, WebhookHealth
from ..models.disclosure import UNREACHABLE, reason_of_handshake
from ..models.rollup import (
    BUCKETS_MS,
    CODE,
    FAILED,
    FIRST_ATTEMPT_DELAY,
    MISSED_FROM,
    REFUSED,
    RESPONSE_TIME,
    SINCE_SUCCESS,
    SUM,
    bucket_names,
)
from ..models.status import REQUESTED
from ..protocol.ids import milliseconds_of, new_id
from ..protocol.json_data import encode
from ..signals import attempt_made, delivery_given_up, delivery_succeeded
from .claim import HANDSHAKE, Claim, Finished
from .log_records import AttemptLogger
from .outcome import AttemptLog, Result, State
from .sql import PortableSql, sql_for

logger = logging.getLogger("webhooks_app.delivery")

RECORD_WITHIN_SECONDS = 0.02
"""How long a result waits at most for others. The documented limit is 50 ms."""

RECORD_WITHIN_SECONDS_LIGHT = 0.01
"""The same at light load."""

LIGHT_SHARE, LIGHT_LOAD = 32, 62
"""The load is light with at most this fraction of the window in flight, and at most this number."""

UNRECORDABLE = "unrecordable"
EVENT = Delivery.Kind.EVENT.value
TOOK, WAITED = bucket_names(RESPONSE_TIME), bucket_names(FIRST_ATTEMPT_DELAY)
TOOK_SUM, WAITED_SUM = f"{RESPONSE_TIME}{SUM}", f"{FIRST_ATTEMPT_DELAY}{SUM}"


class Recorder:
    """Record results in batches. ``put`` is thread-safe. ``turn`` must always be called from the same thread.

    ``in_flight`` returns the number of open claims. ``on_recorded`` is called with the results of each batch, then
    ``wake``, for which ``is_idle`` may be true.
    """

    def __init__(
        self,
        *,
        using: str,
        clock: Clock,
        window: int,
        in_flight: Callable[[], int],
        on_recorded: Callable[[Sequence[Finished]], object],
        wake: Callable[[], object],
    ) -> None:
        self._statements = sql_for(using)
        self._clock = clock
        self._light_load = min(window // LIGHT_SHARE, LIGHT_LOAD)
        self._batch_size = settings.BATCH_SIZE
        self._in_flight = in_flight
        self._on_recorded = on_recorded
        self._wake = wake
        self._arrived: deque[Finished] = deque()
        self._batch: list[Finished] = []
        self._record_at = 0.0
        self._wake_at = 1
        self._attempt_logger = AttemptLogger(clock)

    @property
    def is_idle(self) -> bool:
        """Whether all results are recorded, and the schedule was told what they make due."""
        return not self._arrived and not self._batch

    def put(self, finished: Sequence[Finished]) -> bool:
        """Add results to the next batch. Return True if the batch is large enough to record."""
        self._arrived.extend(finished)
        return len(self._arrived) >= self._wake_at

    def turn(self) -> bool:
        """Record the batch if it is due. Return True if the database was used."""
        self._collect()
        self._attempt_logger.flush()
        is_due = bool(self._batch) and (len(self._batch) >= self._enough or self._clock.monotonic() >= self._record_at)
        if is_due:
            self._record()
        self._wake_at = max(1, self._enough - len(self._batch)) if self._batch else 1
        return is_due

    def end(self) -> None:
        """Write remaining log records after the last batch."""
        self._attempt_logger.flush(at_once=True)

    def pause_seconds(self) -> float:
        """Return the seconds until the next turn, unless ``put`` returns True before."""
        if len(self._arrived) >= self._wake_at:  # added during the last turn
            return 0.0
        return max(0.0, self._record_at - self._clock.monotonic()) if self._batch else settings.SWEEP_SECONDS

    @property
    def is_light(self) -> bool:
        """Whether few deliveries are in flight."""
        return self._in_flight() <= self._light_load

    @property
    def _enough(self) -> int:
        """The size of a batch to record at once: half of the open claims, so that the others continue meanwhile.

        At light load it is all of them, because a transaction and its tally cost more than the results.
        """
        in_flight = self._in_flight()
        return min(self._batch_size, max(1, in_flight if in_flight <= self._light_load else in_flight // 2))

    def _collect(self) -> None:
        is_new = not self._batch
        for _ in range(min(len(self._arrived), self._batch_size - len(self._batch))):
            self._batch.append(self._arrived.popleft())
        if is_new and self._batch:
            self._record_at = self._time_to_record()

    def _time_to_record(self) -> float:
        now = self._clock.monotonic()
        if not self.is_light:
            return now + RECORD_WITHIN_SECONDS
        # The next delivery of an ordered group cannot start before.
        is_ordered = any(item.claim.is_ordered for item in self._batch)
        return now if is_ordered else now + RECORD_WITHIN_SECONDS_LIGHT

    def _record(self) -> None:
        finished = self._batch
        with following(self._clock):
            valid = record(self._statements, finished, self._clock())
        self._on_recorded(finished)
        self._batch = []
        self._wake()
        self._attempt_logger.log(valid)
        announce(valid)


def announce(finished: Sequence[Finished]) -> None:
    """Send the signals for recorded attempts."""
    if not any(signal.receivers for signal in (attempt_made, delivery_succeeded, delivery_given_up)):
        return
    for item in finished:
        attempt_made.send_robust(DeliveryAttempt, attempt=item.attempt, **item.claim.ids)
        if item.claim.kind == Delivery.Kind.VERIFICATION:
            continue  # The Webhook model sends the signals of a handshake.
        if item.step.state == State.SUCCEEDED:
            delivery_succeeded.send_robust(Delivery, **item.claim.ids)
        elif item.step.state == State.GIVEN_UP:
            delivery_given_up.send_robust(Delivery, attempt=item.attempt, **item.claim.ids)


def record(statements: PortableSql, finished: Sequence[Finished], now: datetime) -> list[Finished]:
    """Record attempts and their next steps. Return those with a valid claim.

    Others arrived after their lease, or their delivery has ended meanwhile. Nothing is recorded for them. Text from a
    receiver never prevents the recording of an outcome.
    """
    try:
        return _record(statements, finished, now)
    except Exception as error:
        if not concerns_rows(error):
            raise
        if len(finished) > 1:
            return [valid for item in finished for valid in record(statements, [item], now)]
        return _record_without_text(statements, finished[0], now)


def _record_without_text(statements: PortableSql, item: Finished, now: datetime) -> list[Finished]:
    try:
        return _record(statements, [item._replace(attempt=item.attempt.without_response_text())], now)
    except Exception as error:
        if not concerns_rows(error):
            raise
        text = "Delivery %s to webhook %s is cancelled, because its attempt could not be recorded: %s."
        ids = item.claim.delivery_id, item.claim.webhook_id
        logger.error(text, *ids, kind_of(error), extra={"webhook_id": ids[1]})  # noqa: TRY400 - quotes the receiver
        _cancel(statements, item)
        return []


def _cancel(statements: PortableSql, item: Finished) -> None:
    """Cancel a delivery whose attempts cannot be recorded. Otherwise workers would repeat it for ever."""
    using, claim = statements.using, item.claim
    entry = QueueEntry.objects.using(using).filter(pk=claim.delivery_id, worker=claim.lane.worker, attempt=claim.number)
    with statements.writing():
        Delivery.objects.using(using).filter(pk=claim.delivery_id).cancel(UNRECORDABLE, among=entry)


def _record(statements: PortableSql, finished: Sequence[Finished], now: datetime) -> list[Finished]:
    using = statements.using
    handshakes = [item for item in finished if item.claim.kind == HANDSHAKE and item.step.next_attempt_at is None]
    with statements.writing():
        webhooks = _lock_verified(using, handshakes) if handshakes else {}
        freeing = [item.claim for item in finished if item.frees_next]
        if freeing or webhooks:
            QueueLane.objects.using(using).lock(webhooks.keys() | {claim.webhook_id for claim in freeing})
        following = _following(using, freeing) if freeing else ()
        saved = statements.save(sorted(finished, key=_delivery_id), now)
        if following:
            QueueEntry.objects.using(using).promote(following, now)
        valid = [item for item in finished if (item.attempt.delivery_id, item.attempt.number) in saved]
        _save_notices(using, valid)
        if counts := tally(valid):
            statements.save_tally(counts, now)
        for item in handshakes:
            if item.claim.key in saved and item.claim.webhook_id in webhooks:
                _conclude_handshake(webhooks[item.claim.webhook_id], item)
    return valid


def _following(using: str, claims: Sequence[Claim]) -> Collection[str]:
    """Return the next deliveries in the groups of these claims."""
    return QueueEntry.objects.using(using).filter(pk__in=[claim.delivery_id for claim in claims]).following()


def _delivery_id(item: Finished) -> str:
    return item.attempt.delivery_id


def _lock_verified(using: str, handshakes: Sequence[Finished]) -> Mapping[str, Webhook]:
    """Lock the webhooks with a final handshake. A failed one cancels deliveries, so their lanes are locked next."""
    decided = {item.claim.webhook_id for item in handshakes}
    webhooks = Webhook.objects.using(using).existing().filter(pk__in=decided).order_by("pk").select_for_update()
    return {webhook.pk: webhook for webhook in webhooks}


def _conclude_handshake(webhook: Webhook, item: Finished) -> None:
    """Apply the result to the locked webhook, unless it awaits the verification of another URL by now."""
    if webhook.awaited_url != item.claim.lane.url:
        return
    has_passed, is_change = item.step.state == State.SUCCEEDED, webhook.is_changing_url
    if has_passed and is_change:
        WebhookHealth.objects.using(webhook.alias).clear(webhook)
        QueueLane.objects.using(webhook.alias).forget_pace(webhook)
        webhook.switch_url()
    elif has_passed:
        webhook.activate()
    else:
        end = webhook.keep_url if is_change else webhook.fail
        end(reason_of_handshake(item.attempt.result, item.attempt.message))


def _save_notices(using: str, finished: Sequence[Finished]) -> None:
    """Queue a notice for each newly scheduled retry, if the webhook enables them.

    A notice has one attempt and expires at the time of the retry, so that it never delays the retry.
    """
    if not settings.RETRY_NOTICES:
        return
    announced = [
        (item, _notice(item, item.step.next_attempt_at))
        for item in finished
        if item.step.next_attempt_at is not None and _is_announced(item.claim)
    ]
    if announced:
        Event.objects.using(using).bulk_create([event for _, event in announced])
        deliveries = [_delivery_of(item, event) for item, event in announced]
        Delivery.objects.using(using).queue_all(deliveries, due_at=announced[0][0].ended_at)


def _is_announced(claim: Claim) -> bool:
    """Return True for a retry of an event. Handshakes are not events, and unverified webhooks receive no notices."""
    return claim.kind in REQUESTED and claim.lane.retry_notices and claim.lane.status == Webhook.Status.ACTIVE


def _notice(item: Finished, next_retry_at: datetime) -> Event:
    # Uses the database's clock like the time of the retry, because the worker's own clock may be wrong.
    created_at = item.ended_at
    event_id = new_id("evt", created_at)
    data = retry_notice_data(
        original_event_id=str(item.claim.event_id),
        retry_count=item.claim.number,
        next_retry_at=next_retry_at,
    )
    return Event(
        id=event_id,
        type=RETRY_NOTICE.name,
        owner_id=item.claim.lane.owner_id,
        body=encode(id=event_id, type=RETRY_NOTICE.name, created=created_at, data=data).decode(),
        is_test=item.claim.kind == Delivery.Kind.TEST,
        created_at=created_at,
        traceparent=item.claim.traceparent,
    )


def _delivery_of(item: Finished, event: Event) -> Delivery:
    return Delivery(
        id=new_id("dlv", event.created_at),
        event=event,
        created_at=event.created_at,
        webhook_id=item.claim.webhook_id,
        kind=Delivery.Kind.RETRY_NOTICE,
        max_attempts=1,
        expires_at=item.step.next_attempt_at,
    )


def tally(finished: Sequence[Finished]) -> str:
    """Return the counts of these results in the format of ``Tally.counts``, or "" if none of them counts."""
    webhooks: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    since_success: dict[str, defaultdict[str, int]] = {}
    given_up: list[str] = []
    for claim, attempt, step, _ in finished:
        if claim.kind == EVENT:
            digits = claim.webhook_id[-32:]
            counters = webhooks[digits]
            _count(counters, attempt, step.state)
            if step.state is State.SUCCEEDED:
                since_success.pop(digits, None)
                continue
            _count_refused(since_success.setdefault(digits, defaultdict(int)), attempt, step.state)
            if step.state is State.GIVEN_UP:
                emitted_ms = milliseconds_of(str(claim.event_id))
                counters[MISSED_FROM] = min(counters.get(MISSED_FROM, emitted_ms), emitted_ms)
                given_up.append(claim.delivery_id[-32:])
    if not webhooks:
        return ""
    for digits, refused in since_success.items():
        webhooks[digits].update(refused)
    return json.dumps({"webhooks": webhooks, "given_up": given_up}, separators=(",", ":"))


def _count_refused(counters: MutableMapping[str, int], attempt: AttemptLog, state: State) -> None:
    """Count a failed attempt by its cause. These counts begin anew with each success."""
    is_answer = attempt.result == Result.HTTP_STATUS
    cause = attempt.response_status if is_answer else attempt.result
    # Owners read the commonest of these causes.
    counters[f"{REFUSED}{UNREACHABLE if attempt.is_masked else cause}"] += 1
    if state is State.GIVEN_UP:
        counters[SINCE_SUCCESS] += 1


def _count(counters: MutableMapping[str, int], attempt: AttemptLog, state: State) -> None:
    if state is State.SUCCEEDED:
        counters["succeeded_at_once" if attempt.number == 1 else "succeeded_later"] += 1
    else:
        counters[f"{FAILED}{attempt.result}"] += 1
        if attempt.result == Result.HTTP_STATUS:
            counters[f"{CODE}{attempt.response_status}"] += 1
        if state is State.GIVEN_UP:
            counters["given_up"] += 1
    if attempt.response_status is not None:
        duration_ms = attempt.duration_ms or 0
        counters[TOOK[bisect_left(BUCKETS_MS, duration_ms)]] += 1
        counters[TOOK_SUM] += duration_ms
    if attempt.number == 1:
        queued_ms = milliseconds_of(attempt.delivery_id)
        waited_ms = max(0, int(attempt.started_at.timestamp() * 1000) - queued_ms)
        counters[WAITED[bisect_left(BUCKETS_MS, waited_ms)]] += 1
        counters[WAITED_SUM] += waited_ms
