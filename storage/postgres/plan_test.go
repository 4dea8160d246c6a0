package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/driver"
)

// The plan of a swap, a load and a purge must be the same with and without statistics of the table, and if all
// records or no records are due. A generic plan must be the same if the table was empty when it was made.
func TestRowsAreFoundByAnIndex(t *testing.T) {
	ctx, p := context.Background(), newPool(t, shared.Postgres(t).DSN()+"&default_query_exec_mode=simple_protocol&pool_max_conns=1")
	s, table := newStore(t, p)
	type statement struct{ sql, arguments, index string }
	statements := []statement{{s.PurgeSQL(), "200, 1000, NULL", "using " + table + "_purge_at"}}
	for _, keys := range []int{1, 2, 64} {
		statements = append(statements, statement{s.SwapSQL(), swapArgs(keys), table + "_pkey"}, statement{s.LoadSQL(), loadArgs(keys), table + "_pkey"})
	}
	const generic, custom = "force_generic_plan", "force_custom_plan"
	for _, c := range []struct {
		prepare string
		modes   []string
	}{
		{"ALTER TABLE " + table + " SET (autovacuum_enabled = off)", []string{generic}},
		{fill(table, 20_000), []string{generic, custom}},
		{"ANALYZE " + table, []string{generic, custom}},
		{"UPDATE " + table + " SET expires_at = '2001-01-01', purge_at = '2001-01-01'", []string{generic, custom}},
		{"ANALYZE " + table, []string{generic, custom}},
		{"TRUNCATE " + table + "; " + fill(table, 5_000) + "; ANALYZE " + table, []string{generic, custom}},
	} {
		_, err := p.Exec(ctx, c.prepare)
		require.NoError(t, err)
		for _, mode := range c.modes {
			for _, statement := range statements {
				text := plan(t, p, mode, statement.sql, statement.arguments)
				require.NotContains(t, text, "Seq Scan on "+table, "%s, after %s", mode, c.prepare)
				require.Contains(t, text, statement.index)
			}
		}
	}
}

// A connection keeps the plans of a batch while the table grows. So a plan must not scan the table even if
// it has only a few rows, which a scan would find faster.
func TestRunFindsRowsByTheirKeys(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	for _, rows := range []int{2, 20_000} {
		_, err := p.Exec(ctx, fmt.Sprintf("TRUNCATE %[1]s; %[2]s; ANALYZE %[1]s", table, fill(table, rows)))
		require.NoError(t, err)
		tx := begin(t, p)
		counts := func() (scans, lookups int) {
			const sql = "SELECT seq_scan, idx_scan FROM pg_stat_xact_user_tables WHERE relid = $1::regclass"
			require.NoError(t, tx.QueryRow(ctx, sql, table).Scan(&scans, &lookups))
			return scans, lookups
		}
		before, _ := counts()
		for range 10 { // the server plans the first five executions separately
			for _, b := range []*driver.Batch{requestEach(t, "a"), requestEach(t, "a", "b"), oneRequest(t, "a", "b")} {
				require.NoError(t, s.RunIn(ctx, tx, b))
			}
		}
		scans, lookups := counts()
		require.Equal(t, before, scans, "%d rows", rows)
		require.GreaterOrEqual(t, lookups, 50)
		require.NoError(t, tx.Rollback(ctx))
	}
}

func fill(table string, rows int) string {
	return fmt.Sprintf(`INSERT INTO %s SELECT convert_to('key ' || i, 'UTF8'), i, '\x00112233445566778899', 'infinity', 'infinity'
		FROM generate_series(1, %d) i`, table, rows)
}

// plan returns the plan of a statement.
func plan(t *testing.T, p *pgxpool.Pool, mode, statement, arguments string) string {
	t.Helper()
	ctx := context.Background()
	for _, statement := range []string{"SET plan_cache_mode = " + mode, "DEALLOCATE ALL", "PREPARE planned AS " + statement} {
		_, err := p.Exec(ctx, statement)
		require.NoError(t, err)
	}
	rows, err := p.Query(ctx, "EXPLAIN EXECUTE planned ("+arguments+")")
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// swapArgs returns the arguments of a swap of n keys.
func swapArgs(keys int) string {
	numbers := "ARRAY[" + strings.TrimSuffix(strings.Repeat("7,", keys), ",") + "]"
	return fmt.Sprintf("%[2]s, %[1]s::bigint[], %[1]s::bigint[], %[2]s, %[1]s::bigint[], %[1]s::bigint[], 500, 1", numbers, loadArgs(keys))
}

// loadArgs returns the arguments of a load of n keys.
func loadArgs(keys int) string {
	var names []string
	for i := range keys {
		names = append(names, fmt.Sprintf("convert_to('key %d', 'UTF8')", 7*i))
	}
	return "ARRAY[" + strings.Join(names, ",") + "]"
}
