"""The ledger's statements, each a transaction of its own. `$1` is the worker wherever one asks."""

from crawld.model.units import LIMITS as UNITS_LIMITS
from crawld.store.statements import BROUGHT

NOW = "(SELECT extract(epoch FROM clock_timestamp())::float8)"
BANDWIDTH = f"""(SELECT CASE WHEN EXISTS (SELECT FROM settings WHERE name = 'paused' AND value = 'yes') THEN 0
    ELSE coalesce(
        (SELECT least(value::float8, {UNITS_LIMITS.max_rate}) FROM settings WHERE name = 'bandwidth'), fleet.bandwidth
    ) END
    FROM fleet)"""

PRESENT = "SELECT to_regclass('fleet') IS NOT NULL AS present, to_regclass('fleet_settings') IS NOT NULL AS settings"
TIME = f"SELECT {NOW} AS now"

SETTINGS = 'SELECT revision, at, "by", document FROM fleet_settings ORDER BY revision DESC LIMIT 1'

APPLY_SETTINGS = f"""
WITH old AS (
    DELETE FROM fleet_settings WHERE revision < $1::bigint - 100
)
INSERT INTO fleet_settings (revision, at, "by", document) SELECT $1 + 1, {NOW}, $2::text, $3::text
WHERE $1 = coalesce((SELECT max(revision) FROM fleet_settings), 0)
ON CONFLICT (revision) DO NOTHING RETURNING revision, at
"""

NAMESAKE = f"""
SELECT max(seen_at) AS seen_at FROM fleet_workers WHERE name = $1 AND ended_at IS NULL AND expires > {NOW}
HAVING count(*) > 0
"""

JOIN = f"""
WITH t AS MATERIALIZED (SELECT {NOW} AS now), forgotten AS (
    DELETE FROM fleet_workers w USING t WHERE w.ended_at < t.now - 86400
        AND NOT EXISTS (SELECT FROM fleet_shards s WHERE s.worker = w.id)
        AND NOT EXISTS (SELECT FROM fleet_duties d WHERE d.worker = w.id)
)
INSERT INTO fleet_workers (id, name, joined_at, seen_at, expires, steady_since, draining)
SELECT $1::text, $2::text, t.now, t.now, t.now + $3::float8, t.now, EXISTS (
    SELECT FROM fleet_workers w WHERE w.name = $2 AND w.draining AND (w.ended_at IS NULL OR w.lost)
        AND NOT EXISTS (SELECT FROM fleet_workers later WHERE later.name = $2 AND later.joined_at > w.joined_at)
) FROM t
"""  # a worker that lost its lease while it gave its shards away goes on giving

