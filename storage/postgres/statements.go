package postgres

import (
	"strings"

	"github.com/sluice-go/sluice/internal/program"
)

// statements are those of one table.
type statements struct {
	load, loadNow, swap, purge string
	one, singles, several      string // of Run
}

func newStatements(o Options, f *program.Functions) statements {
	names := []string{"TABLE", o.name(), "UNDO", undoSQL}
	if f != nil {
		names = append(names, "STEP", o.qualified(f.Step), "RUN", o.qualified(f.Run), "ONE", o.qualified(o.oneFunction(f)))
	}
	in := strings.NewReplacer(names...)
	return statements{
		load: in.Replace(loadSQL), loadNow: in.Replace(loadNowSQL), swap: in.Replace(swapSQL), purge: in.Replace(purgeSQL),
		one: in.Replace(oneSQL), singles: in.Replace(singlesSQL), several: in.Replace(severalSQL),
	}
}

// loadSQL returns what is there, and the place of its key.
const loadSQL = `SELECT place, version, state FROM unnest($1::bytea[]) WITH ORDINALITY AS k (key, place)
	CROSS JOIN LATERAL (SELECT version, state FROM TABLE AS t WHERE t.key = k.key AND expires_at > clock_timestamp() OFFSET 0) AS found`

// loadNowSQL returns the same, and the time, and first a row for the time alone, with the place 0.
const loadNowSQL = `WITH _sluice_time AS MATERIALIZED (SELECT clock_timestamp() AS clock)
SELECT 0, 0, ''::bytea, clock FROM _sluice_time
UNION ALL
SELECT place, version, state, clock FROM _sluice_time CROSS JOIN unnest($1::bytea[]) WITH ORDINALITY AS k (key, place)
	CROSS JOIN LATERAL (SELECT version, state FROM TABLE AS t WHERE t.key = k.key AND expires_at > clock OFFSET 0) AS found`

// swapSQL locks what is there in the order of the keys, and compares. If all keys match, it
// creates what is not there, in the order of the keys, and replaces the rest. Otherwise it
// returns all keys, by their places, and what is there.
//
// A key that was not there when the statement began may have been created meanwhile: then
// the insertion does nothing, and the swap is raced. If it is the only key, nothing was
// written, and the statement returns that it was raced. Of several keys the rest may be
// written already; so that is made an error, which undoes the statement.
//
// So nobody who creates waits for a lock on what is there, but only for those
// who create a greater key, and no ring of such waits is possible.
//
// Keys are looked up one by one, so that a plan made while the table is small, and
// kept, does not read all of it when it is not. The arrays are those of a row of
// their own, so that their lengths, which the planner could see, do not make it
// plan again each time.
//
// The wait for a lock has a limit, for this statement: else a context that ends
// meanwhile would leave it in doubt whether the statement was applied. The session's own
// stays if it is shorter, and not 0, which is none.
//
// A number of microseconds is multiplied as a double, which is exact up to 2^53.
//
// purge_at, which alone is indexed besides the key, is never later than the expiry. Usually
// each write expires later than the one before: then purge_at stays as it is, and so the
// update is HOT, which means that no index is written.
//
// The names of its parts hide tables that are called the same.
const swapSQL = `
WITH _sluice_lock_timeout AS MATERIALIZED (
	SELECT CASE WHEN $7::int > 0 THEN set_config('lock_timeout', CASE
		WHEN current_setting('lock_timeout')::interval BETWEEN interval '1 microsecond' AND $7 * interval '1 millisecond'
		THEN current_setting('lock_timeout') ELSE $7::text END, true) END AS is_set
), _sluice_want AS (
	SELECT w.* FROM _sluice_lock_timeout CROSS JOIN LATERAL (
		SELECT is_set, $1::bytea[] AS keys, $2::bigint[] AS olds, $3::bigint[] AS news, $4::bytea[] AS states, $5::bigint[] AS ttls, $6::bigint[] AS untils OFFSET 0
	) AS a CROSS JOIN LATERAL unnest(keys, olds, news, states, ttls, untils) WITH ORDINALITY AS w (key, old, new, state, ttl, until, place)
), _sluice_found AS MATERIALIZED (
	SELECT _sluice_want.*, there.key IS NULL AS absent, there.state AS was,
		CASE WHEN there.expires_at > clock_timestamp() THEN there.version END AS version
	FROM _sluice_want LEFT JOIN LATERAL (SELECT * FROM TABLE AS t WHERE t.key = _sluice_want.key FOR UPDATE OFFSET 0) AS there ON true
), _sluice_lost AS MATERIALIZED (
	SELECT bool_or(old <> coalesce(version, 0)) AS lost FROM _sluice_found
), _sluice_write AS (
	SELECT place, key, new, state, absent, CASE
		WHEN ttl > 0 THEN greatest(clock_timestamp() + ttl * interval '1 microsecond', timestamptz 'epoch' + until * interval '1 microsecond')
		WHEN ttl = 0 THEN 'infinity' ELSE '-infinity' END AS expires_at
	FROM _sluice_found WHERE NOT (SELECT lost FROM _sluice_lost)
), _sluice_created AS (
	INSERT INTO TABLE (key, version, state, expires_at, purge_at)
	SELECT key, new, state, expires_at, expires_at FROM _sluice_write WHERE absent ORDER BY place
	ON CONFLICT (key) DO NOTHING RETURNING key
), _sluice_replaced AS (
	INSERT INTO TABLE AS t (key, version, state, expires_at, purge_at)
	SELECT key, new, state, expires_at, expires_at FROM _sluice_write WHERE NOT absent
	ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, expires_at = excluded.expires_at,
		purge_at = least(t.purge_at, excluded.purge_at)
)
SELECT place, false AS raced, version, CASE WHEN version IS NOT NULL THEN was END
FROM _sluice_found WHERE (SELECT lost FROM _sluice_lost)
UNION ALL
SELECT place, CASE WHEN $8::int = 1 THEN true ELSE UNDO END, NULL, NULL
FROM _sluice_write WHERE absent AND key NOT IN (SELECT key FROM _sluice_created)`

// undoSQL is an expression that fails, and so undoes the statement. Its error quotes undone, in any language of
// the server. So it is not mistaken for an error of a user's program.
const (
	undone  = "sluice: created meanwhile:"
	undoSQL = `('` + undone + ` ' || place)::int = 0`
)
