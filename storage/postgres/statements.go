package postgres

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/internal/program"
)

// statements are the SQL statements for one table. load and swap return a row for each key; see row. Each statement has another
// number of parameters. So if a pooler has put one of them in the place of another, the server refuses it; see isPreparedElsewhere.
type statements struct{ load, swap, purge, list, decide string }

// newStatements returns the statements for a table, and all functions: f.All and the one that decides. f is nil
// if there are no functions.
func newStatements(o Options, f *program.Functions) (s statements, functions []program.Function) {
	in := strings.NewReplacer("TABLE", o.qualified(o.Table), "UNDO", undoSQL, "UNWRITTEN", unwrittenSQL)
	s = statements{load: in.Replace(loadSQL), swap: in.Replace(swapSQL), purge: in.Replace(purgeSQL), list: in.Replace(listSQL)}
	if f == nil {
		return s, nil
	}
	// Scans are disabled, because the planner prefers them while the table is small. The plan is cached, so each lookup
	// of a key would scan all rows of the grown table until the next ANALYZE.
	decide := f.Function("decide", decideParameters, " SET enable_seqscan = off", decideSQL, o.Table)
	s.decide = "SELECT * FROM " + o.qualified(decide.Name) + "($7::int, $1::bigint, $2::bigint, $3::bigint, $4::bytea[], $5::bigint[], $6::bigint[])"
	return s, append(slices.Clip(f.All), decide)
}

// loadSQL selects the existing records, each with the place of its key. The first row has the place 0
// and only the time in microseconds.
const loadSQL = `WITH _sluice_time AS MATERIALIZED (SELECT clock_timestamp() AS clock)
SELECT 0, NULL::bigint, NULL::text, false, round(extract(epoch FROM clock) * 1000000)::bigint, 0::bigint FROM _sluice_time
UNION ALL
SELECT place, version, encode(state, 'hex'), false, 0, CASE WHEN expires_at < 'infinity' THEN ceil(extract(epoch FROM expires_at - clock) * 1000000)::bigint ELSE 0 END FROM _sluice_time CROSS JOIN unnest($1::bytea[]) WITH ORDINALITY AS k (key, place)
	CROSS JOIN LATERAL (SELECT version, state, expires_at FROM TABLE AS t WHERE t.key = k.key AND expires_at > _sluice_time.clock OFFSET 0) AS found`

// swapSQL locks the existing rows in the order of their keys and compares the versions. If all match, it creates the missing
// rows in that order, and replaces the others. Otherwise it returns all keys and the stored records.
//
// If another transaction creates a key meanwhile, its insertion does nothing. For a single key, the statement reports that.
// With several keys, others may be written already, so the statement fails, which undoes it. A transaction that creates rows
// waits only for those that create a greater key, so there are no deadlocks.
//
// Keys are looked up one by one, so that a plan for a table without statistics does not scan it when it is large. The arrays
// are columns of a subquery with OFFSET 0, because the planner would plan each execution again if it saw their lengths.
//
// The statement has a lock timeout, because the outcome would be unknown if the context ended during a wait for a lock. The
// timeout of the session applies if it is shorter and not 0 (no timeout). Usually purge_at does not change, and the update is
// HOT: it writes no index. Microseconds are multiplied as a double, which is exact up to 2^53. The parts have the prefix
// _sluice_, because a part hides a table of the same name.
//
//go:embed swap.sql
var swapSQL string

// undoSQL is an expression that fails, which undoes the statement. In each language of the server, the
// message contains createdMarker, unlike those of users' programs.
const (
	createdMarker = "sluice: created meanwhile:"
	undoSQL       = `('` + createdMarker + ` ' || place)::int = 0`
)

// unwrittenSQL is a bigint expression that fails in the same way, for a row that is not stored as it was written: RETURNING
// returns a row as a trigger has changed it, and no row that a trigger has dropped.
const (
	unwrittenMarker = "sluice: not written:"
	unwrittenSQL    = `('` + unwrittenMarker + ` ' || place)::bigint`
)

// purgeSQL locks due records, updates purge_at of those that have not expired, and removes the others, up to $2. With ORDER
// BY, the planner prefers the index to a scan. statement_timestamp() can search an index; clock_timestamp() is volatile and
// cannot. With arrays, the planner finds the rows by their keys.
//
//go:embed purge.sql
var purgeSQL string

// listSQL selects the keys of a page, also those of expired records, so that LIMIT bounds the rows that are read. The keys are in
// hexadecimal, because the format of bytea is a setting of the session.
const listSQL = `SELECT encode(key, 'hex'), expires_at > clock_timestamp() FROM TABLE WHERE key BETWEEN ($1::bytea[])[1] AND ($1::bytea[])[2] ORDER BY key LIMIT $2::bigint`

// decideSQL is the body of the function that decides a batch. It locks and writes rows like swapSQL. It reads the clock after
// it has all locks, so no state is later than the decision, unless a clock was set back. If another transaction creates a key
// meanwhile, the function fails, which undoes its writes.
//
//go:embed decide.sql
var decideSQL string

const decideParameters = `(lock_timeout int, batch bigint, INOUT at bigint, margin bigint, keys bytea[], uses bigint[], args bigint[],
	OUT versions bigint[], OUT states text[], OUT ttls bigint[], OUT applied bigint[])`
