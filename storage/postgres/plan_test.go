package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// Swaps and loads find their rows by their keys, in a table that was never analysed as
// well as in one that was. A plan that is made once for all sizes is so even
// where the table was still empty.
func TestRowsAreFoundByTheirKeys(t *testing.T) {
	ctx, p := context.Background(), pool(t, shared.Postgres(t).DSN()+"&default_query_exec_mode=simple_protocol&pool_max_conns=1")
	s, table := fresh(t, p)
	const once, anew = "force_generic_plan", "force_custom_plan"
	for _, c := range []struct {
		prepare string
		modes   []string
	}{
		{"ALTER TABLE " + table + " SET (autovacuum_enabled = off)", []string{once}},
		{fill(table, 20_000), []string{once, anew}},
		{"ANALYZE " + table, []string{once, anew}},
		{"TRUNCATE " + table + "; " + fill(table, 5_000) + "; ANALYZE " + table, []string{once, anew}},
	} {
		_, err := p.Exec(ctx, c.prepare)
		require.NoError(t, err)
		for _, mode := range c.modes {
			for _, keys := range []int{1, 2, 64} {
				for statement, arguments := range map[string]string{
					s.SwapSQL(): swapping(keys), s.LoadSQL(): loading(keys), s.LoadNowSQL(): loading(keys),
					s.SinglesSQL(): deciding(keys), s.SeveralSQL(): decidingTogether(keys),
				} {
					text := plan(t, p, mode, statement, arguments)
					require.NotContains(t, text, "Seq Scan on "+table, "%s, %d keys, after %s", mode, keys, c.prepare)
					require.Contains(t, text, table+"_pkey")
				}
			}
		}
	}
}

// A purge finds what is due by the index, and removes or files it again by the key, whether
// all records are due or none, and whether the server knows so or not.
func TestAPurgeFindsRecordsByAnIndex(t *testing.T) {
	ctx, p := t.Context(), pool(t, shared.Postgres(t).DSN()+"&default_query_exec_mode=simple_protocol&pool_max_conns=1")
	s, table := fresh(t, p)
	const once, anew = "force_generic_plan", "force_custom_plan"
	for _, c := range []struct {
		prepare string
		modes   []string
	}{
		{"ALTER TABLE " + table + " SET (autovacuum_enabled = off)", []string{once}},
		{fill(table, 20_000), []string{once, anew}},
		{"ANALYZE " + table, []string{once, anew}},
		{"UPDATE " + table + " SET expires_at = '2001-01-01', purge_at = '2001-01-01'", []string{once, anew}},
		{"ANALYZE " + table, []string{once, anew}},
	} {
		_, err := p.Exec(ctx, c.prepare)
		require.NoError(t, err)
		for _, mode := range c.modes {
			text := plan(t, p, mode, s.PurgeSQL(), "200, 1000, NULL")
			require.NotContains(t, text, "Seq Scan on "+table, "%s, after %s", mode, c.prepare)
			require.Contains(t, text, "using "+table+"_purge_at")
		}
	}
}

func fill(table string, rows int) string {
	return fmt.Sprintf(`INSERT INTO %s SELECT convert_to('key ' || i, 'UTF8'), i, '\x00112233445566778899', 'infinity', 'infinity'
		FROM generate_series(1, %d) i`, table, rows)
}

// plan explains a statement.
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

// swapping is the arguments of a swap of so many keys.
func swapping(keys int) string {
	numbers := "ARRAY[" + strings.TrimSuffix(strings.Repeat("7,", keys), ",") + "]"
	return fmt.Sprintf("%[2]s, %[1]s::bigint[], %[1]s::bigint[], %[2]s, %[1]s::bigint[], %[1]s::bigint[], 500, 1", numbers, loading(keys))
}

// deciding is the arguments of a batch with a request for each of so many keys.
func deciding(keys int) string {
	return fmt.Sprintf("0, 7, NULL, 0, %[2]s, %[1]s, %[1]s, %[1]s, %[1]s, %[1]s::bigint[], %[1]s::bigint[], '{1,2,3,4}'", ones(keys), loading(keys))
}

// decidingTogether is the same in one request.
func decidingTogether(keys int) string {
	return fmt.Sprintf("0, 7, NULL, 0, %[2]s, %[1]s, %[1]s, %[1]s, %[1]s, %[1]s, %[1]s, %[1]s, %[1]s::bigint[], %[1]s::bigint[], '{1,2,3,4}'", ones(keys), loading(keys))
}

func ones(n int) string { return "ARRAY[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

// loading is the arguments of a load of so many keys.
func loading(keys int) string {
	var names []string
	for i := range keys {
		names = append(names, fmt.Sprintf("convert_to('key %d', 'UTF8')", 7*i))
	}
	return "ARRAY[" + strings.Join(names, ",") + "]"
}
