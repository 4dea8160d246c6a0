package compose_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// inPlace hides that a store is one in memory, so that the limiter has no fast path.
type inPlace struct{ driver.InPlace }

// everyWay opens a store for every way in which decisions are made. The first one is the one that
// the others are held to.
func everyWay(t *testing.T, clock func() time.Time) (names []string, stores []storage.Store) {
	add := func(name string, store storage.Store) { names, stores = append(names, name), append(stores, store) }
	add("memory", &memory.Store{Clock: clock})
	add("memory through the engine", inPlace{&memory.Store{Clock: clock}})
	add("swaps", swapOnly{&memory.Store{Clock: clock}})

	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "limits.db")+"?_journal_mode=WAL&_synchronous=OFF")
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	file, err := sqlite.New(db, sqlite.Options{Clock: clock})
	require.NoError(t, err)
	require.NoError(t, file.Migrate(t.Context()))
	add("SQLite", file)

	client := goredis.NewClient(&goredis.Options{Addr: servers.Redis(t).Addr()})
	t.Cleanup(func() { client.Close() })
	script, err := redis.New(client, redis.Options{})
	require.NoError(t, err)
	inScripts := &countedRedis{Store: script}
	add("Redis", inScripts)

	pool, err := pgxpool.New(t.Context(), servers.Postgres(t).DSN())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	table, err := postgres.New(pool, postgres.Options{})
	require.NoError(t, err)
	require.NoError(t, table.Migrate(t.Context()))
	inStatements := &countedPostgres{Store: table}
	add("Postgres", inStatements)
	return names, stores
}

// counted is how many requests a server decided, and how many it declined.
type counted struct{ decided, declined int }

func (c *counted) add(batches []*driver.Batch) {
	for _, b := range batches {
		for _, r := range b.Requests {
			if c.decided++; r.Applied == driver.Declined {
				c.declined++
			}
		}
	}
}

func (c *counted) check(t *testing.T, name string) {
	require.Greater(t, c.decided, 1000, "%s decided too few requests to prove much", name)
	require.Less(t, c.declined, c.decided/4, "%s declined too many requests", name)
	t.Logf("%s decided %d requests and declined %d of them", name, c.decided, c.declined)
}

type countedRedis struct {
	*redis.Store
	counted
}

func (s *countedRedis) Run(ctx context.Context, batches ...*driver.Batch) {
	s.Store.Run(ctx, batches...)
	s.add(batches)
}

type countedPostgres struct {
	*postgres.Store
	counted
}

func (s *countedPostgres) Run(ctx context.Context, batches ...*driver.Batch) {
	s.Store.Run(ctx, batches...)
	s.add(batches)
}

// caller makes the same calls by limiters on every store.
type caller struct {
	*testing.T
	random   *rand.Rand
	names    []string
	limiters []*compose.Limiter[call]
	open     [][]*compose.Reservation[call] // of each limiter, in the same order
	rules    []compose.Rule[call]
	done     []string // for the message of a failure
	counts   map[string]int
}

