-- The claim of due deliveries in one statement, without a transaction. `postgresql.py` fills in the names after a dollar
-- sign, and passes the parameters:
--   asks           for each webhook: its id, this worker's requests in flight, the most for all workers, the most to
--                  claim, whether it has no result yet, and whether only lost claims are wanted
--   worker         the number of this worker
--   now            the worker's time; `epoch` is the same in seconds
--   leased_until   the end of the new leases; `lease_epoch` is the same in seconds
--   lost_again_at  the end of the leases of lost claims, or NULL to leave lost claims alone
WITH
-- The lanes of the webhooks, except those that another worker holds. PostgreSQL rereads a locked row, so that the claims
-- of other workers are current even if the snapshot of the statement is older.
locked AS (
    SELECT lane.webhook_id, lane.in_flight, lane.next_slot_at,
        (ask.value ->> 1)::integer AS own, (ask.value ->> 2)::integer AS cap,
        (ask.value ->> 3)::integer AS room, (ask.value ->> 4)::boolean AS is_unknown,
        (ask.value ->> 5)::boolean AS lost_only
    FROM jsonb_array_elements(%(asks)s::jsonb) AS ask (value)
    JOIN $lanes AS lane ON lane.webhook_id = (ask.value ->> 0)::uuid
    FOR NO KEY UPDATE OF lane SKIP LOCKED
),
-- The webhooks of these lanes with their keys, and what their limits leave: `free` of the requests in flight, and
-- `allowance` of the rate, whose next slot is at `first`.
lane AS (
    SELECT locked.own, locked.room, locked.lost_only, locked.next_slot_at, others.held, $webhook_fields,
        pace.rate_limit,
        (
            SELECT jsonb_agg(jsonb_build_array(scheme, encrypted_key, valid_until, signs_from) ORDER BY key.id DESC)
            FROM $keys AS key WHERE key.webhook_id = webhook.id
        ) AS keys,
        CASE WHEN locked.is_unknown THEN 1 ELSE COALESCE(webhook.max_in_flight, locked.cap) END
            - locked.own - others.number AS free,
        CASE WHEN pace.rate_limit IS NULL THEN NULL
            WHEN slot.waited < 0 THEN 0
            ELSE floor(slot.waited * pace.rate_limit)::integer + 1
        END AS allowance,
        slot.first
    FROM locked
    JOIN $webhooks AS webhook ON webhook.id = locked.webhook_id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN webhook.rate_limit IS NOT NULL
            THEN GREATEST($min_rate, LEAST(webhook.rate_limit, $max_rate)) END AS rate_limit
    ) AS pace
    CROSS JOIN LATERAL (
        SELECT COALESCE(jsonb_object_agg(key, value), '{}') AS held,
            COALESCE(sum((value ->> 0)::integer), 0)::integer AS number
        FROM jsonb_each(locked.in_flight)
        WHERE key <> %(worker)s AND (value ->> 1)::float8 > %(epoch)s
    ) AS others
    CROSS JOIN LATERAL (
        SELECT first, extract(epoch FROM %(now)s - first)::float8 AS waited
        FROM (VALUES (GREATEST(%(now)s - interval '$burst s', locked.next_slot_at))) AS slot (first)
    ) AS slot
),
-- The first due entries of each webhook without an order, by the clock of the worker or of the database, in case the
-- worker's clock lags. Each of the two searches reads an index of its own: one the probes, which are all that is sent to
-- an unverified URL and come before the deliveries to the URL that a pending one replaces, the other all entries. Both
-- count towards the room, so that none may be found twice.
due AS MATERIALIZED (
    SELECT due.row, due.is_lost
    FROM (
        SELECT lane.id,
            CASE WHEN lane.lost_only THEN lane.room
                ELSE LEAST(lane.room, lane.free, lane.allowance) END AS room,
            CASE WHEN lane.lost_only OR lane.deleted_at IS NOT NULL THEN '{}'::text[]
                WHEN lane.paused_at IS NOT NULL THEN '$of_new_url'::text[]
                ELSE array_remove((CASE lane.status $kinds_by_status END)::text[],
                    CASE WHEN lane.allowance < 2 THEN 'retry_notice' END) END AS kinds,
            lane.lost_only OR lane.deleted_at IS NULL AND lane.status = '$active' AND lane.paused_at IS NULL
                AS has_all_kinds,
            NOT lane.lost_only AND $is_changing_url AS is_changing_url
        FROM lane
        WHERE (lane.paused_at IS NULL OR lane.lost_only OR $is_changing_url) AND lane."order" = '$unordered'
    ) AS lane
    CROSS JOIN LATERAL (
        (
            SELECT ctid AS row, claimed_at IS NOT NULL AS is_lost FROM $entries
            WHERE (lane.is_changing_url OR NOT lane.has_all_kinds) AND $is_probe AND $is_due
            ORDER BY due_at
            LIMIT GREATEST(0, lane.room)
        )
        UNION ALL
        (
            SELECT ctid AS row, claimed_at IS NOT NULL AS is_lost FROM $entries
            WHERE lane.has_all_kinds AND NOT (lane.is_changing_url AND $is_probe) AND $is_due
            ORDER BY due_at
            LIMIT GREATEST(0, lane.room)
        )
        LIMIT GREATEST(0, lane.room)
    ) AS due
),
-- The lost claims, except those with a late result that is being recorded.
uncontested AS MATERIALIZED (
    SELECT ctid AS row FROM $entries
    WHERE ctid = ANY (ARRAY(SELECT row FROM due WHERE is_lost)) AND $is_lost
    FOR NO KEY UPDATE SKIP LOCKED
),
-- The claims. Entries that were changed since the snapshot are skipped.
claimed AS (
    UPDATE $entries
    SET attempt = CASE WHEN claimed_at IS NULL THEN $next_attempt ELSE attempt END,
        leased_until = CASE WHEN claimed_at IS NULL THEN %(leased_until)s ELSE %(lost_again_at)s END,
        claimed_at = COALESCE(claimed_at, %(now)s),
        worker = %(worker)s::bigint
    WHERE ctid = ANY (ARRAY(
            SELECT row FROM due WHERE NOT is_lost UNION ALL SELECT row FROM uncontested
        )) AND (claimed_at IS NULL OR $is_lost)
    RETURNING delivery_id, webhook_id, event_id, kind, attempt, max_attempts, retry_policy,
        CASE WHEN claimed_at <> %(now)s THEN $claimed_at END AS lost_since,
        $expires_at AS expires_at,
        place IS NOT NULL AS is_ordered
),
-- The lanes of webhooks with new claims: the requests in flight of this worker, and the next slot of the rate.
counted AS (
    UPDATE $lanes AS saved
    SET in_flight = lane.held
            || jsonb_build_object(%(worker)s, jsonb_build_array(lane.own + claims.number, %(lease_epoch)s)),
        next_slot_at = CASE WHEN lane.rate_limit IS NULL THEN lane.next_slot_at
            ELSE lane.first + make_interval(secs => claims.number / lane.rate_limit) END
    FROM lane, (
        SELECT webhook_id, count(*)::integer AS number FROM claimed WHERE lost_since IS NULL GROUP BY 1
    ) AS claims
    WHERE saved.webhook_id = lane.id AND claims.webhook_id = lane.id
    RETURNING saved.webhook_id, saved.next_slot_at
)
-- One result with rows of three kinds: the claims, their events, and all locked lanes.
SELECT 'claim', $public_delivery_id, $public_webhook_id, $public_event_id, kind, attempt, max_attempts, lost_since,
    expires_at, retry_policy, is_ordered
FROM claimed
UNION ALL
SELECT 'event', $public_id, NULL, traceparent, type, NULL, NULL, NULL, NULL, body, NULL
FROM $events WHERE id = ANY (ARRAY(SELECT DISTINCT event_id FROM claimed))
UNION ALL
SELECT 'lane', NULL, NULL, NULL, NULL, NULL, NULL, COALESCE(counted.next_slot_at, lane.next_slot_at), NULL,
    (to_jsonb(lane) - '{held}'::text[])::text, NULL
FROM lane LEFT JOIN counted ON counted.webhook_id = lane.id
