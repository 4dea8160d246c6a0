package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// newRole creates a role that may use schemas and their tables, also those of later, but create nothing. It returns the connection
// string.
func newRole(t *testing.T, db postgres.DB, schemas ...string) (dsn string) {
	role := fmt.Sprint("role_", tables.Add(1))
	exec(t, db, "CREATE ROLE "+role+" LOGIN")
	for _, schema := range schemas {
		exec(t, db, strings.NewReplacer("SCHEMA_NAME", schema, "ROLE", role).Replace(`GRANT USAGE ON SCHEMA SCHEMA_NAME TO ROLE;
			GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA SCHEMA_NAME TO ROLE;
			ALTER DEFAULT PRIVILEGES IN SCHEMA SCHEMA_NAME GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ROLE`))
	}
	return strings.Replace(shared.Postgres(t).DSN(), "sluice@", role+"@", 1)
}

// If the table exists, Migrate needs no right to create it, and works in a read-only session.
func TestMigrateWithoutTheRightToCreate(t *testing.T) {
	p := newPool(t, "")
	o := postgres.Options{Schema: newSchema(t, p), Table: `with "quotes".`}
	s := storeOn(t, newPoolAt(t, newRole(t, p, o.Schema)), o)
	err := s.Migrate(t.Context())
	require.ErrorContains(t, err, "42501", "the table does not exist yet")
	requireKinds(t, err, storage.ErrNotApplied)

	open(t, p, o)
	require.NoError(t, s.Migrate(t.Context()))
	swap(t, s, creating("a"))
	open(t, newPool(t, "&default_transaction_read_only=on"), o)
}

