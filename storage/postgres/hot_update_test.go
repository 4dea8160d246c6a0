package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// creatingFor returns swaps that create n records with a TTL.
func creatingFor(n int, ttl time.Duration) []storage.Swap {
	swaps := make([]storage.Swap, n)
	for i := range swaps {
		swaps[i] = creating(fmt.Sprint("key ", i))[0]
		swaps[i].TTL = ttl
	}
	return swaps
}

// updates returns how many rows of a table a transaction has updated, and how many of them with HOT updates.
func updates(t *testing.T, tx pgx.Tx, table string) []int {
	t.Helper()
	return selected[[]int](t, tx, "SELECT ARRAY[pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c)] FROM CAST($1::text AS regclass) AS c", table)
}

// A HOT update writes no index.
func TestSwapOfAnExistingRecordIsAHotUpdate(t *testing.T) {
	const records, hour = 20, time.Hour // a page has space for twice as many
	for name, c := range map[string]struct {
		from, to time.Duration
		age      string
		hot      int
	}{
		"the same TTL":          {from: hour, to: hour, age: "0", hot: records},
		"for ever":              {from: hour, to: 0, age: "0", hot: records},
		"a shorter TTL":         {from: 2 * hour, to: hour, age: "0"},
		"a TTL after none":      {from: 0, to: hour, age: "0"},
		"over what has expired": {from: hour, to: hour, age: "2 hours", hot: records},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, "")
			s, table := newStore(t, p)
			swaps := creatingFor(records, c.from)
			swap(t, s, swaps)
			exec(t, p, "UPDATE "+table+" SET expires_at = expires_at - $1::text::interval, purge_at = purge_at - $1::text::interval", c.age)
			exec(t, p, "VACUUM "+table) // frees space in the page
			swaps = updating(swaps)
			for i := range swaps {
				if swaps[i].TTL = c.to; c.age != "0" {
					swaps[i].Old = 0
				}
			}
			tx := begin(t, newPool(t, "")) // a session whose counters are 0
			swap(t, storeIn(t, tx, table), swaps)
			require.Equal(t, []int{records, c.hot}, updates(t, tx, table))
		})
	}
}

// A denied request writes nothing.
func TestRunOnExistingRecordsIsAHotUpdate(t *testing.T) {
	const records = 20
	p := newPool(t, "")
	for _, batch := range []func(...string) *driver.Batch{requestEach, oneRequest} {
		s, table := newStore(t, p)
		var keys []string
		for i := range records {
			keys = append(keys, fmt.Sprint("key ", i))
		}
		for range 2 { // the second batch uses up the limits
			exec(t, p, "VACUUM "+table)
			run(t, s, batch(keys...))
		}
		for _, want := range [][]int{{records, records}, {0, 0}} {
			tx := begin(t, newPool(t, ""))
			exec(t, tx, "SELECT 1")
			b := batch(keys...)
			if want[0] > 0 { // after a refill
				b.Now = time.Now().Add(time.Hour)
			}
			require.NoError(t, s.RunIn(t.Context(), tx, b))
			require.Equal(t, want, updates(t, tx, table))
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}
