package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// A table in any schema of search_path is used. Migrate does not create another in the first schema.
func TestMigrateUsesTheTableThatSearchPathFinds(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	_, _, err := s.CompareAndSwap(ctx, creating("a")...)
	require.NoError(t, err)
	schema := newSchema(t, p)
	other := open(t, newPool(t, shared.Postgres(t).DSN()+"&search_path="+schema+",public"), postgres.Options{Table: table})
	records, _, err := other.Load(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, []bool{true}, exist(records))

	// With Options.Schema, only that schema counts.
	named := open(t, p, postgres.Options{Schema: schema, Table: table})
	records, _, err = named.Load(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, []bool{false}, exist(records))
}

// If the table exists, Migrate needs no right to create it, and works in a read-only session.
func TestMigrateWithoutTheRightToCreate(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	o := postgres.Options{Schema: newSchema(t, p), Table: `with "quotes".`}
	role := fmt.Sprint("role_", tables.Add(1))
	_, err := p.Exec(ctx, "CREATE ROLE "+role+" LOGIN; GRANT USAGE ON SCHEMA "+o.Schema+" TO "+role)
	require.NoError(t, err)
	limited := newPool(t, strings.Replace(shared.Postgres(t).DSN(), "sluice@", role+"@", 1))
	s, err := postgres.New(limited, o)
	require.NoError(t, err)
	err = s.Migrate(ctx)
	require.ErrorContains(t, err, "42501", "the table does not exist yet")
	require.NotErrorIs(t, err, storage.ErrUnavailable)

	open(t, p, o)
	_, err = p.Exec(ctx, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+o.Schema+" TO "+role)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(ctx))
	_, swapped, err := s.CompareAndSwap(ctx, creating("a")...)
	require.NoError(t, err)
	require.True(t, swapped)
	open(t, newPool(t, shared.Postgres(t).DSN()+"&default_transaction_read_only=on"), o)
}

