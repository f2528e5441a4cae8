-- A page of the webhooks with pending deliveries, in the order of their ids. `portable.py` fills in the names after a
-- dollar sign, and passes the parameters:
--   after   the id after which the page begins
--   lanes   the most webhooks of a page
--   now     the worker's time
-- Only the first index entries of each webhook are read. Deliveries in flight come first in the index, and their number
-- is limited for each webhook.
WITH RECURSIVE
-- The ids, one by one, because no database turns SELECT DISTINCT into such a loose index scan.
found (webhook_id, number) AS (
    SELECT (SELECT webhook_id FROM $entries WHERE webhook_id > %(after)s ORDER BY webhook_id LIMIT 1), 1
    UNION ALL
    SELECT (SELECT webhook_id FROM $entries WHERE webhook_id > found.webhook_id ORDER BY webhook_id LIMIT 1), number + 1
    FROM found
    WHERE found.webhook_id IS NOT NULL AND number < %(lanes)s
)
-- Of a webhook that is not active, only the kinds are read that can be sent, one by one, because MariaDB would read the
-- others too.
SELECT $webhook_id, webhook.owner_id, lane.webhook_id IS NOT NULL, lane.is_fast,
    webhook.paused_at IS NULL AND $is_active,
    webhook.deleted_at IS NOT NULL OR webhook.status IN ($stopping),
    CASE WHEN webhook.paused_at IS NULL AND $is_active THEN ($first) END, $first_probes
FROM found
JOIN $webhooks AS webhook ON webhook.id = found.webhook_id
LEFT JOIN $lanes AS lane ON lane.webhook_id = found.webhook_id
WHERE found.webhook_id IS NOT NULL
