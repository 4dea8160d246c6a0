package postgres

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/internal/program"
)

// statements are the SQL statements for one table. All but purge return a row for each key; see row.
type statements struct {
	load, swap, purge     string
	one, singles, several string // of Run: they call functions
}

// newStatements returns the statements for a table, and all functions: f.All and those that the statements
// call. f is nil if there are no functions.
func newStatements(o Options, f *program.Functions) (s statements, functions []program.Function) {
	in := strings.NewReplacer("TABLE", o.qualified(o.Table), "UNDO", undoSQL, "UNWRITTEN", unwrittenSQL)
	s = statements{load: in.Replace(loadSQL), swap: in.Replace(swapSQL), purge: in.Replace(purgeSQL)}
	if f == nil {
		return s, nil
	}
	uses := map[string]string{"TABLE": o.Table, "STEP": f.Step, "RUN": f.Run}
	one := newFunction("one", oneParameters, oneFunctionSQL, uses)
	singles, several := newFunction("singles", runParameters, singlesSQL, uses), newFunction("several", runParameters, severalSQL, uses)
	s.one = strings.ReplaceAll(oneSQL, "ONE", o.qualified(one.Name))
	s.singles = "SELECT * FROM " + o.qualified(singles.Name) + runArguments
	s.several = "SELECT * FROM " + o.qualified(several.Name) + runArguments
	return s, append(slices.Clip(f.All), one, singles, several)
}

// newFunction returns a function that uses the table. It disables scans of the table: if the table is small
// when a connection plans a statement, the planner prefers a scan to the index. The plan is cached, so while
// the table grows, until the next ANALYZE, each lookup of a key would scan all rows.
func newFunction(name, parameters, body string, uses map[string]string) program.Function {
	const attributes = " SET enable_seqscan = off"
	return program.Function{
		Name:       program.FunctionName(name, fmt.Sprintf("%s%s%s%q", parameters, attributes, body, uses)),
		Parameters: parameters, Attributes: attributes, Body: body, Uses: uses,
	}
}

// loadSQL selects the existing records, each with the place of its key. The first row has the place 0
// and only the time in microseconds.
const loadSQL = `WITH _sluice_time AS MATERIALIZED (SELECT clock_timestamp() AS clock)
SELECT 0, NULL::bigint, NULL::text, false, round(extract(epoch FROM clock) * 1000000)::bigint, 0, NULL::bigint[], 0::bigint FROM _sluice_time
UNION ALL
SELECT place, version, encode(state, 'hex'), false, 0, 0, NULL, CASE WHEN expires_at < 'infinity' THEN ceil(extract(epoch FROM expires_at - clock) * 1000000)::bigint ELSE 0 END FROM _sluice_time CROSS JOIN unnest($1::bytea[]) WITH ORDINALITY AS k (key, place)
	CROSS JOIN LATERAL (SELECT version, state, expires_at FROM TABLE AS t WHERE t.key = k.key AND expires_at > _sluice_time.clock OFFSET 0) AS found`

// swapSQL locks the existing rows in the order of their keys and compares the versions. If all match,
// it creates the missing rows in that order, and replaces the others. If there is a conflict, it returns
// all keys and the stored records.
//
// If another transaction creates a key meanwhile, the insertion of this key does nothing. For a single
// key, the statement reports that. With several keys, others may be written already, so the statement
// fails, which undoes it. So a transaction that creates rows waits only for transactions that create a
// greater key. A cycle of such waits is impossible, so there are no deadlocks.
//
// Keys are looked up one by one, so that a plan for a table without statistics does not scan it later,
// when it is large. The arrays are columns of a subquery with OFFSET 0. If the planner could see
// their lengths, it would plan each execution again.
//
// The statement has a lock timeout, because if the context ended during a wait for a lock, the outcome
// would be unknown. The timeout of the session applies if it is shorter and not 0 (no timeout). Usually
// purge_at does not change, and the update is HOT: it writes no index. Microseconds are multiplied as a
// double, which is exact up to 2^53. The parts have the prefix _sluice_, because a part hides a table with
// the same name.
//
//go:embed swap.sql
var swapSQL string

// undoSQL is an expression that fails, which undoes the statement. In each language of the server, the
// message contains createdMarker, unlike those of users' programs.
const (
	createdMarker = "sluice: created meanwhile:"
	undoSQL       = `('` + createdMarker + ` ' || place)::int = 0`
)

// unwrittenSQL is a bigint expression that fails in the same way. The statements use it for a row that is not
// stored as they wrote it. RETURNING returns a row as a trigger has changed it, and no row that a trigger
// has dropped.
const (
	unwrittenMarker = "sluice: not written:"
	unwrittenSQL    = `('` + unwrittenMarker + ` ' || place)::bigint`
)

// purgeSQL locks due records, updates purge_at of those that have not expired, and removes the
// others, up to $2. ORDER BY makes the planner prefer the index to a scan of the table. It compares
// with statement_timestamp(), because clock_timestamp() is volatile and cannot be used to search an
// index. Arrays make the planner find the rows by their keys.
//
//go:embed purge.sql
var purgeSQL string

// oneSQL is the statement for a batch of one request with one use, and oneFunctionSQL the body of its function.
const oneSQL = `SELECT 1::bigint, old_version, encode(old_state, 'hex'), false, at, coalesce(count, 0), NULL::bigint[], coalesce(kept, 0)
FROM ONE($1::int, $2::bigint, $3::bigint, $4::bigint, $5::bytea, $6::int, $7::int, $8::bigint, $9::bigint, $10::bigint[])`

