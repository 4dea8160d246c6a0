package postgres_test

import (
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
	p := newPool(t, "&default_query_exec_mode=simple_protocol&pool_max_conns=1")
	s, table := newStore(t, p)
	type statement struct{ sql, arguments, index string }
	statements := []statement{{s.PurgeSQL(), "200, 1000, NULL", "using " + table + "_purge_at"}}
	for _, keys := range []int{1, 2, 64} {
		statements = append(statements, statement{s.SwapSQL(), swapArgs(keys), table + "_pkey"}, statement{s.LoadSQL(), loadArgs(keys), table + "_pkey"})
	}
	modes := []string{"force_generic_plan", "force_custom_plan"}
	for i, prepare := range []string{
		"ALTER TABLE " + table + " SET (autovacuum_enabled = off)",
		fill(table, 20_000),
		"ANALYZE " + table,
		"UPDATE " + table + " SET expires_at = '2001-01-01', purge_at = '2001-01-01'",
		"ANALYZE " + table,
		"TRUNCATE " + table + "; " + fill(table, 5_000) + "; ANALYZE " + table,
	} {
		exec(t, p, prepare)
		for _, mode := range modes[:min(i+1, 2)] { // a custom plan may scan the empty table
			for _, statement := range statements {
				text := plan(t, p, mode, statement.sql, statement.arguments)
				require.NotContains(t, text, "Seq Scan on "+table, "%s, after %s", mode, prepare)
				require.Contains(t, text, statement.index)
			}
		}
	}
}

// A connection keeps the plans of a batch while the table grows. So a plan must not scan the table even if
// it has only a few rows, which a scan would find faster.
func TestRunFindsRowsByTheirKeys(t *testing.T) {
	p := newPool(t, "")
	s, table := newStore(t, p)
	for _, rows := range []int{2, 20_000} {
		exec(t, p, fmt.Sprintf("TRUNCATE %[1]s; %[2]s; ANALYZE %[1]s", table, fill(table, rows)))
		tx := begin(t, p)
		count := func(column string) int {
			return selected[int](t, tx, "SELECT "+column+" FROM pg_stat_xact_user_tables WHERE relid = $1::text::regclass", table)
		}
		before := count("seq_scan")
		for range 10 { // the server plans the first five executions separately
			for _, b := range []*driver.Batch{requestEach("a"), requestEach("a", "b"), oneRequest("a", "b")} {
				require.NoError(t, s.RunIn(t.Context(), tx, b))
			}
		}
		require.Equal(t, before, count("seq_scan"), "%d rows", rows)
		require.GreaterOrEqual(t, count("idx_scan"), 50)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

func fill(table string, rows int) string {
	return fmt.Sprintf(`INSERT INTO %s SELECT convert_to('key ' || i, 'UTF8'), i, '\x00112233445566778899', 'infinity', 'infinity'
		FROM generate_series(1, %d) i`, table, rows)
}

// plan returns the plan of a statement.
func plan(t *testing.T, p *pgxpool.Pool, mode, statement, arguments string) string {
	t.Helper()
	for _, statement := range []string{"SET plan_cache_mode = " + mode, "DEALLOCATE ALL", "PREPARE planned AS " + statement} {
		exec(t, p, statement)
	}
	rows, err := p.Query(t.Context(), "EXPLAIN EXECUTE planned ("+arguments+")")
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// swapArgs returns the arguments of a swap of n keys.
func swapArgs(keys int) string {
	numbers := "ARRAY[" + strings.TrimSuffix(strings.Repeat("7,", keys), ",") + "]"
	return fmt.Sprintf("%[2]s, %[1]s::bigint[], %[1]s::bigint[], %[2]s, %[1]s::bigint[], 500", numbers, loadArgs(keys))
}

// loadArgs returns the arguments of a load of n keys.
func loadArgs(keys int) string {
	var names []string
	for i := range keys {
		names = append(names, fmt.Sprintf("convert_to('key %d', 'UTF8')", 7*i))
	}
	return "ARRAY[" + strings.Join(names, ",") + "]"
}
