package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// world has a true time, which only round trips and the test move on, and two
// clocks that show it wrongly.
type world struct {
	now   time.Duration
	ahead time.Duration // of the local clock
	fast  float64       // of the local clock: seconds gained in a second

	there, back time.Duration // of one round trip
	asked       int
	err         error
}

var origin = time.Unix(1e9, 0)

// serverTime is the server's time, which is the true one.
func (w *world) serverTime() time.Time { return origin.Add(w.now) }

func (w *world) local() time.Time {
	return origin.Add(w.ahead + w.now + time.Duration(float64(w.now)*w.fast))
}

func (w *world) Now(context.Context) (time.Time, error) {
	w.asked++
	w.now += w.there
	now := w.serverTime()
	w.now += w.back
	return now, w.err
}

func (w *world) clock() *storage.ServerClock {
	return &storage.ServerClock{Server: w, Local: w.local}
}

func TestServerClockIsWrongByNoMoreThanItSays(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		w := &world{
			ahead: time.Duration(random.Int64N(int64(2*time.Hour)) - int64(time.Hour)),
			fast:  (random.Float64() - 0.5) / 1001, // within 1 part in 2000
		}
		clock := w.clock()
		for range 100 {
			w.there = time.Duration(random.ExpFloat64() * float64(3*time.Millisecond))
			w.back = time.Duration(random.ExpFloat64() * float64(3*time.Millisecond))
			require.NoError(t, clock.Learn(t.Context()))
			wrong := clock.Now().Sub(w.serverTime()).Abs()
			require.LessOrEqual(t, wrong, clock.Error()+time.Microsecond)
			w.now += time.Duration(random.Int64N(int64(20 * time.Second)))
			wrong = clock.Now().Sub(w.serverTime()).Abs()
			require.LessOrEqual(t, wrong, clock.Error()+time.Microsecond)
		}
	}
}

func TestServerClockErrorIsHalfTheRoundTripAndTheDrift(t *testing.T) {
	w := &world{ahead: time.Hour, there: time.Millisecond, back: time.Millisecond}
	clock := w.clock()
	require.Zero(t, clock.Error())
	require.Equal(t, w.local(), clock.Now(), "nothing is known")
	require.NoError(t, clock.Learn(t.Context()))
	require.Equal(t, time.Millisecond, clock.Error())
	require.Equal(t, w.serverTime(), clock.Now(), "both ways took as long")
	w.now += 2 * time.Second
	require.Equal(t, 2*time.Millisecond, clock.Error())
	require.Equal(t, w.serverTime(), clock.Now())
}

func TestServerClockAsksNoMoreThanItMust(t *testing.T) {
	w := new(world)
	clock := w.clock()
	for range 3600 {
		require.NoError(t, clock.Learn(t.Context()))
		require.False(t, clock.Due())
		clock.Now()
		w.now += time.Second
	}
	require.Equal(t, 360, w.asked, "every DefaultRelearn")

	clock.Relearn = time.Minute
	for range 3600 {
		require.NoError(t, clock.Learn(t.Context()))
		w.now += time.Second
	}
	require.InDelta(t, 360+60, w.asked, 1)
}

func TestASlowReadingSpoilsNothing(t *testing.T) {
	w := &world{there: time.Millisecond, back: time.Millisecond}
	clock := w.clock()
	require.NoError(t, clock.Learn(t.Context()))
	w.now += storage.DefaultRelearn
	w.there, w.back = 0, 10*time.Second
	require.NoError(t, clock.Learn(t.Context()))
	require.Equal(t, 2, w.asked)
	require.Less(t, clock.Error(), 20*time.Millisecond)
	require.LessOrEqual(t, clock.Now().Sub(w.serverTime()).Abs(), clock.Error())
}

func TestServerClockFollowsAServerThatWasSet(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		w := &world{there: time.Millisecond, back: time.Millisecond}
		clock := w.clock()
		require.NoError(t, clock.Learn(t.Context()))
		w.now += storage.DefaultRelearn
		w.now, w.ahead = w.now+step, -step
		require.Equal(t, step, w.serverTime().Sub(clock.Now()), "not seen yet")
		require.NoError(t, clock.Learn(t.Context()))
		require.Equal(t, w.serverTime(), clock.Now())
		require.Equal(t, time.Millisecond, clock.Error())
	}
}

