package sluice_test

// These tests promise which clock decides, and what is admitted if clocks disagree.

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
)

// clockedStore is a store with a server clock.
type clockedStore struct {
	storage.Store
	now func() time.Time
}

func (s *clockedStore) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	records, _, err := s.Store.Load(ctx, keys...)
	return records, s.now(), err
}

func TestClockOfTheServerDecidesByDefault(t *testing.T) {
	clock := newClock()
	store := &clockedStore{new(memory.Store), clock.Now}
	allow := func() sluice.Decision {
		l := newLimiter(t, sluice.Options[call]{}, store, rulesOf("gcra 3/m")...)
		return must(t)(l.Allow(background, ann))
	}
	for range 3 {
		require.True(t, allow().Allowed)
	}
	d := allow()
	require.False(t, d.Allowed)
	require.Equal(t, 20*time.Second, d.RetryAfter)
	clock.advance(20 * time.Second)
	d = allow()
	require.True(t, d.Allowed)
	require.Zero(t, d.Skew)
}

func TestClockThatIsAheadDeniesOthersAndShowsAsSkew(t *testing.T) {
	clock := newClock()
	store := &clockedStore{new(memory.Store), clock.Now}
	allow := func(ahead time.Duration, spec string) sluice.Decision {
		l := newLimiter(t, sluice.Options[call]{Clock: func() time.Time { return clock.Now().Add(ahead) }, MaxSkew: time.Minute},
			store, sluice.Rule[call]{Name: spec, Spec: spec})
		return must(t)(l.AllowN(background, call{}, 3))
	}
	for _, spec := range []string{"gcra 3/m", "tokenbucket 3/m", "fixedwindow 3/m", "movingwindow 3/m slots=4 trailing=whole"} {
		d := allow(time.Hour, spec)
		require.True(t, d.Allowed)
		require.NoError(t, d.Err)
		d = allow(0, spec)
		require.ErrorIs(t, d.Err, sluice.ErrSkew)
		require.False(t, d.Allowed, spec)
		require.Equal(t, time.Hour, d.Skew.Round(time.Minute), spec)
		require.Equal(t, time.Hour, d.RetryAfter.Truncate(10*time.Minute), spec)
	}
}

// A process whose clock is ahead gets one burst early. It does not get another after each
// quiet period in which the store could drop the record: each gap is as long as the TTL.
func TestClockThatIsAheadGetsOneBurstEarly(t *testing.T) {
	const rounds = 50
	stores := map[string]func(*testing.T, func() time.Time) storage.Store{
		"swaps":  func(_ *testing.T, now func() time.Time) storage.Store { return swapOnly{&memory.Store{Clock: now}} },
		"SQLite": func(t *testing.T, now func() time.Time) storage.Store { return openSQLite(t, now) },
	}
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
		for name, open := range stores {
			t.Run(c.spec+" on "+name, func(t *testing.T) {
				clock, policy := newClock(), mustPolicy(c.spec)
				store := open(t, clock.Now)
				var limiters []*sluice.Limiter[call]
				for _, ahead := range []time.Duration{0, time.Hour} {
					now := func() time.Time { return clock.Now().Add(ahead) }
					limiters = append(limiters, newLimiter(t, sluice.Options[call]{Clock: now, Timeout: time.Minute}, store,
						sluice.Rule[call]{Name: "shared", Policy: policy}))
				}
				admitted := int64(0)
				admitAll := func() {
					for _, l := range limiters {
						for must(t)(l.Allow(background, call{})).Allowed {
							admitted++
						}
					}
				}
				burst := policy.Bound(1)
				admitAll()
				require.LessOrEqual(t, admitted, 2*burst, "a burst by each clock")
				for i := range rounds {
					clock.advance(c.gap)
					admitAll()
					elapsed := time.Duration(i+1) * c.gap
					require.LessOrEqual(t, admitted, policy.Bound(elapsed+1)+burst, "in %v", elapsed)
				}
			})
		}
	}
}

// The server keeps a record for its TTL, and longer by the time that the clock which wrote it
// is ahead.
func TestServerKeepsARecordWhileItsClockIsAhead(t *testing.T) {
	const ttl = 40 * time.Second // of a full gcra 1/30s
	redisStore, client := openRedis(t)
	postgresStore, pool := openPostgres(t)
	for _, server := range []struct {
		store     storage.Store
		expiresIn func() time.Duration // of the only record
	}{
		{redisStore, func() time.Duration {
			key, err := client.RandomKey(t.Context()).Result()
			require.NoError(t, err)
			left, err := client.PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			return left
		}},
		{postgresStore, func() (left time.Duration) {
			err := pool.QueryRow(t.Context(), "SELECT expires_at - clock_timestamp() FROM "+postgres.DefaultTable).Scan(&left)
			require.NoError(t, err)
			return left
		}},
	} {
		for _, c := range []struct{ ahead, want time.Duration }{
			{0, ttl}, {-time.Hour, ttl}, {time.Hour, time.Hour + ttl}, {24 * 365 * time.Hour, 24*365*time.Hour + ttl},
		} {
			clock := func() time.Time { return time.Now().Add(c.ahead) }
			for _, store := range []storage.Store{server.store, swapOnly{server.store}} {
				l := newLimiter(t, sluice.Options[call]{Clock: clock, Timeout: time.Minute}, store, rulesOf("gcra 1/30s")...)
				began := time.Now()
				require.True(t, must(t)(l.Allow(background, call{})).Allowed)
				left := server.expiresIn()
				require.LessOrEqual(t, left, c.want+time.Since(began)+time.Millisecond)
				require.GreaterOrEqual(t, left, c.want-time.Since(began)-time.Millisecond)
				require.NoError(t, l.Reset(background, call{}))
				if purger, ok := server.store.(storage.Purger); ok { // PostgreSQL keeps the row
					_, err := purger.Purge(background, 1)
					require.NoError(t, err)
				}
			}
		}
	}
}

// swappedClock returns a clock of which every second reading is 1us before the previous one,
// like readings of concurrent goroutines that reach the store in another order.
func swappedClock() func() time.Time {
	var readings atomic.Int64
	return func() time.Time {
		n := readings.Add(1) - 1
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n^1) * time.Microsecond)
	}
}

func TestRefundByAClockThatIsBehindGivesUnitsBack(t *testing.T) {
	for _, spec := range []string{
		"gcra 10/h", "gcra 100/h burst=20", "tokenbucket 10/h", "tokenbucket 10/h refill=interval", "fixedwindow 10/h",
		"movingwindow 10/h", "movingwindow 10/h slots=6 trailing=whole", "all(gcra 10/h; fixedwindow 100/d)", "all(gcra 10/s; gcra 100/h)",
	} {
		for name, store := range memoryStores() {
			l := newLimiter(t, sluice.Options[call]{Clock: swappedClock()}, store, sluice.Rule[call]{Name: "user", Spec: spec})
			for range 100 {
				var reservations []*sluice.Reservation[call]
				for range 4 {
					reservations = append(reservations, reserve(t, l, call{}, 1))
				}
				for _, r := range reservations {
					require.NotZero(t, must(t)(r.Settle(background, 0)).Results[0].Paid, "%s, %s", spec, name)
				}
			}
			require.True(t, must(t)(l.Peek(background, call{})).Results[0].Fresh, spec)
		}
	}
}
