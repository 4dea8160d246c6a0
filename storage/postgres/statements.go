package postgres

import (
	"strings"

	"github.com/sluice-go/sluice/internal/program"
)

// statements are the SQL statements for one table.
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

// loadSQL selects the existing records, each with the place of its key.
const loadSQL = `SELECT place, version, state FROM unnest($1::bytea[]) WITH ORDINALITY AS k (key, place)
	CROSS JOIN LATERAL (SELECT version, state FROM TABLE AS t WHERE t.key = k.key AND expires_at > clock_timestamp() OFFSET 0) AS found`

// loadNowSQL also selects the time. Its first row has the place 0 and only the time.
const loadNowSQL = `WITH _sluice_time AS MATERIALIZED (SELECT clock_timestamp() AS clock)
SELECT 0, 0, ''::bytea, clock FROM _sluice_time
UNION ALL
SELECT place, version, state, clock FROM _sluice_time CROSS JOIN unnest($1::bytea[]) WITH ORDINALITY AS k (key, place)
	CROSS JOIN LATERAL (SELECT version, state FROM TABLE AS t WHERE t.key = k.key AND expires_at > clock OFFSET 0) AS found`

// swapSQL locks the existing rows in the order of their keys and compares the versions. If all match,
// it creates the missing rows in the order of their keys, and replaces the others. If there is a
// conflict, it returns all keys and the stored records.
//
// Another transaction may create a key after the statement began. Then the insertion of this key does
// nothing. If it is the only key, nothing was written, and the statement reports it as
// created_meanwhile. If there are several keys, others may be written already, so the statement
// fails, which undoes it.
//
// So a transaction that creates rows does not wait for locks of existing rows. It only waits for
// transactions that create a greater key. A cycle of such waits is impossible, so there are no
// deadlocks.
//
// Keys are looked up one by one, so that a plan that was cached while the table was small does not
// scan a large table. The arrays are columns of a subquery with OFFSET 0. If the planner could see
// their lengths, it would plan each execution again.
//
// The statement has a lock timeout. If the context ended during a wait for a lock, the outcome would
// be unknown. The timeout of the session applies if it is shorter and not 0, which means no timeout.
//
// Microseconds are multiplied as a double, which is exact up to 2^53.
//
// Only the key and purge_at are indexed, and purge_at is never after the expiry. Usually each write
// has a later expiry than the one before. Then purge_at does not change, and the update is HOT: it
// writes no index.
//
// The parts have the prefix _sluice_, because a part hides a table with the same name.
const swapSQL = `
WITH _sluice_lock_timeout AS MATERIALIZED (
	SELECT CASE WHEN $7::int > 0 THEN set_config('lock_timeout', CASE
		WHEN current_setting('lock_timeout')::interval BETWEEN interval '1 microsecond' AND $7 * interval '1 millisecond'
		THEN current_setting('lock_timeout') ELSE $7::text END, true) END AS is_set
), _sluice_swaps AS (
	SELECT w.* FROM _sluice_lock_timeout CROSS JOIN LATERAL (
		SELECT is_set, $1::bytea[] AS keys, $2::bigint[] AS olds, $3::bigint[] AS news, $4::bytea[] AS states, $5::bigint[] AS ttls, $6::bigint[] AS untils OFFSET 0
	) AS a CROSS JOIN LATERAL unnest(keys, olds, news, states, ttls, untils) WITH ORDINALITY AS w (key, old, new, state, ttl, until, place)
), _sluice_found AS MATERIALIZED (
	SELECT _sluice_swaps.*, stored.key IS NULL AS absent, stored.state AS old_state,
		CASE WHEN stored.expires_at > clock_timestamp() THEN stored.version END AS version
	FROM _sluice_swaps LEFT JOIN LATERAL (SELECT * FROM TABLE AS t WHERE t.key = _sluice_swaps.key FOR UPDATE OFFSET 0) AS stored ON true
), _sluice_conflict AS MATERIALIZED (
	SELECT bool_or(old <> coalesce(version, 0)) AS has_conflict FROM _sluice_found
), _sluice_write AS (
	SELECT place, key, new, state, absent, CASE
		WHEN ttl > 0 THEN greatest(clock_timestamp() + ttl * interval '1 microsecond', timestamptz 'epoch' + until * interval '1 microsecond')
		WHEN ttl = 0 THEN 'infinity' ELSE '-infinity' END AS expires_at
	FROM _sluice_found WHERE NOT (SELECT has_conflict FROM _sluice_conflict)
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
SELECT place, false AS created_meanwhile, version, CASE WHEN version IS NOT NULL THEN old_state END
FROM _sluice_found WHERE (SELECT has_conflict FROM _sluice_conflict)
UNION ALL
SELECT place, CASE WHEN $8::int = 1 THEN true ELSE UNDO END, NULL, NULL
FROM _sluice_write WHERE absent AND key NOT IN (SELECT key FROM _sluice_created)`

// undoSQL is an expression that fails, which undoes the statement. The error message has
// createdMarker in each language of the server, which distinguishes it from errors of users' programs.
const (
	createdMarker = "sluice: created meanwhile:"
	undoSQL       = `('` + createdMarker + ` ' || place)::int = 0`
)