func TestServerClockGoesOnWhileTheServerDoesNotAnswer(t *testing.T) {
	w := &world{ahead: time.Hour}
	clock := w.clock()
	require.NoError(t, clock.Learn(t.Context()))
	w.err = errors.New("gone")
	for range 100 {
		w.now += time.Second
		require.NoError(t, clock.Learn(t.Context()))
		require.Equal(t, w.serverTime(), clock.Now())
	}
	require.Equal(t, 1+10, w.asked, "a failed reading is not repeated before Relearn")
}

func TestTheFirstReadingIsTriedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outage := fmt.Errorf("%w: starting", storage.ErrUnavailable)
		began := time.Now()
		back := began.Add(200 * time.Millisecond)
		clock := &storage.ServerClock{Server: serverFunc(func(ctx context.Context) (time.Time, error) {
			if ctx.Err() != nil {
				return time.Time{}, ctx.Err()
			}
			if time.Now().Before(back) {
				time.Sleep(time.Millisecond)
				return time.Time{}, outage
			}
			return time.Now().Add(time.Hour), nil
		})}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := clock.Learn(ctx)
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, 100*time.Millisecond, time.Since(began), float64(time.Millisecond))

		require.NoError(t, clock.Learn(t.Context()))
		require.Equal(t, time.Hour, time.Until(clock.Now()))
	})
}

func TestWhatTryingAgainCannotHelpIsToldAtOnce(t *testing.T) {
	refused := errors.New("permission denied")
	w := &world{err: refused}
	err := w.clock().Learn(t.Context())
	require.ErrorIs(t, err, refused)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.Equal(t, 1, w.asked)
}

func TestALaterReadingTakesHalfOfTheTimeAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalls := false
		clock := &storage.ServerClock{Server: serverFunc(func(ctx context.Context) (time.Time, error) {
			if stalls {
				<-ctx.Done()
			}
			return time.Now(), ctx.Err()
		})}
		require.NoError(t, clock.Learn(t.Context()))
		time.Sleep(storage.DefaultRelearn)
		stalls = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, clock.Learn(ctx))
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		require.NoError(t, clock.Learn(ctx))
		require.Equal(t, 500*time.Millisecond, time.Since(began), "and is not repeated at once")
	})
}

func TestOneCallerReadsAgainForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0 // by one at a time, or the race detector says so
		clock := &storage.ServerClock{Server: serverFunc(func(context.Context) (time.Time, error) {
			asked++
			time.Sleep(time.Second)
			return time.Now(), nil
		})}
		require.NoError(t, clock.Learn(t.Context()))
		time.Sleep(storage.DefaultRelearn)
		began := time.Now()
		fastest := time.Hour
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if err := clock.Learn(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				fastest = min(fastest, time.Since(began))
			})
		}
		wg.Wait()
		require.Equal(t, 2, asked)
		require.Zero(t, fastest, "the others go on by what is known")
	})
}

type serverFunc func(context.Context) (time.Time, error)

func (f serverFunc) Now(ctx context.Context) (time.Time, error) { return f(ctx) }

// Two machines, one with a clock an hour ahead, tell the same time once they
// have asked the server.
func ExampleServerClock() {
	server := serverFunc(func(context.Context) (time.Time, error) { // a store, such as *redis.Store
		return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), nil
	})
	for _, local := range []string{"12:00", "13:00"} {
		at, _ := time.Parse(time.DateTime, "2026-01-01 "+local+":00")
		clock := &storage.ServerClock{Server: server, Local: func() time.Time { return at }}
		if err := clock.Learn(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(local, "is", clock.Now().Format("15:04"), "by the server")
	}
	// Output:
	// 12:00 is 12:00 by the server
	// 13:00 is 12:00 by the server
}

// A reading during which the local clock was set back says nothing.
func TestAReadingAcrossASetBackIsMadeAgain(t *testing.T) {
	w := &world{there: time.Millisecond, back: time.Millisecond}
	readings := 0
	clock := &storage.ServerClock{Local: w.local, Server: serverFunc(func(ctx context.Context) (time.Time, error) {
		now, err := w.Now(ctx)
		if readings++; readings == 1 {
			w.ahead -= time.Hour
		}
		return now, err
	})}
	require.NoError(t, clock.Learn(context.Background()))
	require.Equal(t, 2, readings)
	require.LessOrEqual(t, clock.Now().Sub(w.serverTime()).Abs(), clock.Error())
	require.Less(t, clock.Error(), time.Second)
}
