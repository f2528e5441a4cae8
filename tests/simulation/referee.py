"""The invariants of delivery, checked from outside: by what receivers get, and by what is committed."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from webhooks_app.conf import policy_of_delivery
from webhooks_app.delivery.liveness import MAX_BACKOFF_SECONDS
from webhooks_app.models.status import PROBES, stop_reason

from .receivers import Reply
from .slot_rules import slots_of
from .store import Entry, Transaction, Webhook

SLACK = 0.002
"""Rounding of times, in seconds."""

PROBED_EVERY_SECONDS = 2.0
"""How long a webhook that hangs waits for another request, see "Probes" in ``webhooks_app.delivery.slots``."""

SLOW_APART_SECONDS = 0.25
"""The time between two claims from slow webhooks in SQLite."""

LOST_WITHIN_SECONDS = 20.0
"""How long a claim whose lease has ended waits for its result, apart from outages: ``OTHERS_RECORD_WITHIN_SECONDS`` and
a sweep, which looks for those of webhooks without a free slot too."""

RETRY_SLACK = 0.3
"""How much later than its policy says a retry is due at most, because of the time until the result was noticed."""

PROMPT_SECONDS = 1.0
"""How long a due delivery waits at most in a calm history with free slots: a poll, its statements and their delays."""

CALM_AFTER_SECONDS = 60.0

SETTLED_AFTER = MAX_BACKOFF_SECONDS + 2.0
"""How many seconds an idle worker needs at most to be back from waiting for the database, and to tell the others."""


class BrokenError(AssertionError):
    """An invariant is broken."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


@dataclass(slots=True, eq=False)
class Attempt:
    """A request, as its receiver sees it."""

    process: Any
    claim: Any
    began_at: float
    ended_at: float | None = None
    reply: Reply | None = None
    accepted: str = "200"


@dataclass(slots=True)
class Permission:
    """The states of a webhook from a time on."""

    since: float
    status: str
    is_paused: bool
    is_deleted: bool
    url: str
    pending_url: str
    max_in_flight: int | None
    rate_limit: float | None
    order: str


@dataclass(slots=True)
class Series:
    """A delivery and its results."""

    entry: Entry
    queued_at: float
    attempts: dict[int, Attempt] = field(default_factory=dict)
    final_at: float | None = None
    state: str = "pending"
    results: dict[int, str] = field(default_factory=dict)
    hastened_at: float = -1e9
    due_at: float = 0.0
    place: int = 0
    first_claimed_at: float = 1e9
    claimed_by: dict[int, tuple[Any, float]] = field(default_factory=dict)
    """The process of the claim of each attempt, and its time."""


