-- The results of attempts in one statement. `postgresql.py` fills in the names after a dollar sign, and passes the columns
-- of `step` as arrays, and the time `now`. It returns the attempts with a valid claim.
WITH step AS (
    SELECT *
    FROM unnest(
        %(ids)s::uuid[], %(numbers)s::smallint[], %(workers)s::bigint[], %(states)s::text[],
        %(results)s::text[], %(masked)s::boolean[], %(next_attempts)s::timestamptz[]
    ) AS step (id, number, worker, state, result, is_masked, next_attempt_at)
),
-- The worker and the number identify a claim.
ended AS (
    DELETE FROM $entries AS entry USING step
    WHERE entry.delivery_id = step.id AND entry.attempt = step.number AND entry.worker = step.worker
        AND entry.claimed_at IS NOT NULL AND step.next_attempt_at IS NULL
    RETURNING step.*
),
retried AS (
    UPDATE $entries AS entry
    SET claimed_at = NULL, leased_until = NULL, worker = NULL, due_at = step.next_attempt_at
    FROM step
    WHERE entry.delivery_id = step.id AND entry.attempt = step.number AND entry.worker = step.worker
        AND entry.claimed_at IS NOT NULL AND step.next_attempt_at IS NOT NULL
    RETURNING step.*
)
UPDATE $deliveries AS delivery
SET state = valid.state, last_result = valid.result, attempt_count = valid.number, is_masked = valid.is_masked,
    finished_at = CASE WHEN valid.next_attempt_at IS NULL THEN %(now)s::timestamptz END
FROM (SELECT * FROM ended UNION ALL SELECT * FROM retried) AS valid
WHERE delivery.id = valid.id AND delivery.$is_pending
RETURNING $public_delivery_id, valid.number