BEAT = f"""
WITH t AS MATERIALIZED (
    SELECT now, floor(now / $3::float8)::bigint AS round, now / $3 - floor(now / $3) AS part
    FROM (SELECT {NOW} AS now) n
), renewed AS (
    UPDATE fleet_workers w SET seen_at = t.now, expires = t.now + $2::float8, bid_round = t.round + 1,
        bid = $4::bigint[], report = $5, status = coalesce($8, w.status),
        steady_since = CASE WHEN t.now > w.expires - $2 / 2 THEN t.now ELSE w.steady_since END
    FROM t
    WHERE w.id = $1 AND w.ended_at IS NULL AND w.expires > extract(epoch FROM clock_timestamp())
    RETURNING w.expires, w.draining
), read AS (
    DELETE FROM fleet_mail WHERE id = ANY($6::bigint[])
), live AS (
    SELECT w.id, w.draining FROM fleet_workers w, t WHERE w.ended_at IS NULL AND w.expires > t.now
), held AS (
    SELECT id, epoch FROM fleet_shards WHERE worker = $1
), mail AS MATERIALIZED (
    SELECT id, shard, kind, body FROM fleet_mail
    WHERE shard IN (SELECT id FROM held) AND id <> ALL($6) ORDER BY id LIMIT $7
), granted AS (
    SELECT g.round, g.rate FROM fleet_grants g, t WHERE g.worker = $1 AND g.round >= t.round
)
SELECT t.now, renewed.expires, renewed.draining, {BANDWIDTH} AS bandwidth,
    coalesce((SELECT max(revision) FROM fleet_settings), 0) AS revision,
    (SELECT count(*) FROM live WHERE NOT draining) AS workers,
    (SELECT count(*) FROM fleet_shards s WHERE NOT EXISTS (SELECT FROM live WHERE live.id = s.worker)) AS free,
    coalesce((SELECT level FROM fleet_rounds ORDER BY number DESC LIMIT 1), 0) AS level,
    (SELECT value FROM fleet_counters WHERE name = 'changes') AS last_change,
    ARRAY(SELECT id FROM held ORDER BY id) AS held_ids,
    ARRAY(SELECT epoch FROM held ORDER BY id) AS held_epochs,
    ARRAY(SELECT round FROM granted ORDER BY round) AS grant_rounds,
    ARRAY(SELECT rate FROM granted ORDER BY round) AS grant_rates,
    ARRAY(SELECT id FROM mail ORDER BY id) AS mail_ids,
    ARRAY(SELECT shard FROM mail ORDER BY id) AS mail_shards,
    ARRAY(SELECT kind FROM mail ORDER BY id) AS mail_kinds,
    ARRAY(SELECT body FROM mail ORDER BY id) AS mail_bodies,
    ARRAY(SELECT name FROM fleet_duties WHERE worker = $1 ORDER BY name) AS duties,
    ARRAY(SELECT epoch FROM fleet_duties WHERE worker = $1 ORDER BY name) AS duty_epochs,
    ARRAY(SELECT name FROM fleet_duties d JOIN live ON live.id = d.worker WHERE d.worker <> $1) AS taken,
    ARRAY(SELECT n FROM generate_series(t.round, CASE WHEN t.part >= 0.5 THEN t.round + 1 ELSE t.round END) AS n
        WHERE NOT EXISTS (SELECT FROM fleet_rounds r WHERE r.number = n) ORDER BY n) AS due
FROM t, renewed
"""  # the condition of the renewal reads the clock by itself: it is asked again after a wait for the row

BIDS = f"""
SELECT id, bid FROM fleet_workers
WHERE ended_at IS NULL AND expires > {NOW} AND bid_round >= $1 AND bid IS NOT NULL
"""

CLEAR = f"""
WITH made AS (
    INSERT INTO fleet_rounds (number, cleared_at, worker, bandwidth, level)
    SELECT $1::bigint, now, $2::text, $3::float8, $4::float8 FROM (SELECT {NOW} AS now) n
    WHERE now < ($1 + 1) * $5::float8
    ON CONFLICT (number) DO NOTHING RETURNING number
), old_rounds AS (
    DELETE FROM fleet_rounds USING made WHERE fleet_rounds.number < $8::bigint
), old_grants AS (
    DELETE FROM fleet_grants USING made WHERE fleet_grants.round < $8
)
INSERT INTO fleet_grants (round, worker, rate)
SELECT made.number, g.worker, g.rate FROM made, unnest($6::text[], $7::float8[]) AS g(worker, rate)
"""

END_LOST = """
WITH over AS MATERIALIZED (
    SELECT id FROM fleet_workers WHERE ended_at IS NULL AND expires <= extract(epoch FROM clock_timestamp())
    FOR UPDATE SKIP LOCKED
)
UPDATE fleet_workers w SET ended_at = w.expires, lost = true FROM over WHERE w.id = over.id
"""

_LIVE = (
    f"SELECT steady_since FROM fleet_workers WHERE id = $1 AND ended_at IS NULL AND NOT draining AND expires > {NOW}"
)
_FREE = "(s.worker IS NULL OR s.worker IN (SELECT id FROM fleet_workers WHERE ended_at IS NOT NULL))"