// Whatever is asked, every way gives the same answer in every field.
func TestEveryWayDecidesTheSame(t *testing.T) {
	const runs, calls = 50, 60
	clock := newVirtual()
	names, stores := everyWay(t, clock.Now)
	counts := make(map[string]int)
	for run := range runs {
		c := &caller{T: t, random: rand.New(rand.NewPCG(uint64(run), 1)), names: names, counts: counts}
		clock.now = time.Unix(1_700_000_000+c.random.Int64N(1e6), c.random.Int64N(1e9))
		c.rules = c.randomRules()
		for _, store := range stores {
			l, err := compose.Options[call]{
				Namespace: fmt.Sprint("run ", run), Clock: clock.Now, Timeout: time.Minute,
				DenialCacheTTL: time.Duration(-(run % 2)), // in one half nothing is cached
			}.New(store, c.rules...)
			require.NoError(t, err)
			c.limiters = append(c.limiters, l)
		}
		c.open = make([][]*compose.Reservation[call], len(stores))
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
	for kind, least := range map[string]int{"allowed": 1000, "denied": 1000, "error": 20, "settled": 100, "shadow denied": 100} {
		require.Greater(t, counts[kind], least, "too few are %s to prove much: %v", kind, counts)
	}
}

// specs have options that are usual, tiny and huge.
var specs = []string{
	"gcra 5/s", "gcra 100/m burst=7", "gcra 1/s", "gcra 1/876000h", "gcra 1000000000/s", "gcra 9007199254740993/h", "gcra 7/3ns", "gcra 3000/h burst=1000007",
	"tokenbucket 5/s", "tokenbucket 10/m refill=interval", "tokenbucket 1/s burst=3", "tokenbucket 4611686018427387904/876000h", "tokenbucket 7/ms burst=1",
	"fixedwindow 5/s", "fixedwindow 20/m align=clock", "fixedwindow 3/h align=clock offset=7m", "fixedwindow 9007199254740991/24h", "fixedwindow 1/ns",
	"movingwindow 6/s", "movingwindow 12/m slots=4", "movingwindow 5/s slots=5 trailing=whole", "movingwindow 1000000000000/h slots=60",
	"all(gcra 5/s; gcra 20/m)", "all(fixedwindow 4/s; tokenbucket 9/m; movingwindow 30/h slots=3)", "all(gcra 2/s; gcra 1000000007/876000h)",
}

func (c *caller) randomRules() (rules []compose.Rule[call]) {
	for i := range 1 + c.random.IntN(3) {
		spec := specs[c.random.IntN(len(specs))]
		policy, err := compose.ParsePolicy(spec)
		require.NoError(c, err, spec)
		r := compose.Rule[call]{Name: fmt.Sprint(i, " ", spec), Policy: policy, Shadow: c.random.IntN(4) == 0}
		if c.random.IntN(3) > 0 {
			r.Key = byUser
		}
		if c.random.IntN(3) == 0 {
			r.Cost = func(in call) int64 { return in.cost }
		}
		rules = append(rules, r)
	}
	return rules
}

// randomStep is by how much the clock goes on, or back.
func (c *caller) randomStep() time.Duration {
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

func (c *caller) randomCount() int64 {
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

// answer is what a call gave.
type answer struct {
	decision compose.Decision
	err      error
}

// call makes one call by every limiter, and compares the answers.
func (c *caller) call() {
	in := call{user: fmt.Sprint(c.random.IntN(2)), cost: c.random.Int64N(4)}
	if c.random.IntN(12) == 0 {
		in.cost = c.randomCount()
	}
	if c.random.IntN(40) == 0 {
		in.cost = -1
	}
	n, op := c.randomCount(), c.random.IntN(20)
	which := c.random.IntN(1 << 20)
	c.done = append(c.done, fmt.Sprint("op ", op, " n ", n, " in ", in))
	want := c.ask(0, op, in, n, which)
	c.count(want)
	for i := 1; i < len(c.limiters); i++ {
		c.compare(c.names[i], want, c.ask(i, op, in, n, which))
	}
}

func (c *caller) ask(i, op int, in call, n int64, which int) (a answer) {
	l := c.limiters[i]
	switch op {
	default:
		a.decision, a.err = l.AllowN(background, in, n)
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
		var r *compose.Reservation[call]
		if r, a.decision, a.err = l.Reserve(background, in, n); r != nil {
			c.open[i] = append(c.open[i], r)
		}
	case 18, 19:
		if len(c.open[i]) == 0 {
			return a
		}
		at := which % len(c.open[i])
		r := c.open[i][at]
		c.open[i] = slices.Delete(c.open[i], at, at+1)
		if op == 18 {
			a.decision, a.err = r.Settle(background, n-1)
		} else {
			a.decision, a.err = r.SettleFor(background, in)
		}
		if i == 0 {
			c.counts["settled"]++
		}
	}
	return a
}

func (c *caller) count(a answer) {
	switch {
	case a.err != nil:
		c.counts["error"]++
	case a.decision.Allowed:
		c.counts["allowed"]++
	default:
		c.counts["denied"]++
	}
	for _, r := range a.decision.Results {
		if r.Shadow && !r.Allowed {
			c.counts["shadow denied"]++
		}
	}
}

// compare requires the same answer, but for what says how it was found.
func (c *caller) compare(name string, want, got answer) {
	c.Helper()
	want.decision.Attempts, got.decision.Attempts = 0, 0
	want.decision.Cached, got.decision.Cached = false, false
	if fmt.Sprint(want.err) != fmt.Sprint(got.err) || errors.Is(want.err, algo.ErrCost) != errors.Is(got.err, algo.ErrCost) {
		require.FailNow(c, "the error differs", "%s: want %v, got %v\nrules %v\ncalls %v", name, want.err, got.err, c.rules, c.done)
	}
	if fmt.Sprintf("%+v", want.decision) != fmt.Sprintf("%+v", got.decision) {
		require.Equal(c, want.decision, got.decision, "%s\nrules %v\ncalls %v", name, c.rules, c.done)
	}
}

// A refund that makes every part of a stack full leaves no record, also if a part was full before.
func TestEveryWayForgetsAStackThatIsFullAgain(t *testing.T) {
	clock := newVirtual()
	names, stores := everyWay(t, clock.Now)
	began := clock.now
	for i, store := range stores {
		clock.now = began
		l, err := compose.Options[call]{Clock: clock.Now, Timeout: time.Minute}.New(store,
			compose.Rule[call]{Name: "stack", Policy: limitOf(t, "all(gcra 5/s; gcra 20/m)")})
		require.NoError(t, err)
		d, err := l.Allow(background, call{})
		require.True(t, must(t, d, err).Allowed)
		clock.advance(300 * time.Millisecond) // the first part is full again
		d, err = l.Refund(background, call{}, 1)
		must(t, d, err)
		records, err := store.Load(background, driver.Key("", "", "stack", ""))
		require.NoError(t, err)
		require.Zero(t, records[0], names[i])
	}
}
