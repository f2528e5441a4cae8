"""The rows of a plan for demo data, made inside PostgreSQL: ten times as fast as sending them there."""

from __future__ import annotations

import json
from typing import Any

from django.db import connections, models

from ..models import Delivery, DeliveryAttempt, Event
from .demo_cast import ANSWERS, OF_ALL, Target
from .demo_data import DUE_WITHIN_MS, Plan
from .demo_turns import Era

_MOMENT = "to_timestamp(0) + make_interval(secs => {} / 1000.0)"


def _part(digits: str, first: int) -> str:
    """Return SQL for four of the hexadecimal digits as a number."""
    return f"('x' || substr({digits}, {first}, 4))::bit(16)::integer"


class DemoSql:
    def __init__(self, plan: Plan, using: str) -> None:
        self._plan = plan
        self._connection = connections[using]
        self._values: dict[str, Any] = {
            "seed": plan.seed,
            "since": plan.since_ms,
            "span": plan.span_ms,
            "deliveries": plan.deliveries,
            "due": plan.due,
            "kept_since": plan.kept_since_ms,
            "max_attempts": plan.max_attempts,
            "waits": plan.waits_ms,
            "types": json.dumps([{"k": k, "type": name, "data": data} for k, (name, data) in enumerate(plan.types)]),
            "answers": json.dumps(
                [{"result": result, "message": text, "status": status} for result, (text, status) in ANSWERS.items()]
            ),
        }

    def insert(self, first: int, last: int) -> None:
        """Insert the rows of these deliveries, with one statement for each era that they are of."""
        sql, defaults = self._statement()
        for era in self._plan.eras:
            start, end = max(first, era.first), min(last, era.until)
            if start < end:
                chosen = {"first": start, "last": end - 1, "era": era.first, "is_due": era.is_due, **_turns(era)}
                with self._connection.cursor() as cursor:
                    cursor.execute(sql, {**self._values, **defaults, **chosen})

    def _statement(self) -> tuple[str, dict[str, Any]]:
        owner = Event._meta.get_field("owner").db_type(self._connection)
        defaults: dict[str, Any] = {}
        events = self._insert(
            Event,
            defaults,
            id="event_digits::uuid",
            type="type",
            owner_id=f"owner_id::{owner}",
            body="""CASE WHEN ms < %(kept_since)s THEN '' ELSE
                '{"id":"evt_' || event_digits || '","type":"' || type || '","created":"'
                || to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '","data":' || data || '}'
                END""",
            is_test="FALSE",
            created_at="moment",
        )
        deliveries = self._insert(
            Delivery,
            defaults,
            id="digits::uuid",
            event_id="event_digits::uuid",
            webhook_id="webhook_id",
            state="state",
            state_reason="CASE state WHEN 'cancelled' THEN 'webhook_disabled' ELSE '' END",
            attempt_count="attempts",
            max_attempts="%(max_attempts)s",
            next_attempt_at="CASE state WHEN 'pending' THEN moment END",
            created_at="moment",
            finished_at=f"CASE WHEN state <> 'pending' THEN {_MOMENT.format('(ms + wait + duration)')} END",
            last_result="CASE state WHEN 'succeeded' THEN state WHEN 'given_up' THEN failure ELSE '' END",
        )
        attempts = self._insert(
            DeliveryAttempt,
            defaults,
            id="(lpad(to_hex(begins), 12, '0') || lpad(to_hex(number), 2, '0') || substr(digest, 15))::uuid",
            delivery_id="digits::uuid",
            number="number",
            result="result",
            message="message",
            started_at=_MOMENT.format("begins"),
            duration_ms="duration",
            url="url",
            timestamp="begins / 1000",
            signature="'sha256=' || digest || digest",
            response_status="status",
            response_headers="""
                CASE WHEN status IS NULL THEN '[]' ELSE '[["Content-Type", "text/plain"]]' END::jsonb""",
            response_body="CASE status WHEN 200 THEN 'ok' WHEN 503 THEN 'Service unavailable' ELSE '' END",
            peer="CASE WHEN status IS NULL THEN '' ELSE '203.0.113.7' END",
        )
        sql = f"""
            WITH targets AS MATERIALIZED (
                SELECT * FROM json_to_recordset(%(targets)s::json) AS t (target text, url text,
                    at_once integer, later integer, given_up integer, failure text, ms bigint)
            ), turns AS MATERIALIZED (
                SELECT * FROM json_to_recordset(%(turns)s::json) AS t (turn integer, target text, owner_id text,
                    k integer, place integer)
            ), types AS MATERIALIZED (
                SELECT * FROM json_to_recordset(%(types)s::json) AS type (k integer, type text, data text)
            ), answers AS MATERIALIZED (
                SELECT * FROM json_to_recordset(%(answers)s::json) AS a (result text, message text, status smallint)
            ), numbered AS MATERIALIZED (
                SELECT n, n - place AS event_n, place, target, owner_id, k, md5(%(seed)s || ':' || n) AS digest,
                    CASE WHEN %(is_due)s
                        THEN %(since)s + %(span)s::bigint + (n - place - %(deliveries)s) * {DUE_WITHIN_MS} / %(due)s
                        ELSE %(since)s + (n - place) * %(span)s::bigint / %(deliveries)s END AS ms
                FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
                JOIN turns ON turn = (n - %(era)s) %% %(turn_count)s
            ), decided AS MATERIALIZED (
                SELECT digest, numbered.ms, place, target::uuid AS webhook_id, url, owner_id, failure, type, data,
                    {_MOMENT.format("numbered.ms")} AS moment,
                    lpad(to_hex(numbered.ms), 12, '0') || substr(digest, 13) AS digits,
                    lpad(to_hex(numbered.ms), 12, '0')
                        || substr(md5(%(seed)s || ':' || event_n), 13) AS event_digits,
                    targets.ms * ({OF_ALL // 2} + {_part("digest", 17)}) / {OF_ALL} AS duration,
                    CASE WHEN %(is_due)s THEN 'pending'
                        WHEN {_part("digest", 9)} < later THEN 'succeeded'
                        WHEN {_part("digest", 9)} < given_up THEN 'given_up' ELSE 'cancelled' END AS state,
                    CASE WHEN %(is_due)s THEN 0
                        WHEN {_part("digest", 9)} < at_once THEN 1
                        WHEN {_part("digest", 9)} < later THEN LEAST(%(max_attempts)s, 2 + {_part("digest", 13)} %% 3)
                        WHEN {_part("digest", 9)} < given_up THEN %(max_attempts)s ELSE 0 END AS attempts
                FROM numbered JOIN targets USING (target) JOIN types USING (k)
            ), timed AS MATERIALIZED (
                SELECT *, (%(waits)s::bigint[])[GREATEST(1, attempts)] + GREATEST(0, attempts - 1) * duration AS wait
                FROM decided
            ), new_events AS ({events} FROM timed WHERE place = 0),
            new_deliveries AS ({deliveries} FROM timed)
            {attempts} FROM (
                SELECT digest, digits, url, duration, number,
                    ms + (%(waits)s::bigint[])[number] + (number - 1) * duration AS begins,
                    CASE WHEN number = attempts AND state = 'succeeded' THEN 'succeeded' ELSE failure END AS result
                FROM timed CROSS JOIN LATERAL generate_series(1, attempts) AS number
                WHERE ms >= %(kept_since)s
            ) AS made JOIN answers USING (result)"""
        return sql, defaults

    def _insert(self, model: type[models.Model], defaults: dict[str, Any], **columns: str) -> str:
        """Return an INSERT … SELECT of these columns; the others get the default of their field."""
        chosen: dict[str, str] = {}
        for each in model._meta.concrete_fields:
            name = str(each.column)
            if name in columns:
                chosen[name] = columns[name]
                continue
            key = f"{model._meta.model_name}_{name}"
            defaults[key] = each.get_db_prep_save(each.get_default(), self._connection)
            chosen[name] = f"%({key})s::{each.db_type(self._connection)}"
        quote = self._connection.ops.quote_name
        names = ", ".join(map(quote, chosen))
        return f"INSERT INTO {quote(model._meta.db_table)} ({names}) SELECT {', '.join(chosen.values())}"


def _turns(era: Era) -> dict[str, Any]:
    targets = {turn.target.webhook.pk: _target(turn.target) for turn in era.turns}
    turns = [
        {
            "turn": number,
            "target": _digits(each.target),
            "owner_id": str(each.owner_id),
            "k": each.type_index,
            "place": each.place,
        }
        for number, each in enumerate(era.turns)
    ]
    return {"targets": json.dumps(list(targets.values())), "turns": json.dumps(turns), "turn_count": len(turns)}


def _digits(target: Target) -> str:
    return str(target.webhook.pk)[-32:]


def _target(target: Target) -> dict[str, Any]:
    at_once, later, given_up = target.bounds
    return {
        "target": _digits(target),
        "url": target.webhook.url,
        "at_once": at_once,
        "later": later,
        "given_up": given_up,
        "failure": target.profile.failure,
        "ms": target.profile.milliseconds,
    }