RECLAIM = f"""
WITH free AS MATERIALIZED (
    SELECT s.id FROM fleet_shards s JOIN unnest($3::integer[], $4::bigint[]) AS f(id, epoch)
        ON f.id = s.id AND f.epoch = s.epoch
    WHERE {_FREE} AND EXISTS ({_LIVE}) LIMIT $2 FOR UPDATE OF s SKIP LOCKED
)
UPDATE fleet_shards s SET worker = $1 FROM free WHERE s.id = free.id RETURNING s.id, s.epoch
"""

CLAIM = f"""
WITH free AS MATERIALIZED (
    SELECT s.id FROM fleet_shards s
    WHERE {_FREE} AND EXISTS ({_LIVE} AND steady_since <= {NOW} - $3::float8) LIMIT $2 FOR UPDATE OF s SKIP LOCKED
), claimed AS (
    UPDATE fleet_shards s SET worker = $1, epoch = s.epoch + 1 FROM free WHERE s.id = free.id RETURNING s.id, s.epoch
), stale AS (
    DELETE FROM fleet_mail m USING claimed WHERE m.shard = claimed.id AND m.kind = ANY($4::text[])
)
SELECT id, epoch FROM claimed
"""

TAKE_DUTY = f"""
INSERT INTO fleet_duties AS d (name, worker, epoch) SELECT $2::text, $1::text, 1 WHERE EXISTS ({_LIVE})
ON CONFLICT (name) DO UPDATE SET worker = excluded.worker, epoch = d.epoch + 1
    WHERE d.worker IS NULL OR d.worker = excluded.worker
        OR d.worker IN (SELECT id FROM fleet_workers WHERE ended_at IS NOT NULL)
RETURNING epoch
"""  # each taking is a term of its own, also by the worker that had the duty before

TEACH = f"""
WITH own AS (
    INSERT INTO fleet_taught (worker, taught) SELECT $1::text, $2::float8[] WHERE EXISTS (
        SELECT FROM fleet_workers WHERE id = $1 AND ended_at IS NULL)
    ON CONFLICT (worker) DO UPDATE SET taught = excluded.taught
), forgotten AS (
    DELETE FROM fleet_taught WHERE worker NOT IN (SELECT id FROM fleet_workers WHERE ended_at IS NULL)
)
SELECT t.taught FROM fleet_taught t JOIN fleet_workers w ON w.id = t.worker
WHERE w.ended_at IS NULL AND w.expires > {NOW} AND w.id <> $1 AND cardinality(t.taught) = cardinality($2)
"""  # of another version's learner nothing can be heard

LEAVE = f"""
WITH ended AS (
    UPDATE fleet_workers SET ended_at = {NOW} WHERE id = $1 AND ended_at IS NULL
), free AS (
    UPDATE fleet_duties SET worker = NULL WHERE worker = $1
)
UPDATE fleet_shards SET worker = NULL WHERE worker = $1
"""

SEND = """
INSERT INTO fleet_mail (shard, kind, body)
SELECT shard, kind, body FROM unnest($1::integer[], $2::text[], $3::text[]) AS m(shard, kind, body)
"""