class Referee:
    def __init__(self, world: Any) -> None:
        self.world = world
        self.loop = world.loop
        self.series: dict[str, Series] = {}
        self.states: defaultdict[str, list[Permission]] = defaultdict(list)
        self.open: defaultdict[str, dict[int, Attempt]] = defaultdict(dict)
        """The open requests of each webhook."""
        self.open_until: defaultdict[str, float] = defaultdict(lambda: -1e9)
        self.began_at: defaultdict[str, float] = defaultdict(lambda: -1e9)
        """The start of the last request to each webhook."""
        self.starts: defaultdict[str, deque[float]] = defaultdict(deque)
        self.order_changed_at: defaultdict[str, float] = defaultdict(lambda: -1e9)
        self.groups: defaultdict[tuple[str, str], list[Series]] = defaultdict(list)
        self.requests = 0

    # Webhooks

    def added(self, webhook: Webhook) -> None:
        self.states[webhook.pk].append(self._permission(webhook))

    def _permission(self, webhook: Webhook) -> Permission:
        return Permission(
            self.loop.now,
            webhook.status,
            webhook.paused_at is not None,
            webhook.deleted_at is not None,
            webhook.url,
            webhook.pending_url,
            webhook.max_in_flight,
            webhook.rate_limit,
            webhook.order,
        )

    def _states_since(self, webhook_id: str, since: float) -> list[Permission]:
        """Return the states of a webhook at this time and later."""
        states = self.states[webhook_id]
        first = max((i for i, each in enumerate(states) if each.since <= since), default=0)
        return states[first:]

    # Requests

    def began(self, process: Any, request: Any) -> int:
        """Judge a request at its start. Return the number of requests of its delivery."""
        claim, now = request.context.claim, self.loop.now
        self.requests += 1
        series = self.series.get(claim.delivery_id)
        if series is None:
            raise BrokenError("committed", f"{claim.delivery_id} is sent, but was never committed")
        attempt = Attempt(process, claim, now, accepted=claim.lane.accepted_statuses)
        self._judge_attempts(series, claim)
        self._judge_time(series, claim)
        self._judge_claim(process, series, claim)
        self._judge_webhook(series, claim, request.url)
        self._judge_order(series, attempt)
        self._judge_limit(attempt)
        self._judge_rate(claim)
        self.world.note_use_of_others(process)
        self._judge_promptness(series, claim)
        series.attempts[claim.number] = attempt
        self.open[claim.webhook_id][id(attempt)] = attempt
        self.began_at[claim.webhook_id] = now
        return len(series.attempts)

    def _judge_attempts(self, series: Series, claim: Any) -> None:
        if claim.number in series.attempts:
            raise BrokenError("attempts", f"attempt {claim.number} of {claim.delivery_id} is made twice")
        if claim.number > series.entry.max_attempts:
            raise BrokenError("attempts", f"{claim.delivery_id} has attempt {claim.number} of {claim.max_attempts}")

    def _judge_time(self, series: Series, claim: Any) -> None:
        """No request is early: not before its due time, which follows from the last attempt and the policy."""
        now, slack = self.loop.now, SLACK
        if any(getattr(worker.process, "has_bad_clock", False) for worker in self.world.workers) or (
            self.world.had_bad_clock
        ):
            slack += 0.1 * 61.0 * 2  # what two clocks drift apart between two readings of the database's
        if self.world.jumped_by:
            return  # what is due at a time is due earlier
        if series.hastened_at < series.queued_at and now < series.queued_at - slack:
            raise BrokenError("early", f"{claim.delivery_id} is sent before it is queued")
        earlier = series.attempts.get(claim.number - 1)
        if earlier is None or series.hastened_at >= earlier.began_at:
            return
        ended_at = earlier.ended_at if earlier.ended_at is not None and earlier.reply is not None else earlier.began_at
        if series.results.get(claim.number - 1) == "worker_lost" or (
            earlier.reply and earlier.reply.error == "abandoned"
        ):
            ended_at = earlier.began_at
        delay = self._delay(series, earlier)
        if now < ended_at + delay - slack:
            text = f"attempt {claim.number} of {claim.delivery_id} is {ended_at + delay - now:.3f} s early"
            raise BrokenError("early", text)

    def _delay(self, series: Series, attempt: Attempt) -> float:
        """Return the least seconds after an attempt: those of the policy, or those that the receiver has asked for."""
        policy = policy_of_delivery(series.entry.retry_policy)
        delay: float = policy.delay(attempt.claim.number).total_seconds()
        if attempt.reply and attempt.reply.retry_after:
            delay = max(delay, min(float(attempt.reply.retry_after), policy.max_retry_after.total_seconds()))
        return delay

    def _judge_claim(self, process: Any, series: Series, claim: Any) -> None:
        """A request begins soon after its claim, and not for a delivery that was final when it was claimed."""
        claimed_at = self.world.real(claim.lane.claimed_at)
        if claim.number in series.results and not self.world.had_bad_clock:
            result = series.results[claim.number]
            raise BrokenError("claims", f"attempt {claim.number} of {claim.delivery_id} is made after its {result}")
        slack = 0.5 + (13.0 if self.world.had_bad_clock else 0.0)
        begin_within = (self.world.plan.lease - self.world.plan.timeout) / 2
        if self.loop.now > claimed_at + begin_within * 1.12 + slack + process.was_frozen_for:
            text = f"{claim.delivery_id} is sent {self.loop.now - claimed_at:.1f} s after its claim"
            raise BrokenError("claims", text)
        if series.final_at is not None and series.final_at < claimed_at - slack:
            raise BrokenError("final", f"{claim.delivery_id} is sent although it was {series.state} before")
        entry = self.world.store.entries.get(claim.delivery_id)
        is_held = entry is not None and (entry.worker, entry.attempt) == (claim.lane.worker, claim.number)
        if not is_held and series.final_at is None and not self._is_troubled(process):
            raise BrokenError("claims", f"{claim.delivery_id} is sent without a claim in the database")

    def _is_troubled(self, process: Any) -> bool:
        return process.is_dead or self.loop.now < process.worker.troubled_until

    def _judge_webhook(self, series: Series, claim: Any, url: str) -> None:
        """No request to a stopped, paused or unverified webhook, and each to the right URL."""
        claimed_at = self.world.real(claim.lane.claimed_at)
        slack = 1.0 + (13.0 if self.world.had_bad_clock else 0.0)
        states = self._states_since(claim.webhook_id, claimed_at - slack)
        if not any(self._permits(state, claim.kind, url) for state in states):
            raise BrokenError("permission", f"{claim.kind} {claim.delivery_id} is sent to {url}: {states[-1]}")

    def _permits(self, state: Permission, kind: str, url: str) -> bool:
        if state.is_deleted:
            return False
        is_changing = state.status == "active" and state.pending_url != ""
        if kind == "verification" and is_changing:
            return url == state.pending_url
        if state.is_paused or url != state.url:
            return False
        return state.status == "active" or (
            (state.status == "pending" and kind in ("verification", "test"))
            or (state.status == "failed" and kind == "test")
        )

    def _judge_order(self, series: Series, attempt: Attempt) -> None:
        """Of an ordered group, one delivery has requests at a time, and none before an earlier one is final."""
        entry, claim = series.entry, attempt.claim
        claimed_at = self.world.real(claim.lane.claimed_at)
        key = self._group(entry)
        if key is None or self.order_changed_at[entry.webhook] > claimed_at - 60.0:
            return
        for other in self.groups[key]:
            if other is series or (other.final_at is not None and other.final_at <= self.loop.now):
                continue
            if any(each.ended_at is None and self._is_valid(each) for each in other.attempts.values()):
                raise BrokenError("order", f"{entry.pk} and {other.entry.pk} are open together")
            if other.attempts and not series.attempts:
                raise BrokenError("order", f"{entry.pk} begins before {other.entry.pk}, which began, is final")
            is_earlier = other.place < series.place
            # Its first claim, of which nobody may have heard, has moved it to the front of the group.
            if is_earlier and other.queued_at < series.first_claimed_at - SLACK and not series.attempts:
                raise BrokenError("order", f"{entry.pk} overtakes {other.entry.pk}")

    def _group(self, entry: Entry) -> tuple[str, str] | None:
        webhook = self.world.store.webhooks[entry.webhook]
        if entry.place is None or entry.order_key is None or webhook.order == "none":
            return None
        return entry.webhook, entry.order_key

    def _is_valid(self, attempt: Attempt) -> bool:
        """Return True for an open request of a worker that others have no reason to give up."""
        return not self._is_troubled(attempt.process)

    def _judge_limit(self, attempt: Attempt) -> None:
        webhook_id, process = attempt.claim.webhook_id, attempt.process
        if self._is_troubled(process):
            return
        since = self.loop.now - self.world.plan.timeout - 2.0
        limits = [state.max_in_flight for state in self._states_since(webhook_id, since)]
        cap = self.world.cap
        limit = max(cap if each is None else each for each in limits)
        others = sum(self._is_valid(each) for each in self.open[webhook_id].values())
        if others + 1 > limit:
            raise BrokenError("limit", f"{webhook_id} has {others + 1} open requests; its limit is {limit}")

    def _judge_rate(self, claim: Any) -> None:
        """In each period, at most the rate, and what an idle webhook saves up: one second."""
        now, starts = self.loop.now, self.starts[claim.webhook_id]
        starts.append(now)
        while starts[0] < now - 20.0:
            starts.popleft()
        states = self._states_since(claim.webhook_id, now - 30.0)
        if any(state.rate_limit is None for state in states) or self.world.last_trouble > now - 60.0:
            return
        rate = max(state.rate_limit for state in states)  # type: ignore[type-var]
        for number, at in enumerate(reversed(starts), 1):
            # Requests may begin somewhat after their claims.
            if number > rate * (now - at + 1.0 + 1.0) + 2:
                raise BrokenError("rate", f"{claim.webhook_id} gets {number} requests in {now - at:.2f} s at {rate}/s")

    def _last_trouble(self) -> float:
        """Return when the last fault ended. A frozen worker may hold locks."""
        return max([self.world.last_trouble, *(each.process.frozen_until for each in self.world.workers)])

    def _judge_promptness(self, series: Series, claim: Any) -> None:
        """Without faults, a free worker sends a due delivery at once, and probes a webhook that hangs."""
        now, pk = self.loop.now, claim.webhook_id
        if self.world.had_trouble and self._last_trouble() > now - CALM_AFTER_SECONDS:
            return
        webhook, since = self.world.store.webhooks[pk], series.due_at
        if claim.kind != "event" or webhook.rate_limit is not None:
            return
        if self.open[pk]:
            is_limited = webhook.max_in_flight is not None or len(self.open[pk]) + 1 >= self.world.cap
            if is_limited or webhook.order != "none" or self.world.crowded_at > since - 1.0:
                return
            since = max(since, self.began_at[pk] + PROBED_EVERY_SECONDS)
        else:
            since = max(since, self.open_until[pk])
        if key := self._group(series.entry):
            since = max([since, *(other.final_at or 0.0 for other in self.groups[key])])
        slack = PROMPT_SECONDS + SLOW_APART_SECONDS * len(self.world.store.webhooks)
        if now - since <= slack or self.world.busy_at > since - 1.0 or len(self._states_since(pk, since - 5.0)) > 1:
            return
        raise BrokenError("prompt", f"{claim.delivery_id} waits for {now - since:.2f} s, and a worker is free")

    def ended(self, process: Any, request: Any, reply: Reply) -> None:
        claim = request.context.claim
        attempt = self.series[claim.delivery_id].attempts[claim.number]
        attempt.ended_at, attempt.reply = self.loop.now, reply
        self.open[claim.webhook_id].pop(id(attempt), None)
        self.open_until[claim.webhook_id] = self.loop.now

    def died(self, process: Any) -> None:
        for attempts in self.open.values():
            for key, attempt in list(attempts.items()):
                if attempt.process is process:
                    del attempts[key]

    def hastened(self, delivery_id: str) -> None:
        self.series[delivery_id].hastened_at = self.loop.now

    # Commits

    def committed(self, transaction: Transaction) -> None:
        store = self.world.store
        groups: dict[tuple[str, str], None] = {}
        for pk in [pk for pk in transaction.touched if pk in store.webhooks]:
            self._follow_webhook(store.webhooks[pk], transaction)
        for pk in transaction.touched:
            if pk not in store.deliveries:
                continue
            delivery, entry = store.deliveries[pk], store.entries.get(pk)
            series = self.series.get(pk)
            if series is None:
                if entry is None:
                    raise BrokenError("committed", f"{pk} is committed without a queue entry")
                series = self.series[pk] = Series(entry, self.loop.now)
                series.due_at = self.loop.now
                if entry.place is not None:
                    series.place = entry.place
                    self.groups[entry.webhook, entry.order_key or ""].append(series)
            if (entry is None) is (delivery.state == "pending"):
                raise BrokenError(
                    "committed", f"{pk} is {delivery.state}, {'without' if entry is None else 'with'} entry"
                )
            self._judge_entry(entry, series)
            self._judge_results(series, delivery)
            if key := self._group(series.entry):
                groups[key] = None
        for webhook_id, key in groups:
            self._judge_group(webhook_id, key)

    def _follow_webhook(self, webhook: Webhook, transaction: Transaction) -> None:
        before, after = self.states[webhook.pk][-1], self._permission(webhook)
        after.since = before.since
        if before != after:
            if transaction.what != "change of a webhook":
                self._judge_decision(before, after, transaction)
            if before.order != after.order:
                self.order_changed_at[webhook.pk] = self.loop.now
            after.since = self.loop.now
            self.states[webhook.pk].append(after)

    def _judge_decision(self, before: Permission, after: Permission, transaction: Transaction) -> None:
        """A webhook changes by the final result of a handshake with the URL that it awaits, in one commit with it."""
        awaited, has_passed = before.pending_url or before.url, after.status == "active" and not after.pending_url
        if before.pending_url and before.status == "active":
            has_passed = after.url == awaited
        for pk in transaction.touched:
            delivery, series = self.world.store.deliveries.get(pk), self.series.get(pk)
            if delivery is None or series is None or delivery.kind != "verification" or series.state != "pending":
                continue
            attempt = series.attempts.get(delivery.attempt_count)
            if delivery.state == ("succeeded" if has_passed else "given_up") and (
                attempt is None or attempt.claim.lane.url == awaited
            ):
                return
        raise BrokenError("decision", f"{before} becomes {after} without the result of a handshake with {awaited}")

    def _judge_entry(self, entry: Entry | None, series: Series) -> None:
        if entry is None:
            return
        if entry.attempt > entry.max_attempts:
            raise BrokenError("attempts", f"{entry.pk} is claimed for attempt {entry.attempt} of {entry.max_attempts}")
        is_claimed = entry.claimed_at is not None
        if is_claimed is (entry.worker is None) or is_claimed is (entry.leased_until is None):
            raise BrokenError("claims", f"{entry.pk} is half claimed")
        if is_claimed:
            series.first_claimed_at = min(series.first_claimed_at, self.loop.now)
            process = self.world.processes.get(entry.worker)
            series.claimed_by.setdefault(entry.attempt, (process, self.loop.now))
        elif entry.due_at is not None:
            series.due_at = max(series.queued_at, self.world.real(entry.due_at))

    def _judge_results(self, series: Series, delivery: Any) -> None:
        if series.state != "pending" and delivery.state != series.state:
            raise BrokenError("final", f"{delivery.pk} was {series.state} and is now {delivery.state}")
        for number, result in delivery.results.items():
            if number in series.results:
                if series.results[number] != result:
                    raise BrokenError("results", f"attempt {number} of {delivery.pk} has a second result")
                continue
            series.results[number] = result
            self._judge_result(series, number, result)
            self._judge_retry(series, number)
        has_succeeded = "succeeded" in series.results.values()
        if delivery.state in ("pending", "succeeded", "given_up") and has_succeeded is (delivery.state != "succeeded"):
            raise BrokenError("final", f"{delivery.pk} is {delivery.state} after {series.results}")
        if delivery.state != series.state:
            series.state, series.final_at = delivery.state, self.loop.now
            if delivery.state == "given_up" and len(series.results) < series.entry.max_attempts:
                raise BrokenError("attempts", f"{delivery.pk} is given up after {len(series.results)} attempts")
            if delivery.state == "cancelled":
                self._judge_cancellation(series, delivery)

    def _judge_result(self, series: Series, number: int, result: str) -> None:
        attempt = series.attempts.get(number)
        if result == "worker_lost":
            if attempt is not None and not self._is_troubled(attempt.process) and not self.world.had_bad_clock:
                raise BrokenError(
                    "lost", f"attempt {number} of {series.entry.pk} counts as lost, but its worker is fine"
                )
            if attempt is None:
                self._judge_lost(series, number)
            return
        if attempt is None or attempt.reply is None or attempt.ended_at is None:
            raise BrokenError("results", f"attempt {number} of {series.entry.pk} is {result}, but has not ended")
        status, error = attempt.reply.status, attempt.reply.error
        takes_more = attempt.accepted == "2xx" and series.entry.kind != "verification"
        is_confirmed = not error and (status == 200 or (takes_more and 200 <= status < 300))
        if is_confirmed is not (result == "succeeded"):
            raise BrokenError("results", f"attempt {number} of {series.entry.pk} is {result} after {error or status}")

    def _judge_lost(self, series: Series, number: int) -> None:
        """An attempt that was not made counts only if its worker was absent at a time since its claim."""
        process, claimed_at = series.claimed_by[number]
        is_present = process and not process.is_dead and not process.has_ended and process.absent_at < claimed_at
        if is_present and not self.world.had_bad_clock:
            raise BrokenError("lost", f"attempt {number} of {series.entry.pk} counts as lost, but was never made")

    def _judge_retry(self, series: Series, number: int) -> None:
        """A retry is due when its policy says, and not much later."""
        attempt, due_at = series.attempts.get(number), series.entry.due_at
        if attempt is None or attempt.ended_at is None or due_at is None or series.entry.claimed_at is not None:
            return
        if self.world.had_trouble or self.world.had_bad_clock or series.entry.pk not in self.world.store.entries:
            return
        policy = policy_of_delivery(series.entry.retry_policy)
        delay = self._delay(series, attempt)
        late = self.world.real(due_at) - attempt.ended_at - delay * (1 + policy.jitter)
        if late > RETRY_SLACK:
            raise BrokenError("late", f"the retry after attempt {number} of {series.entry.pk} is due {late:.2f} s late")

    def _judge_cancellation(self, series: Series, delivery: Any) -> None:
        webhook = self.world.store.webhooks[delivery.webhook]
        if delivery.state_reason == "expired":
            if series.entry.expires_at is None:
                raise BrokenError("final", f"{delivery.pk} is expired without a time of expiry")
        elif not stop_reason(series.entry.kind, webhook) and len(self.states[webhook.pk]) < 2:
            raise BrokenError("final", f"{delivery.pk} is cancelled: {delivery.state_reason}")

    def _judge_group(self, webhook_id: str, key: str) -> None:
        """The first entry of a group is never parked, and only one of them is claimed."""
        entries = [
            entry
            for entry in self.world.store.of_webhook.get(webhook_id, {}).values()
            if entry.order_key == key and entry.place is not None
        ]
        if entries and min(entries, key=lambda entry: entry.place).due_at is None:  # type: ignore[arg-type,return-value]
            raise BrokenError("order", f"the first delivery of group {key!r} of {webhook_id} is parked")
        claimed = [entry.pk for entry in entries if entry.claimed_at is not None]
        if len(claimed) > 1 and self.order_changed_at[webhook_id] < self.loop.now - 90.0:
            raise BrokenError("order", f"{' and '.join(claimed)} of one group are claimed")

    # Ends

    def bound(self) -> float:
        """Return the seconds after the faults within which everything is final."""
        plan = self.world.plan
        frozen = max((each.process.frozen_until - self.loop.now for each in self.world.workers), default=0.0)
        seconds = max(0.0, frozen) + plan.timeout + plan.lease + 15.0 + 13.0 + 36.0 + 60.0
        entries = self.world.store.entries.values()
        for webhook in self.world.store.webhooks.values():
            number = sum(entry.webhook == webhook.pk for entry in entries)
            if webhook.rate_limit:
                seconds += number * 4 / webhook.rate_limit
        return seconds + len(entries) * 1.0

    def noticed(self) -> None:
        """Workers have noticed the claims that are lost, also those of webhooks that are paused or at their limit."""
        running = [each.process for each in self.world.workers if not each.is_leaving]
        present = [each.absent_at for each in running if not each.is_dead and not each.has_ended]
        since = max(min(present, default=self.loop.now), self._last_trouble()) + LOST_WITHIN_SECONDS
        for entry in self.world.store.entries.values():
            if (
                entry.leased_until
                and max(since, self.world.real(entry.leased_until) + LOST_WITHIN_SECONDS) < self.loop.now
            ):
                raise BrokenError("lost", f"nobody notices the lost claim of {entry.pk}")

    def final(self) -> None:
        """Everything that can be sent has been: nothing is lost, and nobody waits for ever."""
        for entry in self.world.store.entries.values():
            webhook = self.world.store.webhooks[entry.webhook]
            is_stopped = webhook.deleted_at is not None or stop_reason(entry.kind, webhook)
            if webhook.status != "active" and not is_stopped and entry.kind not in PROBES:
                continue  # it waits for a handshake, which a user has to request
            raise BrokenError("liveness", f"{entry.pk} to {webhook.pk} is not final: {entry}")
        for pk, series in self.series.items():
            if pk not in self.world.store.entries and series.final_at is None:
                raise BrokenError("committed", f"{pk} is lost")

    def quiet(self) -> None:
        """Idle workers hold nothing, and have told the others so."""
        moment = self.world.now().timestamp()
        awake = [each for each in self.world.workers if each.process.frozen_until < self.loop.now - SETTLED_AFTER]
        numbers = {str(each.number) for each in awake if not each.process.is_dead}
        for pk, lane in self.world.store.lanes.items():
            for name, (number, until) in lane.in_flight.items():
                if name in numbers and until > moment + 0.0 and not self.world.store.of_webhook.get(pk):
                    raise BrokenError("lanes", f"{pk} counts {number} requests of an idle worker")
        for worker in awake:
            if worker.process.is_dead or worker.process.has_ended or worker.is_leaving or worker.transport.in_flight:
                continue
            if problem := slots_of(worker.engine).problem_when_idle():
                raise BrokenError("slots", problem)
