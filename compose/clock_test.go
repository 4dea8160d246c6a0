package compose_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
)

// server is a store with a clock of its own, which counts its round trips.
type server struct {
	storage.Store
	now     func() time.Time
	fails   error
	stalls  bool
	told    int // how often it told the time
	swapped int
}

func newServer(now func() time.Time) *server { return &server{Store: new(memory.Store), now: now} }

func (s *server) Now(ctx context.Context) (time.Time, error) {
	s.told++
	if s.stalls {
		<-ctx.Done()
		return time.Time{}, fmt.Errorf("%w: %w", storage.ErrUnavailable, ctx.Err())
	}
	return s.now(), s.fails
}

func (s *server) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	s.swapped++
	return s.Store.CompareAndSwap(ctx, swaps...)
}

// machine is a limiter of 3 a minute in a process whose clock is ahead of true.
func machine(t *testing.T, s storage.Store, clock *storage.ServerClock, o compose.Options[call]) func() compose.Decision {
	t.Helper()
	o.StoreClock = clock
	l, err := o.New(s, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 3/m")})
	require.NoError(t, err)
	return func() compose.Decision {
		t.Helper()
		d, err := l.Allow(background, call{user: "ann"})
		return must(t, d, err)
	}
}

func TestSkewedClocksAgreeByTheStoreClock(t *testing.T) {
	clock := newVirtual()
	store := newServer(clock.Now)
	var ask []func() compose.Decision
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		local := func() time.Time { return clock.Now().Add(ahead) }
		ask = append(ask, machine(t, store, &storage.ServerClock{Server: store, Local: local}, compose.Options[call]{}))
	}
	for i := range 3 {
		d := ask[i]()
		require.True(t, d.Allowed)
		require.EqualValues(t, 2-i, d.Remaining)
		require.Zero(t, d.Skew)
	}
	for i := range 3 {
		d := ask[i]()
		require.False(t, d.Allowed)
		require.Equal(t, 20*time.Second, d.RetryAfter)
	}
	for i := range 300 {
		clock.advance(20 * time.Second)
		require.True(t, ask[i%3]().Allowed)
		require.False(t, ask[(i+1)%3]().Allowed)
	}
}

// What the store clock is for: an hour's difference is an hour's denial.
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

func TestTheStoreClockCostsARoundTripNowAndThen(t *testing.T) {
	clock := newVirtual()
	store := newServer(clock.Now)
	learned := &storage.ServerClock{Server: store, Local: clock.Now, Relearn: time.Hour}
	ask := machine(t, store, learned, compose.Options[call]{})
	for range 3 {
		require.True(t, ask().Allowed)
	}
	require.Equal(t, 1, store.told)
	require.Equal(t, 3, store.swapped)
	for range 10 {
		require.True(t, ask().Memory)
	}
	require.True(t, machine(t, new(memory.Store), learned, compose.Options[call]{})().Allowed, "another limiter, the same clock")
	require.Equal(t, 1, store.told)
	require.Equal(t, 3, store.swapped)
	clock.advance(time.Hour)
	ask()
	ask()
	require.Equal(t, 2, store.told)

	none, err := compose.Options[call]{StoreClock: &storage.ServerClock{Server: store}}.New(store)
	require.NoError(t, err)
	d, err := none.Allow(background, call{})
	require.True(t, must(t, d, err).Allowed)
	require.Equal(t, 2, store.told, "what no rule limits needs no time")
}

func TestWithoutAFirstReadingTheFailurePolicyDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, stalls := range []bool{true, false} {
			store := newServer(time.Now)
			store.stalls, store.fails = stalls, storage.ErrUnavailable
			limiter := func(p compose.FailurePolicy) *compose.Limiter[call] {
				l, err := compose.Options[call]{
					StoreClock: &storage.ServerClock{Server: store}, Budget: time.Minute, OnFailure: p,
				}.New(store, compose.Rule[call]{Name: "user", Policy: limitOf(t, "gcra 1/d")})
				require.NoError(t, err)
				return l
			}
			began := time.Now()
			d, err := limiter(compose.FailClosed).Allow(background, call{})
			require.ErrorIs(t, err, storage.ErrUnavailable)
			require.False(t, d.Allowed)
			require.Equal(t, time.Minute, time.Since(began), "the budget")

			d, err = limiter(compose.FailOpen).Allow(background, call{})
			require.True(t, must(t, d, err).Allowed)
			require.True(t, d.Degraded)

			local := limiter(compose.FailLocal)
			for _, want := range []bool{true, false} {
				d, err = local.Allow(background, call{})
				require.Equal(t, want, must(t, d, err).Allowed)
				require.True(t, d.Degraded)
			}

			ctx, cancel := context.WithTimeout(background, time.Second)
			began = time.Now()
			_, err = limiter(compose.FailOpen).Allow(ctx, call{})
			require.Error(t, err, "the caller's time is over")
			require.Equal(t, time.Second, time.Since(began))
			cancel()

			store.stalls, store.fails = false, nil
			d, err = local.Allow(background, call{})
			require.True(t, must(t, d, err).Allowed)
			require.False(t, d.Degraded, "recovery needs no restart")
		}
	})
}

