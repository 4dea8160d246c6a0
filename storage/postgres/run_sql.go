package postgres

import "strings"

// runSQL is the common text of the statements that decide a batch. A statement locks the existing
// rows in the order of their keys, reads the clock once, decides, and writes the changed rows. Like
// swapSQL, it creates rows in the order of their keys, so that no deadlock is possible, and looks
// keys up one by one.
//
// It reads the clock after it has all locks. So no state is later than the decision, unless a clock
// was set back.
//
// It returns for each key its place, the old record, the time, and the first result of Step, the
// count. created_meanwhile is true if another transaction created the key before this statement
// could. Then the statement writes nothing for the key.
//
// 100 years are 3155760000000000 microseconds. A record with a longer TTL never expires.
const runSQL = `
WITH _sluice_lock_timeout AS MATERIALIZED (
	SELECT CASE WHEN $1::int > 0 THEN set_config('lock_timeout', CASE
		WHEN current_setting('lock_timeout')::interval BETWEEN interval '1 microsecond' AND $1 * interval '1 millisecond'
		THEN current_setting('lock_timeout') ELSE $1::text END, true) END AS is_set
), _sluice_args AS MATERIALIZED (
	SELECT is_set, $2::bigint AS batch, $3::bigint AS now, $4::bigint AS margin, $5::bytea[] AS keys, ARGS FROM _sluice_lock_timeout
), _sluice_keys AS (
	SELECT w.* FROM _sluice_args CROSS JOIN LATERAL KEYS
), _sluice_locked AS MATERIALIZED (
	SELECT _sluice_keys.*, stored.key IS NULL AS absent, stored.version, stored.state, stored.expires_at
	FROM _sluice_keys LEFT JOIN LATERAL (SELECT * FROM TABLE AS t WHERE t.key = _sluice_keys.key FOR UPDATE OFFSET 0) AS stored ON true
), _sluice_time AS MATERIALIZED (
	SELECT clock, coalesce(now, round(extract(epoch FROM clock) * 1000000)::bigint * 1000) AS at, batch, margin
	FROM _sluice_args CROSS JOIN (SELECT clock_timestamp() AS clock, count(*) AS locked FROM _sluice_locked) AS c WHERE locked >= 0
), _sluice_found AS MATERIALIZED (
	SELECT _sluice_locked.*, _sluice_time.*, CASE WHEN expires_at > clock THEN version END AS old_version, CASE WHEN expires_at > clock THEN state ELSE '' END AS old_state
	FROM _sluice_locked CROSS JOIN _sluice_time
), _sluice_decided AS MATERIALIZED (
	DECIDED
), _sluice_write AS MATERIALIZED (
	SELECT place, key, absent, batch, next, CASE WHEN next = '' THEN '-infinity' WHEN ttl = 0 OR ttl_us >= 3155760000000000 THEN 'infinity'
		ELSE greatest(clock, timestamptz 'epoch' + (at / 1000 + 1) * interval '1 microsecond') + ttl_us * interval '1 microsecond' END AS expires_at
	FROM (
		SELECT *, ttl / 1000 + 1 + margin AS ttl_us FROM (
			SELECT *, ('x' || encode(substring(reply FROM 9 FOR 8), 'hex'))::bit(64)::bigint AS ttl, substring(reply FROM 17) AS next
			FROM _sluice_decided WHERE count > 0
		) AS d
	) AS d WHERE next <> '' AND (always_write OR next <> old_state) OR next = '' AND old_version IS NOT NULL
), _sluice_created AS (
	INSERT INTO TABLE (key, version, state, expires_at, purge_at)
	SELECT key, batch, next, expires_at, expires_at FROM _sluice_write WHERE absent ORDER BY place
	ON CONFLICT (key) DO NOTHING RETURNING key
), _sluice_replaced AS (
	INSERT INTO TABLE AS t (key, version, state, expires_at, purge_at)
	SELECT key, batch, next, expires_at, expires_at FROM _sluice_write WHERE NOT absent
	ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, expires_at = excluded.expires_at,
		purge_at = least(t.purge_at, excluded.purge_at)
), _sluice_not_created AS (
	SELECT place FROM _sluice_write WHERE absent AND key NOT IN (SELECT key FROM _sluice_created)
)
RETURNED`

// singlesSQL is the statement for batches in which each request has one use and no key has two
// requests. Each key succeeds or fails separately.
var singlesSQL = strings.NewReplacer(
	"ARGS", `$6::int[] AS ops, $7::int[] AS programs, $8::int[] AS begins, $9::int[] AS ends, $10::bigint[] AS costs, $11::bigint[] AS times, $12::bigint[] AS args`,
	"KEYS", `(
		SELECT key, place, op, program, args[first:last] AS args, cost, times
		FROM unnest(keys, ops, programs, begins, ends, costs, _sluice_args.times) WITH ORDINALITY AS u (key, op, program, first, last, cost, times, place)
	) AS w`,
	"DECIDED", `SELECT *, ('x' || encode(substring(reply FOR 8), 'hex'))::bit(64)::bigint AS count, false AS always_write FROM (
		SELECT *, CASE WHEN old_version = batch OR op = 3 THEN int8send(0) WHEN op = 4 THEN int8send(1)
			ELSE STEP(program, op, old_state, at, cost, times, args) END AS reply FROM _sluice_found OFFSET 0
	) AS d`,
	"RETURNED", `SELECT place, old_version, old_state, at, count, place IN (SELECT place FROM _sluice_not_created) AS created_meanwhile, NULL::bigint[] AS counts FROM _sluice_decided`,
).Replace(runSQL)

// severalSQL is the statement for all other batches. If another transaction creates one of the keys
// meanwhile, other keys may be written already. So the statement fails, which undoes it.
var severalSQL = strings.NewReplacer(
	"ARGS", `$6::int[] AS requests, $7::int[] AS places, $8::int[] AS ops, $9::int[] AS shadows, $10::int[] AS programs,
		$11::int[] AS begins, $12::int[] AS ends, $13::bigint[] AS costs, $14::bigint[] AS times, $15::bigint[] AS args`,
	"KEYS", `unnest(keys) WITH ORDINALITY AS w (key, place)`,
	"DECIDED", `SELECT place, key, absent, old_version, old_state, clock, at, batch, margin, reply, 1 AS count, true AS always_write, CASE place WHEN 1 THEN counts END AS counts
	FROM (
		SELECT array_agg(place ORDER BY place) AS all_places, array_agg(key ORDER BY place) AS all_keys, array_agg(absent ORDER BY place) AS all_absent,
			array_agg(old_version ORDER BY place) AS all_old_versions, array_agg(old_state ORDER BY place) AS all_old_states, array_agg(coalesce(old_version, 0) ORDER BY place) AS versions
		FROM _sluice_found
	) AS f CROSS JOIN _sluice_time CROSS JOIN (SELECT requests, places, ops, shadows, programs, begins, ends, costs, times, args FROM _sluice_args) AS a
	CROSS JOIN LATERAL RUN(all_old_states, versions, batch, at, requests, places, ops, shadows, programs, begins, ends, costs, times, args)
	CROSS JOIN LATERAL unnest(all_places, all_keys, all_absent, all_old_versions, all_old_states, replies) AS u (place, key, absent, old_version, old_state, reply)`,
	"RETURNED", `SELECT place, old_version, old_state, at, NULL::bigint AS count, CASE WHEN place IN (SELECT place FROM _sluice_not_created) THEN UNDO ELSE false END AS created_meanwhile, counts FROM _sluice_decided`,
).Replace(runSQL)
