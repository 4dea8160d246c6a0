package postgres

import "strings"

// runSQL are the statements that decide a batch. Each locks what is there in the order of the
// keys, reads the clock once, decides, and writes what has changed. As the swap statement does, it
// creates what is not there in the order of the keys, so that no deadlock is possible, and
// looks for keys one by one.
//
// The clock is read when all locks are held, so that no state is later than the decision unless a
// clock was set back.
//
// It returns of each key its place, what was there, the time, and what Step returned first, the
// count. raced is true if the key was to be created and another has created it meanwhile. Nothing
// is written for such a key then.
//
// 100 years are 3155760000000000 microseconds. A record that lasts longer is kept for ever.
const runSQL = `
WITH _sluice_lock_timeout AS MATERIALIZED (
	SELECT CASE WHEN $1::int > 0 THEN set_config('lock_timeout', CASE
		WHEN current_setting('lock_timeout')::interval BETWEEN interval '1 microsecond' AND $1 * interval '1 millisecond'
		THEN current_setting('lock_timeout') ELSE $1::text END, true) END AS is_set
), _sluice_args AS MATERIALIZED (
	SELECT is_set, $2::bigint AS batch, $3::bigint AS now, $4::bigint AS margin, $5::bytea[] AS keys, ARGS FROM _sluice_lock_timeout
), _sluice_want AS (
	SELECT w.* FROM _sluice_args CROSS JOIN LATERAL WANT
), _sluice_locked AS MATERIALIZED (
	SELECT _sluice_want.*, there.key IS NULL AS absent, there.version, there.state, there.expires_at
	FROM _sluice_want LEFT JOIN LATERAL (SELECT * FROM TABLE AS t WHERE t.key = _sluice_want.key FOR UPDATE OFFSET 0) AS there ON true
), _sluice_time AS MATERIALIZED (
	SELECT clock, coalesce(now, round(extract(epoch FROM clock) * 1000000)::bigint * 1000) AS at, batch, margin
	FROM _sluice_args CROSS JOIN (SELECT clock_timestamp() AS clock, count(*) AS locked FROM _sluice_locked) AS c WHERE locked >= 0
), _sluice_found AS MATERIALIZED (
	SELECT _sluice_locked.*, _sluice_time.*, CASE WHEN expires_at > clock THEN version END AS found, CASE WHEN expires_at > clock THEN state ELSE '' END AS was
	FROM _sluice_locked CROSS JOIN _sluice_time
), _sluice_decided AS MATERIALIZED (
	DECIDED
), _sluice_write AS MATERIALIZED (
	SELECT place, key, absent, batch, next, CASE WHEN next = '' THEN '-infinity' WHEN ttl = 0 OR lasts >= 3155760000000000 THEN 'infinity'
		ELSE greatest(clock, timestamptz 'epoch' + (at / 1000 + 1) * interval '1 microsecond') + lasts * interval '1 microsecond' END AS expires_at
	FROM (
		SELECT *, ttl / 1000 + 1 + margin AS lasts FROM (
			SELECT *, ('x' || encode(substring(reply FROM 9 FOR 8), 'hex'))::bit(64)::bigint AS ttl, substring(reply FROM 17) AS next
			FROM _sluice_decided WHERE count > 0
		) AS d
	) AS d WHERE next <> '' AND (moved OR next <> was) OR next = '' AND found IS NOT NULL
), _sluice_created AS (
	INSERT INTO TABLE (key, version, state, expires_at, purge_at)
	SELECT key, batch, next, expires_at, expires_at FROM _sluice_write WHERE absent ORDER BY place
	ON CONFLICT (key) DO NOTHING RETURNING key
), _sluice_replaced AS (
	INSERT INTO TABLE AS t (key, version, state, expires_at, purge_at)
	SELECT key, batch, next, expires_at, expires_at FROM _sluice_write WHERE NOT absent
	ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, expires_at = excluded.expires_at,
		purge_at = least(t.purge_at, excluded.purge_at)
), _sluice_raced AS (
	SELECT place FROM _sluice_write WHERE absent AND key NOT IN (SELECT key FROM _sluice_created)
)
RETURNED`

// singlesSQL is the statement for keys that have a request of one use each, or none. Each
// succeeds or fails alone.
var singlesSQL = strings.NewReplacer(
	"ARGS", `$6::int[] AS ops, $7::int[] AS programs, $8::int[] AS begins, $9::int[] AS ends, $10::bigint[] AS costs, $11::bigint[] AS times, $12::bigint[] AS args`,
	"WANT", `(
		SELECT key, place, op, program, args[first:last] AS args, cost, times
		FROM unnest(keys, ops, programs, begins, ends, costs, _sluice_args.times) WITH ORDINALITY AS u (key, op, program, first, last, cost, times, place)
	) AS w`,
	"DECIDED", `SELECT *, ('x' || encode(substring(reply FOR 8), 'hex'))::bit(64)::bigint AS count, false AS moved FROM (
		SELECT *, CASE WHEN found = batch OR op = 3 THEN int8send(0) WHEN op = 4 THEN int8send(1)
			ELSE STEP(program, op, was, at, cost, times, args) END AS reply FROM _sluice_found OFFSET 0
	) AS d`,
	"RETURNED", `SELECT place, found, was, at, count, place IN (SELECT place FROM _sluice_raced) AS raced, NULL::bigint[] AS counts FROM _sluice_decided`,
).Replace(runSQL)

// severalSQL is the statement for all other batches. If another creates a key meanwhile, others
// may be written already, so that is made an error, which undoes the statement.
var severalSQL = strings.NewReplacer(
	"ARGS", `$6::int[] AS requests, $7::int[] AS places, $8::int[] AS ops, $9::int[] AS shadows, $10::int[] AS programs,
		$11::int[] AS begins, $12::int[] AS ends, $13::bigint[] AS costs, $14::bigint[] AS times, $15::bigint[] AS args`,
	"WANT", `unnest(keys) WITH ORDINALITY AS w (key, place)`,
	"DECIDED", `SELECT place, key, absent, found, was, clock, at, batch, margin, reply, 1 AS count, true AS moved, CASE place WHEN 1 THEN counts END AS counts
	FROM (
		SELECT array_agg(place ORDER BY place) AS all_places, array_agg(key ORDER BY place) AS all_keys, array_agg(absent ORDER BY place) AS all_absent,
			array_agg(found ORDER BY place) AS all_found, array_agg(was ORDER BY place) AS all_was, array_agg(coalesce(found, 0) ORDER BY place) AS versions
		FROM _sluice_found
	) AS f CROSS JOIN _sluice_time CROSS JOIN (SELECT requests, places, ops, shadows, programs, begins, ends, costs, times, args FROM _sluice_args) AS a
	CROSS JOIN LATERAL RUN(all_was, versions, batch, at, requests, places, ops, shadows, programs, begins, ends, costs, times, args)
	CROSS JOIN LATERAL unnest(all_places, all_keys, all_absent, all_found, all_was, replies) AS u (place, key, absent, found, was, reply)`,
	"RETURNED", `SELECT place, found, was, at, NULL::bigint AS count, CASE WHEN place IN (SELECT place FROM _sluice_raced) THEN UNDO ELSE false END AS raced, counts FROM _sluice_decided`,
).Replace(runSQL)
