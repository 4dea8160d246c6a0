package compose_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// server is a store with a clock of its own.
type server struct {
	storage.Store
	now func() time.Time
}

func newServer(now func() time.Time) *server { return &server{Store: new(memory.Store), now: now} }

func (s *server) LoadNow(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	records, err := s.Load(ctx, keys...)
	return records, s.now(), err
}

// Without a Clock the server's clock decides.
func TestWithoutAClockTheServersDecides(t *testing.T) {
	clock := newVirtual()
	store := newServer(clock.Now)
	l, err := compose.Options[call]{}.New(store, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 3/m")})
	require.NoError(t, err)
	for range 3 {
		d, err := l.Allow(background, call{user: "ann"})
		require.True(t, must(t, d, err).Allowed)
	}
	other, err := compose.New(store, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 3/m")})
	require.NoError(t, err)
	d, err := other.Allow(background, call{user: "ann"})
	require.False(t, must(t, d, err).Allowed)
	require.Equal(t, 20*time.Second, d.RetryAfter)
	clock.advance(20 * time.Second)
	third, err := compose.New(store, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 3/m")})
	require.NoError(t, err)
	d, err = third.Allow(background, call{user: "ann"})
	require.True(t, must(t, d, err).Allowed)
	require.Zero(t, d.Skew)
}

// The reason not to hand in a Clock: an hour's difference is an hour's denial.
func TestACallerWhoseClockIsAheadBlocksTheOthersUntilThen(t *testing.T) {
	clock := newVirtual()
	store := newServer(clock.Now)
	ask := func(ahead time.Duration, spec string) compose.Decision {
		l, err := compose.Options[call]{
			Clock:   func() time.Time { return clock.Now().Add(ahead) },
			MaxSkew: time.Minute,
		}.New(store, compose.Rule[call]{Name: spec, Policy: limitOf(t, spec)})
		require.NoError(t, err)
		d, err := l.AllowN(background, call{}, 3)
		return must(t, d, err)
	}
	for _, spec := range []string{"gcra 3/m", "tokenbucket 3/m", "fixedwindow 3/m", "movingwindow 3/m slots=4 trailing=whole"} {
		d := ask(time.Hour, spec)
		require.True(t, d.Allowed)
		require.NoError(t, d.Err)
		d = ask(0, spec)
		require.ErrorIs(t, d.Err, compose.ErrSkew)
		require.False(t, d.Allowed, spec)
		require.Equal(t, time.Hour, d.Skew.Round(time.Minute), spec)
		require.Equal(t, time.Hour, d.RetryAfter.Truncate(10*time.Minute), spec)
	}
}

// A process whose clock is ahead gets a burst early once, and not again after each quiet gap
// in which the store could drop the record. The gaps are just as long as a TTL.
func TestAClockAheadGetsOneBurstAndNotOneEachGap(t *testing.T) {
	const rounds = 50
	for _, c := range []struct {
		spec string
		gap  time.Duration
	}{
		{"gcra 1/30s", 40 * time.Second},
		{"gcra 3/30m", 30*time.Minute + 10*time.Second},
		{"tokenbucket 3/30m", 30*time.Minute + 10*time.Second},
		{"tokenbucket 3/30m refill=interval", 30*time.Minute + 10*time.Second},
		{"fixedwindow 3/30m", 30*time.Minute + 10*time.Second},
		{"fixedwindow 3/30m align=clock", 30*time.Minute + 10*time.Second},
		{"movingwindow 3/30m slots=6", 35*time.Minute + 10*time.Second},
		{"movingwindow 3/30m slots=6 trailing=whole", 35*time.Minute + 10*time.Second},
		{"all(gcra 3/30m; fixedwindow 4/30m)", 30*time.Minute + 10*time.Second},
	} {
		for name, open := range storesWithAClock {
			t.Run(c.spec+" on "+name, func(t *testing.T) {
				clock, policy := newVirtual(), limitOf(t, c.spec)
				processes := processes(t, open(t, clock.Now), policy, clock, 0, time.Hour)
				round := func() (admitted int64) {
					for _, asks := range processes {
						for asks() {
							admitted++
						}
					}
					return admitted
				}

				burst := policy.Bound(1)
				admitted := round()
				require.LessOrEqual(t, admitted, 2*burst, "a burst by each clock")
				for i := range rounds {
					clock.advance(c.gap)
					admitted += round()
					past := time.Duration(i+1) * c.gap
					require.LessOrEqual(t, admitted, policy.Bound(past+1)+burst, "in %v", past)
				}
			})
		}
	}
}

// The case by numbers: 1 each 30 s, asked every 40 s by both clocks, is 10 in 161 s where
// the store drops a record after its TTL. The bound is 6.
func TestAClockAheadStaysWithinTheBound(t *testing.T) {
	for name, open := range storesWithAClock {
		t.Run(name, func(t *testing.T) {
			clock, policy := newVirtual(), limitOf(t, "gcra 1/30s")
			admitted := int64(0)
			processes := processes(t, open(t, clock.Now), policy, clock, 0, time.Hour)
			for range 5 {
				for _, asks := range processes {
					if asks() {
						admitted++
					}
				}
				clock.advance(40 * time.Second)
			}
			require.EqualValues(t, 6, policy.Bound(161*time.Second))
			require.LessOrEqual(t, admitted, policy.Bound(161*time.Second))
		})
	}
}

// processes are limiters of the same rule on one store, each with its own clock. Each asks for
// one call and reports whether it is allowed.
func processes(t *testing.T, store storage.Store, policy algo.Policy, clock *virtual, ahead ...time.Duration) (asks []func() bool) {
	t.Helper()
	for _, ahead := range ahead {
		now := func() time.Time { return clock.Now().Add(ahead) }
		l, err := compose.Options[call]{Clock: now, Timeout: time.Minute}.New(store, compose.Rule[call]{Name: "shared", Policy: policy})
		require.NoError(t, err)
		asks = append(asks, func() bool {
			d, err := l.Allow(background, call{})
			return must(t, d, err).Allowed
		})
	}
	return asks
}

// storesWithAClock are stores whose records expire by a clock of their own.
var storesWithAClock = map[string]func(t *testing.T, now func() time.Time) storage.Store{
	"swaps in memory": func(_ *testing.T, now func() time.Time) storage.Store {
		return swapOnly{&memory.Store{Clock: now}}
	},
	"SQLite": func(t *testing.T, now func() time.Time) storage.Store {
		db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "limits.db")+"?_journal_mode=WAL&_synchronous=OFF")
		require.NoError(t, err)
		t.Cleanup(func() { db.Close() })
		s, err := sqlite.New(db, sqlite.Options{Clock: now})
		require.NoError(t, err)
		require.NoError(t, s.Migrate(t.Context()))
		return s
	},
}

// realServer is a store on a real server, and what the server says of the records in it.
type realServer struct {
	store storage.Store
	left  func() time.Duration // until the only record expires
}

var realServers = map[string]func(*testing.T) realServer{
	"redis": func(t *testing.T) realServer {
		client := goredis.NewClient(&goredis.Options{Addr: servers.Redis(t).Addr()})
		t.Cleanup(func() { client.Close() })
		s, err := redis.New(client, redis.Options{})
		require.NoError(t, err)
		return realServer{s, func() time.Duration {
			key, err := client.RandomKey(t.Context()).Result()
			require.NoError(t, err)
			left, err := client.PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			return left
		}}
	},
	"postgres": func(t *testing.T) realServer {
		pool, err := pgxpool.New(t.Context(), servers.Postgres(t).DSN())
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		s, err := postgres.New(pool, postgres.Options{})
		require.NoError(t, err)
		require.NoError(t, s.Migrate(t.Context()))
		return realServer{s, func() (left time.Duration) {
			err := pool.QueryRow(t.Context(), "SELECT expires_at - clock_timestamp() FROM "+postgres.DefaultTable).Scan(&left)
			require.NoError(t, err)
			return left
		}}
	},
}

// The server keeps a record for as long as the clock that wrote it is ahead, and longer by
// the TTL. A clock that is behind, or right, leaves the TTL.
func TestARealServerKeepsARecordForTheLeadOfAClock(t *testing.T) {
	const ttl = 40 * time.Second // of a full gcra 1/30s
	for name, open := range realServers {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			for _, c := range []struct{ ahead, want time.Duration }{
				{0, ttl}, {-time.Hour, ttl}, {time.Hour, time.Hour + ttl}, {24 * 365 * time.Hour, 24*365*time.Hour + ttl},
			} {
				l, err := compose.Options[call]{Clock: func() time.Time { return time.Now().Add(c.ahead) }, Timeout: time.Minute}.New(s.store,
					compose.Rule[call]{Name: "shared", Policy: limitOf(t, "gcra 1/30s")})
				require.NoError(t, err)
				began := time.Now()
				d, err := l.Allow(background, call{})
				require.True(t, must(t, d, err).Allowed)
				left := s.left()
				require.LessOrEqual(t, left, c.want+time.Millisecond)
				require.GreaterOrEqual(t, left, c.want-time.Since(began)-time.Millisecond)
				require.NoError(t, l.Reset(background, call{}))
				if name == "postgres" { // which keeps the row of a deletion
					_, err := s.store.(storage.Purger).Purge(background, 1)
					require.NoError(t, err)
				}
			}
		})
	}
}