// The table may be in a later schema of search_path and have a name of any length.
func TestMigrateAddsTheIndex(t *testing.T) {
	p := newPool(t, "")
	first, second := newSchema(t, p), newSchema(t, p)
	both := newPool(t, "&search_path="+first+","+second)
	indexes := func(table string) int {
		return selected[int](t, p, "SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND tablename = $2 AND indexdef LIKE '%(purge_at)'", second, table)
	}
	long := strings.Repeat("é", 26)
	for _, table := range []string{"short", `with "quotes".`, long, long + "0123456789", long + "012345678X", strings.Repeat("x", 63)} {
		s := open(t, p, postgres.Options{Schema: second, Table: table})
		exec(t, p, "DROP TABLE "+pgx.Identifier{second, table}.Sanitize())
		bare, _, found := strings.Cut(s.Schema(), "CREATE INDEX")
		require.True(t, found)
		exec(t, p, bare)
		require.Zero(t, indexes(table))
		for range 2 {
			open(t, both, postgres.Options{Table: table})
			require.Equal(t, 1, indexes(table), table)
		}
		exec(t, p, s.Schema()) // it can be applied several times
		require.Equal(t, 1, indexes(table), table)
	}
	require.Zero(t, selected[int](t, p, "SELECT count(*) FROM pg_tables WHERE schemaname = $1", first), "Migrate must not create a table in the first schema")

	// If CREATE INDEX CONCURRENTLY fails, it leaves an invalid index.
	exec(t, p, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '"+second+".short_purge_at'::regclass")
	err := storeOn(t, both, postgres.Options{Table: "short"}).Migrate(t.Context())
	require.ErrorContains(t, err, "the index on purge_at is not valid")
	requireKinds(t, err, storage.ErrNotApplied)
}

// A table that was renamed keeps the name of its index. Without an index, Purge would scan the new table.
func TestMigrateReportsTheIndexOfARenamedTable(t *testing.T) {
	p := newPool(t, "")
	o := postgres.Options{Schema: newSchema(t, p), Table: "limits"}
	s := open(t, p, o)
	exec(t, p, "ALTER TABLE "+o.Schema+".limits RENAME TO former")
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	defer cancel()
	for _, db := range []postgres.DB{begin(t, p), p} {
		err := storeOn(t, db, o).Migrate(ctx)
		require.ErrorContains(t, err, `the index "limits_purge_at" is on another table or column; rename it`)
		requireKinds(t, err, storage.ErrNotApplied)
	}
	exec(t, p, "ALTER INDEX "+o.Schema+".limits_purge_at RENAME TO former_purge_at")
	require.NoError(t, s.Migrate(t.Context()))
	require.Equal(t, 1, selected[int](t, p, "SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND tablename = 'limits' AND indexdef LIKE '%(purge_at)'", o.Schema))
}

// Processes that start at the same time create the table and the functions once. Processes with other
// programs create other functions. With a short lock_timeout, the server does not let them wait for each other.
func TestConcurrentMigrationsSucceed(t *testing.T) {
	const processes = 8
	for _, settings := range []string{"", "&lock_timeout=1", "&default_transaction_isolation=serializable"} {
		p := newPool(t, settings+fmt.Sprint("&pool_max_conns=", processes))
		for _, exists := range []bool{false, true} {
			o := postgres.Options{Schema: newSchema(t, p), NoFunctions: true, Unlogged: true}
			if exists { // only the functions are missing
				open(t, p, o)
			}
			o.NoFunctions = false
			var group sync.WaitGroup
			start := make(chan struct{})
			for i := range processes {
				if o.Programs = nil; i%2 == 0 {
					o.Programs = []algo.Program{{Name: "another", SQL: "BEGIN times := 0; END "}}
				}
				s := storeOn(t, p, o)
				group.Go(func() {
					<-start
					assert.NoError(t, s.Migrate(t.Context()), settings)
				})
			}
			close(start)
			group.Wait()
			require.Equal(t, 4+1+2*2, selected[int](t, p, "SELECT count(*) FROM pg_proc WHERE pronamespace = $1::text::regnamespace", o.Schema))
			require.Equal(t, "u", selected[string](t, p, "SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::regclass", o.Schema+"."+postgres.DefaultTable))
		}
	}
}

func TestMigrateThatWaitsSaysForWhat(t *testing.T) {
	p := newPool(t, "&lock_timeout=10")
	s, table := newStore(t, p)
	exec(t, begin(t, p), "LOCK TABLE "+table)
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	defer cancel()
	err := s.Migrate(ctx)
	requireKinds(t, err, storage.ErrContended, storage.ErrNotApplied)
	require.Error(t, ctx.Err())
}

// The role has no right to create functions, so Migrate fails. The caller's transaction stays usable.
// The table and the functions are in a schema that is not the first one.
func TestFunctionsAreInTheSchemaOfTheTable(t *testing.T) {
	p := newPool(t, "")
	first, second := newSchema(t, p), newSchema(t, p)
	open(t, p, postgres.Options{Schema: second, Table: "limits", NoFunctions: true})
	path := "&search_path=" + first + "," + second
	limited := begin(t, newPoolAt(t, newRole(t, p, first, second)+path))
	s := storeIn(t, limited, "limits")
	err := s.Migrate(t.Context())
	require.ErrorContains(t, err, "42501")
	require.ErrorContains(t, err, "Options.NoFunctions")

	requireLimits(t, open(t, newPool(t, path), postgres.Options{Table: "limits"}))
	require.NoError(t, s.Migrate(t.Context()))
	require.Zero(t, selected[int](t, p, "SELECT count(*) FROM pg_proc WHERE pronamespace = $1::text::regnamespace", first))
}

// The functions contain the name of their schema. With the old name, they would use the table of another
// schema that has this name now.
func TestMigrateAfterTheSchemaWasRenamed(t *testing.T) {
	p := newPool(t, "")
	first := newSchema(t, p)
	second := first + "_renamed"
	for _, o := range []postgres.Options{{Schema: second}, {}} {
		old := open(t, p, postgres.Options{Schema: first})
		exec(t, p, fmt.Sprintf("ALTER SCHEMA %[1]s RENAME TO %[2]s; CREATE SCHEMA %[1]s", first, second))
		require.NoError(t, old.Migrate(t.Context()))
		s := open(t, newPool(t, "&search_path="+second), o)
		run(t, s, requestEach("a"), requestEach("b", "c"), oneRequest("d", "e"))
		require.Len(t, existing(t, s, "a", "b", "c", "d", "e"), 5)
		require.Empty(t, existing(t, old, "a", "b", "c", "d", "e"))
		exec(t, p, "DROP SCHEMA "+second+" CASCADE")
	}
}

// The functions stay in the schema that the table had.
func TestMigrateReportsFunctionsOfAFormerTable(t *testing.T) {
	p := newPool(t, "")
	first, second := newSchema(t, p), newSchema(t, p)
	open(t, p, postgres.Options{Schema: first, Table: "limits"})
	exec(t, p, "ALTER TABLE "+first+".limits SET SCHEMA "+second)
	both := newPool(t, "&search_path="+first+","+second)
	err := storeOn(t, both, postgres.Options{Table: "limits"}).Migrate(t.Context())
	require.ErrorContains(t, err, fmt.Sprintf("schema %q: search_path finds the functions of a former table first", first))
	requireKinds(t, err, storage.ErrNotApplied)

	open(t, newPool(t, "&search_path="+second+","+first), postgres.Options{Table: "limits"})
	open(t, both, postgres.Options{Table: "limits", NoFunctions: true})
	requireLimits(t, open(t, both, postgres.Options{Schema: second, Table: "limits"}))

	// Tables with other names do not matter.
	open(t, p, postgres.Options{Schema: second, Table: "other"})
	requireLimits(t, open(t, both, postgres.Options{Table: "other"}))
}

// Without Options.Schema, the functions of Store.Schema contain no name of a schema. So Migrate changes nothing.
func TestMigrateKeepsTheFunctionsOfSchema(t *testing.T) {
	p := newPool(t, "")
	schema := newSchema(t, p)
	path := "&search_path=" + schema
	exec(t, newPool(t, path), storeOn(t, p, postgres.Options{}).Schema())
	open(t, newPool(t, path+"&default_transaction_read_only=on"), postgres.Options{})
	open(t, p, postgres.Options{Schema: schema})
	open(t, newPool(t, path+"&default_transaction_read_only=on"), postgres.Options{})
}

// The names inside of the statements hide no table and no column.
func TestTablesAndColumnsMayHaveAnyName(t *testing.T) {
	p := newPool(t, "")
	schema := newSchema(t, p)
	for _, table := range []string{
		"keys", "found", "created", "stored", "excluded", "t", "old", "key", "select", "Mixed Case", `q"uo.te`, "$1", "x--y", "%s", strings.Repeat("é", 31),
	} {
		s := open(t, p, postgres.Options{Schema: schema, Table: table})
		var columns []string
		for _, name := range []string{
			"absent", "args", "at", "batch", "changes", "clock", "cost", "count", "expires", "keys", "margin", "name", "new", "next", "now", "old",
			"old_state", "old_version", "op", "place", "program", "reply", "setting", "shadows", "times", "ttl", "until", "due", "removed",
		} {
			columns = append(columns, "ADD COLUMN "+pgx.Identifier{name}.Sanitize()+" text")
		}
		exec(t, p, "ALTER TABLE "+pgx.Identifier{schema, table}.Sanitize()+strings.Join(columns, ", "))
		for range 2 { // the records are created, and then replaced
			require.NoError(t, errors.Join(callAll(t.Context(), s, "a")...))
		}
		requireLimits(t, s)
	}
}

func TestStoreWithoutFunctions(t *testing.T) {
	p := newPool(t, "")
	schema := newSchema(t, p)
	without := open(t, p, postgres.Options{Schema: schema, Table: "limits", NoFunctions: true})
	_, program := twoAnHour()
	require.False(t, without.Runs(program))
	require.False(t, storeIn(t, begin(t, p), "limits").Runs(program), "in a transaction")
	require.Equal(t, "p", selected[string](t, p, "SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::regclass", schema+".limits"), "permanent")
	require.NotContains(t, without.Schema(), "FUNCTION")
	b := requestEach("a")
	without.Run(t.Context(), b)
	requireKinds(t, b.Err, storage.ErrNotApplied)
	requireLimits(t, without)

	s := storeOn(t, p, postgres.Options{Schema: schema, Table: "limits"})
	require.True(t, s.Runs(program))
	s.Run(t.Context(), b)
	requireKinds(t, b.Err, storage.ErrNotApplied)
	require.ErrorContains(t, b.Err, "call Store.Migrate first, or set Options.NoFunctions")
	require.NoError(t, s.Migrate(t.Context()))
	run(t, s, b)
}

// A store refuses a program that is not in its Options. Stores with different programs may share a
// schema.
func TestRunOfAUsersProgram(t *testing.T) {
	p := newPool(t, "")
	schema := newSchema(t, p)
	always := algo.Program{Name: "always", SQL: `BEGIN state := state || '\x01'::bytea; ttl := 1000000000; END `}
	plain := open(t, p, postgres.Options{Schema: schema, Table: "limits"})
	require.False(t, plain.Runs(&always))
	b := requestEach("a")
	_, standard := twoAnHour()
	setProgram(b, &always)
	plain.Run(t.Context(), b)
	require.ErrorContains(t, b.Err, `"always"`)

	s := open(t, p, postgres.Options{Schema: schema, Table: "limits", Programs: []algo.Program{always}})
	require.True(t, s.Runs(&algo.Program{Parts: []algo.Program{always, *standard}}))
	for range 2 {
		run(t, s, b)
		b.Version++
	}
	require.Equal(t, []byte{1}, b.Found[0].State)
	run(t, plain, requestEach("b"))

	_, err := postgres.New(p, postgres.Options{Programs: []algo.Program{always, {Name: "always", SQL: "BEGIN END"}}})
	require.ErrorContains(t, err, "two different programs")
}

// A retry does not help, whatever the code of the error is.
func TestFailingProgramOfAUserIsReported(t *testing.T) {
	p := newPool(t, "")
	for code, fails := range map[string]string{"22012": "times := 1 / (times - 1)", "22P02": "times := 'many'"} {
		broken := algo.Program{Name: "broken", SQL: "BEGIN " + fails + "; END "}
		s := open(t, p, postgres.Options{Schema: newSchema(t, p), Table: "limits", Programs: []algo.Program{broken}})
		for _, b := range []*driver.Batch{requestEach("a"), requestEach("a", "b"), oneRequest("a", "b")} {
			setProgram(b, &broken)
			s.Run(t.Context(), b)
			requireKinds(t, b.Err, storage.ErrNotApplied)
			require.ErrorContains(t, b.Err, code)
		}
	}
}