//go:embed run_one.sql
var oneSQLBody string

var oneFunctionSQL = strings.ReplaceAll(oneSQLBody, "UNWRITTEN", unwrittenMarker)

const oneParameters = `(lock_timeout_ms int, batch bigint, now bigint, margin bigint, name bytea, op int, program int, cost bigint, times bigint, args bigint[],
	OUT old_version bigint, OUT old_state bytea, OUT at bigint, OUT count bigint, OUT kept bigint)`

// keptSQL is how long the found record will be kept, in microseconds; 0 means for ever, or that there is none.
const keptSQL = `CASE WHEN old_version IS NOT NULL AND expires_at < 'infinity' THEN ceil(extract(epoch FROM expires_at - clock) * 1000000)::bigint ELSE 0 END`

// runSQL is the common body of the functions that decide a batch. Its statement locks the existing
// rows like swapSQL, reads the clock once, decides, and writes the changed rows like swapSQL. It reads
// the clock after it has all locks. So no state is later than the decision, unless a clock was set back.
// 3155760000000000 microseconds are 100 years. A record with a longer TTL never expires.
//
//go:embed run.sql
var runSQL string

// runParameters are the parameters and the columns of the functions of singlesSQL and severalSQL, and
// runArguments are their arguments.
const (
	runParameters = `(int, bigint, bigint, bigint, bytea[], int[], int[], int[], int[], int[], int[], int[], bigint[], bigint[], bigint[])
	RETURNS TABLE (place bigint, version bigint, state text, created bool, at bigint, count bigint, counts bigint[], kept bigint)`
	runArguments = `($1::int, $2::bigint, $3::bigint, $4::bigint, $5::bytea[],
	$6::int[], $7::int[], $8::int[], $9::int[], $10::int[], $11::int[], $12::int[], $13::bigint[], $14::bigint[], $15::bigint[])`
)

// singlesSQL is the body for batches in which each key has one request with one use that is no Reset. The
// requests are in the order of the keys. Each key succeeds or fails separately.
var singlesSQL = strings.NewReplacer("UNWRITTEN", unwrittenSQL,
	"KEYS", `(
		SELECT key, place, op, program, args[first:last] AS args, cost, times
		FROM unnest(keys, ops, programs, begins, ends, costs, _sluice_args.times) WITH ORDINALITY AS u (key, op, program, first, last, cost, times, place)
	) AS w`,
	"DECIDED", `SELECT *, ('x' || encode(substring(reply FOR 8), 'hex'))::bit(64)::bigint AS count, false AS always_write FROM (
		SELECT *, CASE WHEN old_version = batch OR op = 3 THEN int8send(0)
			ELSE SCHEMA.STEP(program, op, old_state, at, cost, times, args) END AS reply FROM _sluice_found OFFSET 0
	) AS d`,
	"RETURNED", `SELECT place, old_version, encode(old_state, 'hex'), place IN (SELECT place FROM _sluice_not_created), at, coalesce(count, 0), NULL::bigint[], `+keptSQL+` FROM _sluice_decided`,
).Replace(runSQL)

// severalSQL is the body for all other batches. If another transaction creates one of the keys
// meanwhile, other keys may be written already. So the statement fails, which undoes it.
var severalSQL = strings.NewReplacer("UNWRITTEN", unwrittenSQL,
	"KEYS", `unnest(keys) WITH ORDINALITY AS w (key, place)`,
	"DECIDED", `SELECT place, key, absent, old_version, old_state, expires_at, clock, at, batch, margin, reply, 1 AS count, true AS always_write, CASE place WHEN 1 THEN counts END AS counts
	FROM (
		SELECT array_agg(place ORDER BY place) AS all_places, array_agg(key ORDER BY place) AS all_keys, array_agg(absent ORDER BY place) AS all_absent,
			array_agg(old_version ORDER BY place) AS all_old_versions, array_agg(old_state ORDER BY place) AS all_old_states, array_agg(coalesce(old_version, 0) ORDER BY place) AS versions,
			array_agg(expires_at ORDER BY place) AS all_expiries
		FROM _sluice_found
	) AS f CROSS JOIN _sluice_time CROSS JOIN (SELECT requests, places, ops, shadows, programs, begins, ends, costs, times, args FROM _sluice_args) AS a
	CROSS JOIN LATERAL SCHEMA.RUN(all_old_states, versions, batch, at, requests, places, ops, shadows, programs, begins, ends, costs, times, args)
	CROSS JOIN LATERAL unnest(all_places, all_keys, all_absent, all_old_versions, all_old_states, all_expiries, replies) AS u (place, key, absent, old_version, old_state, expires_at, reply)`,
	"RETURNED", `SELECT place, old_version, encode(old_state, 'hex'), CASE WHEN place IN (SELECT place FROM _sluice_not_created)
		OR absent AND substring(reply FROM 17) = '' AND EXISTS (SELECT FROM SCHEMA.TABLE AS t WHERE t.key = d.key OFFSET 0) -- a policy hides the row from updates, or Purge removes it now
		THEN `+undoSQL+` ELSE false END, at, 0::bigint, counts, `+keptSQL+` FROM _sluice_decided AS d`,
).Replace(runSQL)