// The table may be in a later schema of search_path and have a name of any length.
func TestMigrateAddsTheIndex(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	first, second := newSchema(t, p), newSchema(t, p)
	both := newPool(t, shared.Postgres(t).DSN()+"&search_path="+first+","+second)
	indexes := func(table string) (n int) {
		const sql = "SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND tablename = $2 AND indexdef LIKE '%(purge_at)'"
		require.NoError(t, p.QueryRow(ctx, sql, second, table).Scan(&n))
		return n
	}
	long := strings.Repeat("é", 26)
	for _, table := range []string{"short", `with "quotes".`, long, long + "0123456789", long + "012345678X", strings.Repeat("x", 63)} {
		s := open(t, p, postgres.Options{Schema: second, Table: table})
		_, err := p.Exec(ctx, "DROP TABLE "+pgx.Identifier{second, table}.Sanitize())
		require.NoError(t, err)
		bare, _, found := strings.Cut(s.Schema(), "CREATE INDEX")
		require.True(t, found)
		_, err = p.Exec(ctx, bare)
		require.NoError(t, err)
		require.Zero(t, indexes(table))
		for range 2 {
			open(t, both, postgres.Options{Table: table})
			require.Equal(t, 1, indexes(table), table)
		}
		_, err = p.Exec(ctx, s.Schema())
		require.NoError(t, err, "the schema can be applied several times")
		require.Equal(t, 1, indexes(table), table)
	}
	var tables int
	require.NoError(t, p.QueryRow(ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = $1", first).Scan(&tables))
	require.Zero(t, tables, "Migrate must not create a table in the first schema")
}

// Processes that start at the same time create the table and the functions once. Processes with other
// programs create other functions. With a short lock_timeout, the server does not let them wait for each other.
func TestConcurrentMigrationsSucceed(t *testing.T) {
	for _, settings := range []string{"", "&lock_timeout=1", "&default_transaction_isolation=serializable"} {
		t.Run(settings, func(t *testing.T) { testConcurrentMigrations(t, settings) })
	}
}

func testConcurrentMigrations(t *testing.T, settings string) {
	const processes = 8
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN()+settings+fmt.Sprint("&pool_max_conns=", processes))
	for round := range 2 {
		o := postgres.Options{Schema: newSchema(t, p), NoFunctions: true, Unlogged: true}
		if round%2 == 0 { // only the functions are missing
			open(t, p, o)
		}
		o.NoFunctions = false
		errs, start := make(chan error, processes), make(chan struct{})
		for i := range processes {
			if o.Programs = nil; i%2 == 0 {
				o.Programs = []algo.Program{{Name: "another", SQL: "BEGIN times := 0; END "}}
			}
			s, err := postgres.New(p, o)
			require.NoError(t, err)
			go func() {
				<-start
				errs <- s.Migrate(ctx)
			}()
		}
		close(start)
		for range processes {
			require.NoError(t, <-errs)
		}
		var functions int
		require.NoError(t, p.QueryRow(ctx, "SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace", o.Schema).Scan(&functions))
		require.Equal(t, 4+1+2*2, functions)
		var kind string
		require.NoError(t, p.QueryRow(ctx, "SELECT relpersistence::text FROM pg_class WHERE oid = $1::regclass", o.Schema+"."+postgres.DefaultTable).Scan(&kind))
		require.Equal(t, "u", kind)
	}
}

// The role has no right to create functions, so Migrate fails. The caller's transaction stays usable.
// The functions are in the schema of the table, which is not the first one.
func TestFunctionsAreInTheSchemaOfTheTable(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	first, second := newSchema(t, p), newSchema(t, p)
	open(t, p, postgres.Options{Schema: second, Table: "limits", NoFunctions: true})
	role := fmt.Sprint("role_", tables.Add(1))
	_, err := p.Exec(ctx, fmt.Sprintf("CREATE ROLE %[1]s LOGIN; GRANT USAGE ON SCHEMA %[2]s, %[3]s TO %[1]s; GRANT ALL ON ALL TABLES IN SCHEMA %[3]s TO %[1]s", role, first, second))
	require.NoError(t, err)
	limited := begin(t, newPool(t, strings.Replace(shared.Postgres(t).DSN(), "sluice@", role+"@", 1)+"&search_path="+first+","+second))
	s := storeIn(t, limited, "limits")
	err = s.Migrate(ctx)
	require.ErrorContains(t, err, "42501")
	require.ErrorContains(t, err, "Options.NoFunctions")

	open(t, newPool(t, shared.Postgres(t).DSN()+"&search_path="+first+","+second), postgres.Options{Table: "limits"})
	require.NoError(t, s.Migrate(ctx))
	var functions int
	require.NoError(t, p.QueryRow(ctx, "SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace", first).Scan(&functions))
	require.Zero(t, functions)
}

// The functions contain the name of their schema. With the old name, they would use the table of another
// schema that has this name now.
func TestMigrateAfterTheSchemaWasRenamed(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	first := newSchema(t, p)
	second := first + "_renamed"
	for _, o := range []postgres.Options{{Schema: second}, {}} {
		old := open(t, p, postgres.Options{Schema: first})
		_, err := p.Exec(ctx, fmt.Sprintf("ALTER SCHEMA %[1]s RENAME TO %[2]s; CREATE SCHEMA %[1]s", first, second))
		require.NoError(t, err)
		require.NoError(t, old.Migrate(ctx))
		s := open(t, newPool(t, shared.Postgres(t).DSN()+"&search_path="+second), o)
		for _, b := range []*driver.Batch{requestEach(t, "a"), requestEach(t, "b", "c"), oneRequest(t, "d", "e")} {
			s.Run(ctx, b)
			require.NoError(t, b.Err)
		}
		records, _, err := s.Load(ctx, "a", "b", "c", "d", "e")
		require.NoError(t, err)
		require.Equal(t, []bool{true, true, true, true, true}, exist(records))
		records, _, err = old.Load(ctx, "a", "b", "c", "d", "e")
		require.NoError(t, err)
		require.Equal(t, []bool{false, false, false, false, false}, exist(records))
		_, err = p.Exec(ctx, "DROP SCHEMA "+second+" CASCADE")
		require.NoError(t, err)
	}
}

// The functions stay in the schema that the table had.
func TestMigrateReportsFunctionsOfAFormerTable(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	first, second := newSchema(t, p), newSchema(t, p)
	open(t, p, postgres.Options{Schema: first, Table: "limits"})
	_, err := p.Exec(ctx, "ALTER TABLE "+first+".limits SET SCHEMA "+second)
	require.NoError(t, err)
	both := newPool(t, shared.Postgres(t).DSN()+"&search_path="+first+","+second)
	s, err := postgres.New(both, postgres.Options{Table: "limits"})
	require.NoError(t, err)
	err = s.Migrate(ctx)
	require.ErrorContains(t, err, fmt.Sprintf("schema %q: search_path finds the functions of a former table first", first))
	requireKinds(t, err, storage.ErrNotApplied)

	open(t, both, postgres.Options{Schema: second, Table: "limits"})
	open(t, newPool(t, shared.Postgres(t).DSN()+"&search_path="+second+","+first), postgres.Options{Table: "limits"})
	open(t, both, postgres.Options{Table: "limits", NoFunctions: true})
	requireLimits(t, open(t, both, postgres.Options{Schema: second, Table: "limits"}))

	// Tables with other names do not matter.
	open(t, p, postgres.Options{Schema: second, Table: "other"})
	requireLimits(t, open(t, both, postgres.Options{Table: "other"}))
}

// Without Options.Schema, the functions of Store.Schema contain no name of a schema.
func TestMigrateKeepsTheFunctionsOfSchema(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	schema := newSchema(t, p)
	dsn := shared.Postgres(t).DSN() + "&search_path=" + schema
	s, err := postgres.New(newPool(t, dsn), postgres.Options{})
	require.NoError(t, err)
	_, err = newPool(t, dsn).Exec(ctx, s.Schema())
	require.NoError(t, err)
	open(t, newPool(t, dsn+"&default_transaction_read_only=on"), postgres.Options{})

	open(t, p, postgres.Options{Schema: schema})
	open(t, newPool(t, dsn+"&default_transaction_read_only=on"), postgres.Options{})
}

// newSchema creates a schema and returns its name.
func newSchema(t *testing.T, db postgres.DB) string {
	name := fmt.Sprint("schema_", tables.Add(1))
	_, err := db.Exec(t.Context(), "CREATE SCHEMA "+name)
	require.NoError(t, err)
	return name
}

// The names inside of the statements hide no table.
func TestTableMayHaveAnyName(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	for _, name := range []string{
		"keys", "found", "created", "stored", "excluded", "t", "old", "key", "select", "Mixed Case", `q"uo.te`, "$1", "x--y", "%s", strings.Repeat("é", 31),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, p, postgres.Options{Table: name})
			t.Cleanup(func() { drop(t, p, name) })
			swaps := creating("a", "b")
			_, swapped, err := s.CompareAndSwap(ctx, swaps...)
			require.NoError(t, err)
			require.True(t, swapped)
			current, swapped, err := s.CompareAndSwap(ctx, swaps...)
			require.NoError(t, err)
			require.False(t, swapped)
			require.Equal(t, swaps[1].New, current[1])
			records, _, err := s.Load(ctx, "b")
			require.NoError(t, err)
			require.Equal(t, swaps[1].New, records[0])
			_, err = s.Purge(ctx, 1)
			require.NoError(t, err)
		})
	}
}

func drop(t *testing.T, db postgres.DB, table string) {
	_, err := db.Exec(context.Background(), "DROP TABLE "+pgx.Identifier{table}.Sanitize())
	require.NoError(t, err)
}

// If CREATE INDEX CONCURRENTLY fails, it leaves an invalid index.
func TestMigrateRefusesAnInvalidIndex(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	s := open(t, p, postgres.Options{Schema: newSchema(t, p), Table: "states"})
	_, err := p.Exec(ctx, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = (SELECT indexrelid FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relname = 'states_purge_at')")
	require.NoError(t, err)
	err = s.Migrate(ctx)
	require.ErrorContains(t, err, "the index on purge_at is not valid")
	requireKinds(t, err, storage.ErrNotApplied)
}
