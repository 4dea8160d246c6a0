package sluice_test

// These tests promise that a policy of another kind has records of its own under the name of a rule, and that a policy of the same
// kind continues with the stored units.

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// kindChanges are the specs of one rule, one after the other, and the units that remain of each.
var kindChanges = []struct {
	spec string
	left int64 // before the call, which takes 3 units
}{
	{"gcra 10/h", 10},
	{"tokenbucket 10/h", 10},
	{"all(gcra 10/h; fixedwindow 20/d)", 10},
	{"all(fixedwindow 20/d; gcra 10/h)", 7},         // the order of the parts does not matter
	{"all(fixedwindow 19/d; gcra 11/h burst=9)", 3}, // nor do the counts
	{"all(fixedwindow 20/h; gcra 10/h)", 10},        // but the periods do
	{"all(gcra 10/h; fixedwindow 20/h; gcra 10/s)", 10},
	{"movingwindow 10/h", 10},
	{"fixedwindow 10/h", 10},
	{"penalty(gcra 10/h; for=1m)", 10},
	{"calendar 10/year", 10}, // a limiter keeps fewer texts than there were kinds
	{"gcra 9/h", 6},          // the records of the first policy are still there
	{"tokenbucket 20/d", 17},
}

func TestPolicyOfAnotherKindHasItsOwnRecords(t *testing.T) {
	clock := newClock()
	names, stores := allStores(t, clock.Now)
	for i, store := range stores {
		var spec string
		changing := sluice.Rule[call]{Name: "user", Key: byUser, PolicyFor: func(call) (algo.Policy, error) { return mustPolicy(spec), nil }}
		byPolicyFor := newLimiter(t, sluice.Options[call]{Namespace: "PolicyFor", Clock: clock.Now, Timeout: time.Minute}, store, changing)
		for _, c := range kindChanges {
			spec = c.spec
			rule := sluice.Rule[call]{Name: "user", Key: byUser, Spec: spec}
			bySpec := newLimiter(t, sluice.Options[call]{Clock: clock.Now, Timeout: time.Minute}, store, rule)
			for _, l := range []*sluice.Limiter[call]{bySpec, byPolicyFor} {
				d := must(t)(l.AllowN(background, ann, 3))
				require.Equal(t, c.left >= 3, d.Allowed, "%s: %s", names[i], spec)
				require.Equal(t, c.left-3, d.Remaining, "%s: %s", names[i], spec)
			}
		}
	}
}

// Operators can find keys with these patterns and statements.
func TestKeysOfARuleCanBeListed(t *testing.T) {
	redisStore, client := openRedis(t)
	postgresStore, pool := openPostgres(t)
	sqliteStore, db := openSQLiteDB(t, nil)
	for _, store := range []storage.Store{redisStore, postgresStore, sqliteStore} {
		for _, name := range []string{"login", "login2", "log"} {
			l := newLimiter(t, sluice.Options[call]{Namespace: "shop"}, store, sluice.Rule[call]{Name: name, Key: byUser, Spec: "gcra 5/h"})
			for _, user := range []string{"alice", "2001:db8::1", "\x00%é"} {
				must(t)(l.Allow(background, call{user: user}))
			}
		}
	}
	grouped := newLimiter(t, sluice.Options[call]{Namespace: "shop", Group: byResource}, redisStore, sluice.Rule[call]{Name: "login", Key: byUser, Spec: "gcra 5/h"})
	must(t)(grouped.Allow(background, call{user: "alice", resource: "tenant-7"}))

	want := []string{"shop:login:gcra:%00%25é", "shop:login:gcra:2001:db8::1", "shop:login:gcra:alice"}
	keys, _, err := client.Scan(background, 0, "sluice:shop:login:*", 1000).Result()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"sluice:" + want[0], "sluice:" + want[1], "sluice:" + want[2]}, keys)
	keys, _, err = client.Scan(background, 0, "sluice:{*}shop:login:*", 1000).Result()
	require.NoError(t, err)
	require.Equal(t, []string{"sluice:{tenant-7}shop:login:gcra:alice"}, keys)

	rows, err := pool.Query(background, "SELECT convert_from(key, 'UTF8') FROM sluice_states WHERE key >= 'shop:login:' AND key < 'shop:login;'")
	require.NoError(t, err)
	keys, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.ElementsMatch(t, want, keys)

	var found string
	row := db.QueryRow("SELECT group_concat(CAST(key AS TEXT), ' ') FROM sluice_states" +
		" WHERE key >= CAST('shop:login:' AS BLOB) AND key < CAST('shop:login;' AS BLOB)")
	require.NoError(t, row.Scan(&found))
	require.ElementsMatch(t, want, strings.Fields(found))
}
