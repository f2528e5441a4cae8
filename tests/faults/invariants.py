"""The invariants after any fault, checked against the rows and the log of the receiver.

The functions are pure, so that tests with artificial rows can cover each count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise

Pair = tuple[str, str]
"""An event's id and the path of a webhook's URL."""

STUCK_AFTER_SECONDS = 60.0
"""A pending delivery is stuck if it is overdue by more, and its receiver got no request for as long."""
TOLERANCE_SECONDS = 0.02
"""The receiver records responses slightly earlier, and requests slightly later, than the worker."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A request in the log of the receiver. ``status`` is None without a response."""

    event_id: str
    event_type: str
    path: str
    at: float
    answered_at: float | None = None
    status: int | None = None
    announced: tuple[str, int] | None = None
    """For a notice: the event and the number of the announced retry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRow:
    number: int
    result: str
    response_status: int | None
    started_at: float
    duration_seconds: float | None

    @property
    def is_unread(self) -> bool:
        """Whether it may have been answered unknown to the worker, because that was killed or frozen."""
        return self.result in ("worker_lost", "timeout")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryRow:
    """A delivery of an event, with the log of its attempts. Times are Unix seconds."""

    id: str
    event_id: str
    webhook_id: str
    path: str
    state: str
    next_attempt_at: float | None = None
    kind: str = "event"
    is_redelivery: bool = False
    attempts: tuple[AttemptRow, ...] = ()

    @property
    def pair(self) -> Pair:
        return self.event_id, self.path


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All evidence after a fault: one snapshot of the rows, and the receiver's log as it was read after it.

    ``committed`` are the events whose transaction committed according to the emitting process. ``events`` are those
    with a row. Each of both must have a delivery to each of ``subscribers`` (webhook ids).
    """

    now: float
    committed: frozenset[str]
    rolled_back: frozenset[str]
    events: frozenset[str]
    subscribers: frozenset[str]
    deliveries: Sequence[DeliveryRow]
    hits: Sequence[Hit]
    delays_seconds: Sequence[float]
    kills: int = 0
    delays_by_path: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The delays of webhooks with a retry policy of their own."""
    accepts_2xx: frozenset[str] = frozenset()
    """The paths of webhooks for which every 2xx status confirms receipt."""
    admitted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By webhook with a filter: the events that it lets through."""
    dishonoured: Sequence[str] = ()
    """Choices of webhooks that requests did not honour."""
    groups: Sequence[Sequence[Pair]] = ()
    """The deliveries of each ordered group, in the order of emission."""

    def delays(self, path: str) -> Sequence[float]:
        return self.delays_by_path.get(path, self.delays_seconds)

    def confirms(self, path: str, status: int | None) -> bool:
        """Return True if a status of the receiver at a path confirms receipt."""
        return status == 200 or (path in self.accepts_2xx and status is not None and 200 <= status < 300)

    def confirms_hit(self, hit: Hit) -> bool:
        return self.confirms(hit.path, hit.status)


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """The number of violations of each invariant. ``tried`` is the number of examined deliveries.

    ``duplicates`` are all requests after a 200. A killed worker may cause one for each of its requests in flight, and
    more if the receiver then answers differently. ``excess_duplicates`` are those without a kill as the cause.
    """

    tried: int
    lost: int
    stuck: int
    false_successes: int
    too_many: int
    duplicates: int
    excess_duplicates: int
    early: int
    rolled_back: int
    unwanted: int
    dishonoured: int
    out_of_order: int
    details: tuple[str, ...] = field(default=(), compare=False)

    @property
    def broken(self) -> dict[str, int]:
        """Return the counts that should be 0 but are not."""
        allowed = ("tried", "duplicates", "details")
        return {
            item.name: count
            for item in fields(self)
            if item.name not in allowed and (count := getattr(self, item.name))
        }

    def check(self) -> None:
        assert not self.broken, "\n".join([str(self.broken), *self.details[:20]])


