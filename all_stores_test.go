package sluice_test

// The tests of this package promise:
//   - a call is charged under all of its rules or under none, and a shadow rule denies nothing;
//   - a settled reservation leaves the actual cost in the store, also after failures;
//   - an outage is an error or a Degraded decision, never a denial;
//   - nobody gets around a limit by creating many keys, or by the clocks of several processes.
//
// Each file says more at its top. The tests of this file promise that a limiter returns the same
// decisions on every store, and in every way to decide: in place, by swaps, in a transaction, and by
// a program on the server.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// allStores opens a store for every way to make a decision. The first one is the reference.
func allStores(t *testing.T, clock func() time.Time) (names []string, stores []storage.Store) {
	add := func(name string, store storage.Store) { names, stores = append(names, name), append(stores, store) }
	add("memory", &memory.Store{Clock: clock})
	add("memory by the engine", transactor{&memory.Store{Clock: clock}})
	add("swaps", swapOnly{&memory.Store{Clock: clock}})
	add("SQLite", openSQLite(t, clock))
	redisStore, _ := openRedis(t)
	add("Redis", &countingServer{Server: redisStore})
	postgresStore, _ := openPostgres(t)
	add("PostgreSQL", &countingServer{Server: postgresStore})
	return names, stores
}

func openSQLite(t *testing.T, clock func() time.Time) *sqlite.Store {
	store, _ := openSQLiteDB(t, clock)
	return store
}

func openSQLiteDB(t *testing.T, clock func() time.Time) (*sqlite.Store, *sql.DB) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "limits.db")+"?_journal_mode=WAL&_synchronous=OFF")
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	store, err := sqlite.New(db, sqlite.Options{Clock: clock})
	require.NoError(t, err)
	require.NoError(t, store.Migrate(t.Context()))
	return store, db
}

func openRedis(t *testing.T) (*redis.Store, *goredis.Client) {
	client := goredis.NewClient(&goredis.Options{Addr: servers.Redis(t).Addr()})
	t.Cleanup(func() { client.Close() })
	store, err := redis.New(client, redis.Options{})
	require.NoError(t, err)
	return store, client
}

func openPostgres(t *testing.T) (*postgres.Store, *pgxpool.Pool) {
	pool, err := pgxpool.New(t.Context(), servers.Postgres(t).DSN())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := postgres.New(pool, postgres.Options{})
	require.NoError(t, err)
	require.NoError(t, store.Migrate(t.Context()))
	return store, pool
}

// serverStores opens the stores whose servers decide.
func serverStores(t *testing.T) map[string]storage.Store {
	redisStore, _ := openRedis(t)
	postgresStore, _ := openPostgres(t)
	return map[string]storage.Store{"Redis": redisStore, "PostgreSQL": postgresStore}
}

// serverCounts has how many requests a server decided, and how many of them it declined.
type serverCounts struct {
	mu                sync.Mutex
	decided, declined int
}

func (c *serverCounts) add(batches []*driver.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range batches {
		for _, r := range b.Requests {
			if c.decided++; r.Applied == driver.Declined {
				c.declined++
			}
		}
	}
}

func (c *serverCounts) check(t *testing.T, name string) {
	require.Greater(t, c.decided, 1000, "%s decided too few requests", name)
	require.Less(t, c.declined, c.decided/4, "%s declined too many requests", name)
	t.Logf("%s decided %d requests and declined %d of them", name, c.decided, c.declined)
}

type countingServer struct {
	driver.Server
	serverCounts
}

func (s *countingServer) Run(ctx context.Context, batches ...*driver.Batch) {
	s.Server.Run(ctx, batches...)
	s.add(batches)
}

// differential makes the same calls by a limiter on each store.
type differential struct {
	*testing.T
	random   *rand.Rand
	names    []string
	limiters []*sluice.Limiter[call]
	reserved [][]*sluice.Reservation[call] // the open reservations of each limiter, in the same order
	rules    []sluice.Rule[call]
	done     []string // the calls so far, for messages
	counts   map[string]int
}