func TestALaterReadingThatStallsLeavesTimeToDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newServer(time.Now)
		ask := machine(t, store, &storage.ServerClock{Server: store}, compose.Options[call]{Budget: time.Second})
		ask()
		time.Sleep(storage.DefaultRelearn)
		store.stalls = true
		began := time.Now()
		require.True(t, ask().Allowed)
		require.Equal(t, 500*time.Millisecond, time.Since(began))
	})
}

func TestClockAndStoreClockExcludeEachOther(t *testing.T) {
	for says, o := range map[string]compose.Options[call]{
		"exclude each other": {Clock: time.Now, StoreClock: new(storage.ServerClock)},
		"has no Server":      {StoreClock: new(storage.ServerClock)},
	} {
		_, err := o.New(nil)
		require.ErrorContains(t, err, says)
	}
}

func TestSkewedClocksAgreeByRedisAndPostgres(t *testing.T) {
	type store interface {
		storage.Store
		storage.Clock
	}
	open := map[string]func(*testing.T) store{
		"redis": func(t *testing.T) store {
			client := goredis.NewClient(&goredis.Options{Addr: servers.Redis(t).Addr()})
			t.Cleanup(func() { client.Close() })
			s, err := redis.New(client, redis.Options{})
			require.NoError(t, err)
			return s
		},
		"postgres": func(t *testing.T) store {
			pool, err := pgxpool.New(t.Context(), servers.Postgres(t).DSN())
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			s, err := postgres.New(pool, postgres.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Migrate(t.Context()))
			return s
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			for i, ahead := range []time.Duration{time.Hour, 0, -time.Hour} {
				clock := &storage.ServerClock{Server: s, Local: func() time.Time { return time.Now().Add(ahead) }}
				l, err := compose.Options[call]{StoreClock: clock, Budget: time.Minute}.New(s,
					compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 5/d")})
				require.NoError(t, err)
				d, err := l.AllowN(background, call{user: "ann"}, 2)
				require.Equal(t, i < 2, must(t, d, err).Allowed)
				require.LessOrEqual(t, d.Skew, time.Minute)

				// The server is on this machine, and has its time.
				require.LessOrEqual(t, time.Since(clock.Now()).Abs(), clock.Error()+time.Minute)
			}
		})
	}
}

// away is a store that does not answer any more, whatever it is asked.
type away struct {
	storage.Store
	gone bool
}

func (a *away) Now(ctx context.Context) (time.Time, error) { return time.Now(), a.wait(ctx) }

func (a *away) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if err := a.wait(ctx); err != nil {
		return nil, err
	}
	return a.Store.Load(ctx, keys...)
}

func (a *away) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if err := a.wait(ctx); err != nil {
		return nil, false, storage.NotApplied(err)
	}
	return a.Store.CompareAndSwap(ctx, swaps...)
}

func (a *away) wait(ctx context.Context) error {
	if a.gone {
		<-ctx.Done()
	}
	return ctx.Err()
}

// The reading of the clock and the decision have one budget together, and what ends it is
// the store.
func TestABudgetSpentOnTheStoreClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &away{Store: new(memory.Store)}
		o := compose.Options[call]{Budget: time.Second, StoreClock: &storage.ServerClock{Server: s, Relearn: time.Nanosecond}}
		l, err := o.New(s, compose.Rule[call]{Name: "user", Key: byUser, Policy: limitOf(t, "gcra 3/m")})
		require.NoError(t, err)
		d, err := l.Allow(background, call{user: "ann"})
		require.True(t, must(t, d, err).Allowed)
		s.gone = true
		for _, ask := range []func(context.Context, call) (compose.Decision, error){l.Allow, l.Peek} {
			began := time.Now()
			time.Sleep(time.Millisecond)
			_, err := ask(background, call{user: "bob"})
			require.ErrorIs(t, err, storage.ErrUnavailable)
			require.ErrorIs(t, err, storage.ErrNotApplied)
			require.LessOrEqual(t, time.Since(began), time.Second+time.Millisecond)

			ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
			_, err = ask(ctx, call{user: "eve"})
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, storage.ErrUnavailable, "it was the caller's own time")
		}
	})
}
