package program_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/internal/testing/servers"
)

var schemas atomic.Int64

// onPostgres returns a runner of programs on a server, in a new schema.
func onPostgres(t testing.TB, conn *pgx.Conn, edit func(string) string) runner {
	ctx, schema := context.Background(), fmt.Sprintf("laws %d", schemas.Add(1))
	functions, err := program.SQL(programsOfSubjects(t)...)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, fmt.Sprintf("CREATE SCHEMA %q;\n%s", schema, edit(program.Create(schema, functions.All...))))
	require.NoError(t, err)
	test := functions.Function("test", "(program bigint, op int, INOUT state bytea, now bigint, cost bigint, INOUT times bigint, args bigint[], OUT ttl bigint)", "",
		"DECLARE r record; BEGIN r := STEP(program, op, state, now, cost, times, args); state := r.state; times := r.times; ttl := r.ttl; END", "")
	_, err = conn.Exec(ctx, program.Create(schema, test))
	require.NoError(t, err)
	call := fmt.Sprintf(`SELECT r.times, CASE WHEN r.times >= 0 THEN r.state END, coalesce(r.ttl, 0) FROM unnest($3::int[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[]) AS c (op, state, at, cost, times),
		%q.%q($1, c.op, c.state, c.at, c.cost, c.times, $2) AS r`, schema, test.Name)
	return func(p algo.Program, calls []programCall) ([]programReply, error) {
		number, args := functions.AppendCall([]int64{}, &p)
		rows, err := conn.Query(ctx, call, append([]any{number, args}, columns(calls)...)...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowToStructByPos[programReply])
	}
}

// columns returns the arguments of the calls as columns.
func columns(calls []programCall) []any {
	n := len(calls)
	ops, states, ats, costs, times := make([]int32, n), make([][]byte, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, c := range calls {
		ops[i] = int32(slices.Index([]string{"allow", "refund", "charge"}, c.Op))
		states[i], ats[i], costs[i], times[i] = append([]byte{}, c.State...), c.At, c.Cost, c.Times
	}
	return []any{ops, states, ats, costs, times}
}

func connect(t testing.TB) *pgx.Conn {
	conn, err := pgx.Connect(context.Background(), servers.Postgres(t).DSN())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestSQLProgramsAgreeWithStep(t *testing.T) {
	run := onPostgres(t, connect(t), unchanged)
	for i, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			require.NoError(t, s.check(uint64(i), cases(), run))
		})
	}
}

// FuzzSQL checks that a program agrees with Step, or declines, for any state.
func FuzzSQL(f *testing.F) { fuzz(f, onPostgres(f, connect(f), unchanged)) }

func TestNameOfAFunctionDependsOnItsText(t *testing.T) {
	names := func(programs ...algo.Program) (names []string) {
		f, err := program.SQL(programs...)
		require.NoError(t, err)
		for _, function := range f.All {
			names = append(names, function.Name)
		}
		return names
	}
	mine, other, yours := algo.Program{Name: "mine", SQL: "one"}, algo.Program{Name: "mine", SQL: "two"}, algo.Program{Name: "yours", SQL: "one"}
	require.Equal(t, names(mine), names(mine, algo.Program{Parts: []algo.Program{mine}}, algo.Program{Name: "lua", Lua: "one"}))
	for _, name := range append(names(other), names(mine, yours)[1:]...) {
		require.NotContains(t, names(mine), name)
	}
	_, err := program.SQL(mine, other)
	require.ErrorContains(t, err, "two different programs")
}

func TestFunctionsRunOnlyTheirPrograms(t *testing.T) {
	mine := algo.Program{Name: "mine", SQL: "one"}
	f, err := program.SQL(mine)
	require.NoError(t, err)
	for _, p := range []algo.Program{mine, {Parts: []algo.Program{mine, mine}}} {
		require.True(t, f.Runs(&p), p)
	}
	for _, p := range []algo.Program{{Name: "mine", SQL: "two"}, {Name: "mine"}, {Name: "other", SQL: "one"}, {Parts: []algo.Program{mine, {Name: "mine"}}}} {
		require.False(t, f.Runs(&p), p)
	}
}

func TestEachFaultInSQLIsFound(t *testing.T) {
	conn := connect(t)
	checkFaults(t, []fault{
		{"gcra", "* unit > burst * unit", "* unit >= burst * unit"},
		{"gcra", "paid := cost * times", "paid := cost"},
		{"gcra", "passed >= (level + drain - 1) / drain", "passed > (level + drain - 1) / drain"},
		{"gcra", "ELSE level + skew * drain", "ELSE level"},
		{"gcra", "(level + was - 1) / was", "level / was"},
		{"gcra", "skew + (level + drain - 1) / drain", "skew + level / drain"},
		{"gcra", "-least(cost, (level + unit - 1) / unit)", "-least(cost, level / unit)"},
		{"gcra", " OR was NOT BETWEEN 1 AND max", ""},
		{"gcra", "state := CASE paid WHEN 0 THEN state ELSE '' END;", ""},
		{"tokenbucket", "greatest(0, now - at)", "greatest(-1, now - at)"},
		{"tokenbucket by interval", "at + refills * every", "at + refills"},
		{"tokenbucket by interval", "level := least(level, most);", ""},
		{"fixedwindow", "now >= ends", "now > ends"},
		{"fixedwindow", " OR used NOT BETWEEN 1 AND max", ""},
		{"fixedwindow by the clock", "(now + period - \"offset\") % period", "(now + period) % period"},
		{"movingwindow", "overlap + weight - 1) / weight", "overlap) / weight"},
		{"movingwindow", "greatest(stored, now)", "now"},
		{"movingwindow", "was <> width OR", ""},
		{"movingwindow of 12 slots", "array_fill(0::bigint, ARRAY[older::int])", "'{}'::bigint[]"},
		{"movingwindow of 12 slots", "slots + 2 - first", "slots + 1"},
		{"movingwindow of any slots", "counts[1:least(n, slots + 1 - older)]", "counts[1:n]"},
		{"movingwindow of 3 whole slots", "\"limit\" - recent - (", "\"limit\" - recent - 0 * ("},
		{"movingwindow of units that are held", "(\"paidAt\" - 1) / width + 1", "(\"paidAt\" - 1) / width"},
		{"movingwindow of units that are held", "greatest(0, least(slots + 2, at / width - (\"paidAt\" - 1) / width + 1))", "at / width - (\"paidAt\" - 1) / width + 1"},
		{"movingwindow of units that are held", "least(oldest, n)", "n"},
		{"movingwindow of units that are held", "changed := given > 0;", ""},
		{"movingwindow of units that are held", "OR counts[newest] < cost", ""},
		{"movingwindow of units that are held", "IF newest > 1 THEN", "IF newest > 2 THEN"},
		{"movingwindow of units that are held", "times := least(times, counts[newest] / cost);", ""},
		{"a stack", "IF counts[i] > least THEN", "IF false THEN"},
		{"a stack", "ttl := greatest(ttl, ttls[i])", "ttl := ttls[i]"},
		{"a stack", "NOT framed OR ", ""},
	}, func(edit func(string) string) runner { return onPostgres(t, conn, edit) })
}
