-- What other workers see of this one, for many webhooks. `postgresql.py` fills in the names after a dollar sign, and
-- passes the parameters:
--   claims   for each webhook: its id, the number of this worker's claims, and its pace, or null if that is unchanged
--   worker   the number of this worker
--   until    the end of the number's validity, in seconds
UPDATE $lanes AS saved
SET in_flight = CASE
        WHEN jsonb_typeof(saved.in_flight) <> 'object' THEN '{}'
        WHEN claims.number = 0 THEN saved.in_flight - %(worker)s
        ELSE saved.in_flight || jsonb_build_object(%(worker)s, jsonb_build_array(claims.number, %(until)s))
    END,
    is_fast = COALESCE(claims.is_fast, saved.is_fast)
FROM (
    -- In the order of locks.
    SELECT lane.webhook_id, (claims.value ->> 1)::integer AS number, (claims.value ->> 2)::boolean AS is_fast
    FROM jsonb_array_elements(%(claims)s::jsonb) AS claims (value)
    JOIN $lanes AS lane ON lane.webhook_id = (claims.value ->> 0)::uuid
    ORDER BY lane.webhook_id
    FOR NO KEY UPDATE OF lane
) AS claims
WHERE saved.webhook_id = claims.webhook_id