// All stores return the same decision in every field, for random rules, calls and times.
func TestAllStoresDecideAlike(t *testing.T) {
	const runs, calls = 30, 100
	clock := newClock()
	names, stores := allStores(t, clock.Now)
	counts := make(map[string]int)
	for run := range runs {
		c := &differential{T: t, random: rand.New(rand.NewPCG(uint64(run), 1)), names: names, counts: counts}
		clock.now = time.Unix(1_700_000_000+c.random.Int64N(1e6), c.random.Int64N(1e9))
		c.rules = c.randomRules()
		for _, store := range stores {
			l, err := sluice.Options[call]{
				Namespace: fmt.Sprint("run ", run), Clock: clock.Now, Timeout: time.Minute,
				MaxSkew: time.Second, DenialCacheTTL: time.Duration(-(run % 2)), // every other run without a cache
			}.New(store, c.rules...)
			require.NoError(t, err)
			c.limiters = append(c.limiters, l)
		}
		c.reserved = make([][]*sluice.Reservation[call], len(stores))
		for range calls {
			clock.advance(c.randomStep())
			c.call()
		}
	}
	for i, store := range stores {
		if s, ok := store.(interface{ check(*testing.T, string) }); ok {
			s.check(t, names[i])
		}
	}
	for kind, least := range map[string]int{"allowed": 600, "denied": 600, "error": 12, "settled": 60, "shadow denied": 60, "skipped": 12, "released": 30, "renewed": 20, "granted in part": 20} {
		require.Greater(t, counts[kind], least, "too few calls are %s: %v", kind, counts)
	}
}

// specs have usual, tiny and huge options.
var specs = []string{
	"gcra 5/s", "gcra 100/m burst=7", "gcra 1/s", "gcra 1/613200h", "gcra 1000000000/s", "gcra 1099511627776/h", "gcra 7/3us", "gcra 3000/h burst=1000007",
	"tokenbucket 5/s", "tokenbucket 10/m refill=interval", "tokenbucket 1/s burst=3", "tokenbucket 7/613200h", "tokenbucket 7/ms burst=1",
	"fixedwindow 5/s", "fixedwindow 20/m align=clock", "fixedwindow 3/h align=clock offset=7m", "fixedwindow 1099511627776/24h", "fixedwindow 1/us",
	"movingwindow 6/s", "movingwindow 12/m slots=4", "movingwindow 5/s slots=5 trailing=whole", "movingwindow 1000000000000/h slots=60",
	"penalty(fixedwindow 3/s; for=10s)", "calendar 5/day", "calendar 20/month tz=America/Sao_Paulo", "inflight 3 ttl=30s", "inflight 20 ttl=1h slots=3", "inflight 1099511627776 ttl=1m",
	"all(gcra 5/s; gcra 20/m)", "all(fixedwindow 4/s; tokenbucket 9/m; movingwindow 30/h slots=3)", "all(gcra 2/s; gcra 3/613200h)",
}

func (c *differential) randomRules() (rules []sluice.Rule[call]) {
	for i := range 1 + c.random.IntN(3) {
		spec := specs[c.random.IntN(len(specs))]
		policy, err := compose.ParsePolicy(spec)
		require.NoError(c, err, spec)
		r := sluice.Rule[call]{Name: fmt.Sprint(i, " ", spec), Policy: policy, Shadow: c.random.IntN(4) == 0}
		if c.random.IntN(3) > 0 {
			r.Key = byUser
		}
		if c.random.IntN(6) == 0 {
			r.Policy, r.PolicyFor = nil, func(in call) (algo.Policy, error) {
				if in.write {
					return nil, sluice.Skip
				}
				return policy, nil
			}
		}
		if c.random.IntN(3) == 0 {
			r.Cost = func(in call) int64 { return in.cost }
		}
		rules = append(rules, r)
	}
	return rules
}

// randomStep returns how far the clock moves, which can be backwards.
func (c *differential) randomStep() time.Duration {
	switch c.random.IntN(12) {
	case 0:
		return -time.Duration(c.random.Int64N(int64(3 * time.Second)))
	case 1:
		return time.Duration(c.random.Int64N(int64(2 * time.Hour)))
	case 2:
		return time.Duration(c.random.Int64N(5))
	case 3, 4:
		return time.Duration(1+c.random.Int64N(3)) * time.Second
	case 5, 6, 7:
		return 0
	}
	return time.Duration(c.random.Int64N(int64(300 * time.Millisecond)))
}

func (c *differential) randomCount() int64 {
	huge := []int64{1 << 31, 1<<53 - 1, 1 << 53, math.MaxInt64 - 1, math.MaxInt64}
	switch c.random.IntN(20) {
	case 0:
		return huge[c.random.IntN(len(huge))]
	case 1:
		return 1 + c.random.Int64N(1e9)
	case 2, 3, 4, 5:
		return 1 + c.random.Int64N(10)
	}
	return 1
}

// answer is the result of a call.
type answer struct {
	calls    int64 // of AllowUpTo
	decision sluice.Decision
	err      error
}