TURN = f"""
WITH t AS MATERIALIZED (SELECT {NOW} AS now), known AS (
    SELECT greatest(coalesce(h.delay, h.crawl_delay, 0), $4::float8) AS delay, h.blocked,
        greatest(h.asked_until, h.blocked_until) AS until,
        EXISTS (SELECT FROM pages p WHERE p.host_id = h.id AND p.state <> 'retired') AS paged
    FROM hosts h WHERE h.name = $2::text
), asked AS MATERIALIZED (
    SELECT k.paged, k.blocked, k.delay * CASE WHEN k.paged THEN $7::float8 ELSE 1 END + $5::float8 AS step,
        greatest(k.until, t.now + CASE WHEN k.paged THEN $6::float8 + k.delay ELSE 0 END) AS earliest
    FROM t, known k
    UNION ALL SELECT false, false, $4 + $5, t.now FROM t WHERE NOT EXISTS (SELECT FROM known)
), booked AS (
    INSERT INTO fleet_turns AS f (place, next)
    SELECT $1::integer, earliest + step FROM asked, t WHERE NOT blocked AND earliest <= t.now + $8::float8
    ON CONFLICT (place) DO UPDATE SET next = greatest(f.next + (SELECT step FROM asked), excluded.next)
        WHERE f.next <= (SELECT now FROM t) + $8
    RETURNING next
), told AS (
    INSERT INTO fleet_mail (shard, kind, body)
    SELECT $3::integer, 'turn', json_build_object('host', $2, 'at', next - step, 'until', next - step + $5)::text
    FROM booked, asked WHERE paged
)
SELECT blocked, (SELECT next FROM booked) - step AS at,
    greatest(earliest, (SELECT next FROM fleet_turns WHERE place = $1)) AS earliest
FROM asked
"""
"""Books a turn at a host. The worker of its pages, where it has any, asks it too, and is told to leave room."""

VIEW = f"""
SELECT fleet.shards, fleet.bandwidth AS made_with, {NOW} AS now, {BANDWIDTH} AS bandwidth,
    (SELECT value::float8 FROM settings WHERE name = 'bandwidth') AS steered,
    EXISTS (SELECT FROM settings WHERE name = 'paused' AND value = 'yes') AS paused,
    (SELECT count(*) FROM fleet_mail) AS mail,
    coalesce((SELECT max(revision) FROM fleet_settings), 0) AS revision
FROM fleet
"""

WORKERS = f"""
SELECT w.*, (SELECT count(*) FROM fleet_shards s WHERE s.worker = w.id) AS held,
    (SELECT g.rate FROM fleet_grants g WHERE g.worker = w.id AND g.round = floor({NOW} / $1::float8)::bigint) AS rate,
    ARRAY(SELECT d.name FROM fleet_duties d WHERE d.worker = w.id ORDER BY d.name) AS duties
FROM fleet_workers w ORDER BY w.name, w.joined_at
"""

DRAIN = f"""
UPDATE fleet_workers w SET draining = $2::boolean
WHERE (w.id = $1 OR w.name = $1) AND w.ended_at IS NULL AND w.expires > {NOW}
RETURNING (SELECT count(*) FROM fleet_shards s WHERE s.worker = w.id) AS held
"""

HOLDER = f"""
SELECT w.name FROM fleet_shards s JOIN fleet_workers w ON w.id = s.worker
WHERE s.id = $1 AND w.ended_at IS NULL AND w.expires > {NOW}
"""

WRITE_CHANGES = f"""
WITH counted AS (
    UPDATE fleet_counters SET value = value + cardinality($1::bigint[]) WHERE name = 'changes'
    RETURNING value - cardinality($1::bigint[]) AS last, set_config('synchronous_commit', 'on', true)
), told AS (
    INSERT INTO changes (id, page_id, at, verdict, magnitude, moved_to)
    SELECT counted.last + c.place, c.page_id, c.at, c.verdict, c.magnitude, c.moved_to
    FROM counted, unnest($1::bigint[], $2::float8[], $3::text[], $4::float8[], $5::text[])
        WITH ORDINALITY AS c(page_id, at, verdict, magnitude, moved_to, place)
)
INSERT INTO bodies (page_id, at, content_type, size, zstd, version)
SELECT b.page_id, b.at, b.content_type, b.size, b.zstd,
    coalesce(counted.last + 1 + b.change, ({BROUGHT.format("b.page_id")}))
FROM counted, unnest($6::bigint[], $7::float8[], $8::text[], $9::bigint[], $10::bytea[], $11::bigint[])
    AS b(page_id, at, content_type, size, zstd, change)
"""
"""One statement of a worker's commit. Readers rely on a number once seen: the commit waits for the disk, and for all
that was committed before."""

COUNT_PAGES = "SELECT reltuples::bigint AS pages FROM pg_class WHERE oid = 'pages'::regclass"
"""As of the last time that the server looked at the table."""