def count(evidence: Evidence) -> Counts:
    """Return the number of violations of each invariant."""
    found = {
        "lost": list(_lost(evidence)),
        "stuck": list(_stuck(evidence)),
        "false_successes": list(_false_successes(evidence)),
        "too_many": [*_too_many(evidence), *_too_many_notices(evidence), *_too_many_handshakes(evidence)],
        "excess_duplicates": list(_excess_duplicates(evidence)),
        "early": [*_early_rows(evidence), *_early_hits(evidence)],
        "rolled_back": list(_rolled_back(evidence)),
        "unwanted": list(_unwanted(evidence)),
        "dishonoured": list(evidence.dishonoured),
        "out_of_order": list(_out_of_order(evidence)),
    }
    return Counts(
        tried=sum(delivery.kind == "event" for delivery in evidence.deliveries),
        duplicates=sum(_hits_after_success(evidence).values()),
        details=tuple(f"{name}: {what}" for name, cases in found.items() for what in cases),
        **{name: len(cases) for name, cases in found.items()},
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The result of a run of faults, with its sentence and the exit code of the program."""

    exit_code: int
    sentence: str


def judge(evidence: Evidence) -> Verdict:
    """Return what the evidence proves: a violation, that nothing is broken, or neither."""
    broken = count(evidence).broken
    pending = _pending(evidence)
    if broken:
        return Verdict(exit_code=1, sentence=f"broken: {', '.join(f'{name} {n}' for name, n in broken.items())}")
    if pending:
        numbers = Counter(delivery.path for delivery in pending)
        last = last_hits(evidence.hits)
        receivers = (
            f"{number} to {path} (last request {evidence.now - last.get(path, 0):.0f} s ago)"
            for path, number in numbers.most_common(5)
        )
        return not_judged(f"{len(pending)} deliveries are still in progress: {', '.join(receivers)}.")
    if not evidence.deliveries:
        return not_judged("there was no delivery.")
    return Verdict(exit_code=0, sentence="Nothing is broken.")


def not_judged(reason: str) -> Verdict:
    return Verdict(exit_code=3, sentence=f"Not judged: {reason}")


def _lost(evidence: Evidence) -> Iterator[str]:
    delivered = {(delivery.event_id, delivery.webhook_id) for delivery in evidence.deliveries}
    everything = evidence.committed | evidence.events
    for webhook_id in sorted(evidence.subscribers):
        for event_id in sorted(everything & evidence.admitted.get(webhook_id, everything)):
            if (event_id, webhook_id) not in delivered:
                yield f"{event_id} has no delivery to {webhook_id}"


def _unwanted(evidence: Evidence) -> Iterator[str]:
    for delivery in evidence.deliveries:
        admitted = evidence.admitted.get(delivery.webhook_id)
        if delivery.kind == "event" and admitted is not None and delivery.event_id not in admitted:
            yield f"{delivery.id} of {delivery.event_id} was queued in spite of the filter of {delivery.webhook_id}"


def _stuck(evidence: Evidence) -> Iterator[str]:
    last = last_hits(evidence.hits)
    for delivery in _pending(evidence):
        due_at = delivery.next_attempt_at or 0
        if is_stuck(evidence.now, due_at=due_at, last_hit_at=last.get(delivery.path, 0)):
            overdue = f"is overdue by {evidence.now - due_at:.0f} s" if due_at else "is never due"
            yield f"{delivery.id} to {delivery.path} {overdue}"


def is_stuck(now: float, *, due_at: float, last_hit_at: float) -> bool:
    """Return True if a pending delivery waits for nothing. A busy receiver may only be slower than its events."""
    return now - max(due_at, last_hit_at) > STUCK_AFTER_SECONDS


def last_hits(hits: Iterable[Hit]) -> dict[str, float]:
    """Return the time of the last request to each path."""
    last: dict[str, float] = {}
    for hit in hits:
        last[hit.path] = max(hit.at, last.get(hit.path, 0))
    return last


def _pending(evidence: Evidence) -> list[DeliveryRow]:
    return [delivery for delivery in evidence.deliveries if delivery.state == "pending"]


def _pending_pairs(evidence: Evidence) -> set[Pair]:
    """Return the pairs whose log goes on: the receiver may have got requests that the rows do not show yet."""
    return {delivery.pair for delivery in _pending(evidence)}


def _false_successes(evidence: Evidence) -> Iterator[str]:
    confirmed = {(hit.event_id, hit.path) for hit in evidence.hits if evidence.confirms_hit(hit)}
    for delivery in evidence.deliveries:
        if delivery.state != "succeeded":
            continue
        logged = any(evidence.confirms(delivery.path, attempt.response_status) for attempt in delivery.attempts)
        if not logged or delivery.pair not in confirmed:
            seen = "the receiver's log" if logged else "its attempts"
            yield f"{delivery.id} to {delivery.path} succeeded, and there is no confirmation in {seen}"


def _too_many(evidence: Evidence) -> Iterator[str]:
    again = _redeliveries(evidence)
    for pair, hits in _hits_by_pair(evidence).items():
        limit = len(evidence.delays(pair[1])) + 1
        if len(hits) > limit * (1 + again[pair]):
            yield f"{len(hits)} requests for {pair}"


def _too_many_notices(evidence: Evidence) -> Iterator[str]:
    """A retry is announced once per series, by one request."""
    again = _redeliveries(evidence)
    notices = Counter((hit.announced, hit.path) for hit in evidence.hits if hit.announced)
    for ((event_id, retry), path), number in notices.items():
        if number > 1 + again[event_id, path]:
            yield f"{number} notices of retry {retry} of {event_id} to {path}"


def _too_many_handshakes(evidence: Evidence) -> Iterator[str]:
    limit = len(evidence.delays_seconds) + 1
    series = Counter(delivery.path for delivery in evidence.deliveries if delivery.kind == "verification")
    handshakes = Counter(hit.path for hit in evidence.hits if hit.event_type == "webhook.verification")
    for path, number in handshakes.items():
        if number > limit * max(1, series[path]):
            yield f"{number} handshakes with {path}"


def _excess_duplicates(evidence: Evidence) -> Iterator[str]:
    """A request after a 200 is excused if the 200 was not read, up to the number of kills."""
    unfinished = _pending_pairs(evidence)
    attempts: dict[Pair, list[AttemptRow]] = defaultdict(list)
    for delivery in evidence.deliveries:
        attempts[delivery.pair] += delivery.attempts
    for pair, hits in _hits_by_pair(evidence).items():
        if pair in unfinished:
            continue
        last_at = hits[-1].at
        repeated = sum(evidence.confirms_hit(hit) and (hit.answered_at or last_at) < last_at for hit in hits)
        unread = sum(attempt.is_unread for attempt in attempts[pair])
        if repeated > min(unread, evidence.kills):
            results = ", ".join(attempt.result for attempt in attempts[pair])
            answers = ", ".join(str(hit.status) for hit in hits)
            yield f"{pair} was answered {answers}; the attempts: {results}; {evidence.kills} kills"


def _early_rows(evidence: Evidence) -> Iterator[str]:
    for delivery in evidence.deliveries:
        is_handshake = delivery.kind == "verification"
        delays = evidence.delays_seconds if is_handshake else evidence.delays(delivery.path)
        for before, after in pairwise(delivery.attempts):
            ended_at = before.started_at + (before.duration_seconds or 0)
            due_at = ended_at + delays[before.number - 1]
            if after.started_at < due_at - TOLERANCE_SECONDS:
                yield f"attempt {after.number} of {delivery.id} began {due_at - after.started_at:.3f} s early"


def _early_hits(evidence: Evidence) -> Iterator[str]:
    """The n-th request belongs to the n-th attempt or a later one, and delays only grow.

    A receiver answers the request of a killed worker long after that attempt has ended, so only the rows count then.
    """
    uncertain = _pending_pairs(evidence) | {
        delivery.pair
        for delivery in evidence.deliveries
        if delivery.is_redelivery or any(attempt.result == "worker_lost" for attempt in delivery.attempts)
    }
    for pair, hits in _hits_by_pair(evidence).items():
        if pair in uncertain:
            continue
        delays = evidence.delays(pair[1])
        for number, (before, after) in enumerate(pairwise(hits)):
            if number >= len(delays):
                continue  # An excess request, counted elsewhere.
            waited = after.at - (before.answered_at or before.at)
            if waited < delays[number] - TOLERANCE_SECONDS:
                yield f"{pair} came again after {waited:.3f} s"


def _rolled_back(evidence: Evidence) -> Iterator[str]:
    for event_id in sorted(evidence.rolled_back & evidence.events):
        yield f"{event_id} has a row"
    for delivery in evidence.deliveries:
        if delivery.event_id in evidence.rolled_back:
            yield f"{delivery.id} belongs to {delivery.event_id}"
    for hit in evidence.hits:
        if hit.event_id in evidence.rolled_back:
            yield f"{hit.event_id} was sent to {hit.path}"


def _out_of_order(evidence: Evidence) -> Iterator[str]:
    """The first request of each delivery begins after the last one of the delivery before has ended.

    The end of a request is its answer. A worker that was killed ended it before, so that its beginning counts.
    """
    series = _hits_by_pair(evidence)
    for group in evidence.groups:
        sent = [(pair, series[pair]) for pair in group if pair in series]
        for (before, earlier), (after, later) in pairwise(sent):
            last = earlier[-1]
            ended_at = last.at if last.answered_at is None else last.answered_at
            if later[0].at < ended_at - TOLERANCE_SECONDS or later[0].at < last.at:
                yield f"{after} was sent {ended_at - later[0].at:.3f} s before {before} was over"


def _hits_by_pair(evidence: Evidence) -> Mapping[Pair, list[Hit]]:
    """Return the requests for each event in order. Notices and handshakes have series of their own."""
    hits: dict[Pair, list[Hit]] = defaultdict(list)
    for hit in sorted(evidence.hits, key=lambda hit: hit.at):
        if hit.event_type not in ("webhook.verification", "webhook.retry"):
            hits[hit.event_id, hit.path].append(hit)
    return hits


def _redeliveries(evidence: Evidence) -> Mapping[Pair, int]:
    return Counter(delivery.pair for delivery in evidence.deliveries if delivery.is_redelivery)


def _hits_after_success(evidence: Evidence) -> Mapping[Pair, int]:
    """Return the number of requests that arrived after the receiver had confirmed receipt."""
    counts = {}
    for pair, hits in _hits_by_pair(evidence).items():
        confirmations = (hit.answered_at for hit in hits if evidence.confirms_hit(hit) and hit.answered_at)
        confirmed_at = min(confirmations, default=None)
        counts[pair] = sum(confirmed_at is not None and hit.at > confirmed_at for hit in hits)
    return counts