// call makes one call by every limiter, and compares the answers.
func (c *differential) call() {
	in := call{user: fmt.Sprint(c.random.IntN(2)), cost: c.random.Int64N(4), write: c.random.IntN(4) == 0}
	if c.random.IntN(12) == 0 {
		in.cost = c.randomCount()
	}
	if c.random.IntN(40) == 0 {
		in.cost = -1
	}
	n, op := c.randomCount(), c.random.IntN(25)
	which := c.random.IntN(1 << 20)
	c.done = append(c.done, fmt.Sprint("op ", op, " n ", n, " in ", in))
	want := c.answer(0, op, in, n, which)
	c.count(want)
	for i := 1; i < len(c.limiters); i++ {
		c.compare(c.names[i], want, c.answer(i, op, in, n, which))
	}
}

func (c *differential) answer(i, op int, in call, n int64, which int) (a answer) {
	l := c.limiters[i]
	switch op {
	default:
		a.decision, a.err = l.AllowN(background, in, n)
	case 22, 23, 24:
		a.calls, a.decision, a.err = l.AllowUpTo(background, in, n)
		if i == 0 && a.calls > 0 && a.calls < n {
			c.counts["granted in part"]++
		}
	case 12:
		a.decision, a.err = l.PeekN(background, in, n)
	case 13:
		a.decision, a.err = l.Refund(background, in, n)
	case 14:
		a.decision, a.err = l.Charge(background, in, n)
	case 15:
		if rule := which % (len(c.rules) + 1); rule < len(c.rules) {
			a.err = l.ResetRule(background, c.rules[rule].Name, in)
		} else {
			a.err = l.Reset(background, in)
		}
	case 16, 17:
		var r *sluice.Reservation[call]
		if r, a.decision, a.err = l.Reserve(background, in, n); r != nil {
			c.reserved[i] = append(c.reserved[i], r)
		}
	case 18, 19, 20, 21:
		if len(c.reserved[i]) == 0 {
			return a
		}
		at := which % len(c.reserved[i])
		r := c.reserved[i][at]
		if op < 20 {
			c.reserved[i] = slices.Delete(c.reserved[i], at, at+1)
		}
		kind := "settled"
		switch op {
		case 18:
			a.decision, a.err = r.Settle(background, n-1)
		case 19:
			a.decision, a.err = r.SettleFor(background, in)
		case 20:
			a.err, kind = r.Release(background), "released"
		case 21:
			a.err, kind = r.Renew(background), "renewed"
		}
		if i == 0 {
			c.counts[kind]++
		}
	}
	return a
}

func (c *differential) count(a answer) {
	switch {
	case a.err != nil:
		c.counts["error"]++
	case a.decision.Allowed:
		c.counts["allowed"]++
	default:
		c.counts["denied"]++
	}
	if len(a.decision.Results) < len(c.rules) {
		c.counts["skipped"]++
	}
	for _, r := range a.decision.Results {
		if r.Shadow && !r.Allowed {
			c.counts["shadow denied"]++
		}
	}
}

// compare requires equal answers, apart from Attempts and Cached.
func (c *differential) compare(name string, want, got answer) {
	c.Helper()
	want.decision.Attempts, got.decision.Attempts = 0, 0
	want.decision.Cached, got.decision.Cached = false, false
	if fmt.Sprint(want.err) != fmt.Sprint(got.err) || errors.Is(want.err, algo.ErrCost) != errors.Is(got.err, algo.ErrCost) {
		require.FailNow(c, "the error differs", "%s: want %v, got %v\nrules %v\ncalls %v", name, want.err, got.err, c.rules, c.done)
	}
	require.Equal(c, want.calls, got.calls, "%s\nrules %v\ncalls %v", name, c.rules, c.done)
	if fmt.Sprintf("%+v", want.decision) != fmt.Sprintf("%+v", got.decision) {
		require.Equal(c, want.decision, got.decision, "%s\nrules %v\ncalls %v", name, c.rules, c.done)
	}
}

func TestFullRefundOfAStackDeletesTheRecord(t *testing.T) {
	clock := newClock()
	names, stores := allStores(t, clock.Now)
	began := clock.now
	for i, store := range stores {
		clock.now = began
		l := newLimiter(t, sluice.Options[call]{Clock: clock.Now, Timeout: time.Minute}, store, sluice.Rule[call]{Name: "stack", Spec: "all(gcra 5/s; gcra 20/m)"})
		require.True(t, must(t)(l.Allow(background, call{})).Allowed)
		clock.advance(300 * time.Millisecond) // the first part is full again
		must(t)(l.Refund(background, call{}, 1))
		records, _, err := store.Load(background, keyText("", "stack", "all(gcra/m,gcra/s)", ""))
		require.NoError(t, err)
		require.Zero(t, records[0], names[i])
	}
}
