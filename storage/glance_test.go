package storage_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

func TestAGlanceIsAtWhatDoRemembers(t *testing.T) {
	s, c := newScripted(), &count{limit: 2}
	now := time.Unix(100, 0)
	e := storage.NewEngine(s, storage.EngineOptions{MaxAge: time.Second, Clock: func() time.Time { return now }})
	_, seen := e.Glance([]byte("k"), now)
	require.False(t, seen)
	for _, want := range []string{"x", "xx"} {
		_, err := do(e, c, "k")
		require.NoError(t, err)
		state, seen := e.Glance([]byte("k"), now)
		require.True(t, seen)
		require.Equal(t, want, string(state))
	}
	_, seen = e.Glance([]byte("other"), now)
	require.False(t, seen)
	_, seen = e.Glance([]byte("k"), now.Add(time.Second))
	require.True(t, seen)
	_, seen = e.Glance([]byte("k"), now.Add(time.Second+1))
	require.False(t, seen, "it is older than MaxAge")
	require.Equal(t, []string{"swap", "swap"}, s.trips, "a glance is none")
	require.Zero(t, testing.AllocsPerRun(100, func() { e.Glance([]byte("k"), now) }))
}

// A key that is remembered is seen, whichever others are.
func TestAGlanceIsAtAllThatIsRemembered(t *testing.T) {
	s, c := newScripted(), &count{limit: 1}
	e := storage.NewEngine(s, storage.EngineOptions{})
	const keys = 10_000
	for i := range keys {
		_, err := do(e, c, fmt.Sprint(i))
		require.NoError(t, err)
	}
	missed := 0
	for i := range keys {
		if _, seen := e.Glance([]byte(fmt.Sprint(i)), time.Now()); !seen {
			missed++
		}
	}
	require.Less(t, missed, keys/1000, "of far fewer than DefaultRemember")
}

func TestWhatWasSeenLongestAgoIsForgotten(t *testing.T) {
	s, c := newScripted(), &count{limit: 9}
	e := storage.NewEngine(s, storage.EngineOptions{Remember: 2})
	for _, key := range []string{"a", "b", "a", "c"} {
		_, err := do(e, c, key)
		require.NoError(t, err)
	}
	for key, want := range map[string]bool{"a": true, "b": false, "c": true} {
		_, seen := e.Glance([]byte(key), time.Now())
		require.Equal(t, want, seen, key)
	}
}

func TestNoNumberOfKeysIsTooLargeToRemember(t *testing.T) {
	s, c := newScripted(), &count{limit: 1}
	e := storage.NewEngine(s, storage.EngineOptions{Remember: math.MaxInt})
	_, err := do(e, c, "k")
	require.NoError(t, err)
	_, seen := e.Glance([]byte("k"), time.Now())
	require.True(t, seen)
}

// What is remembered stays within what was asked for, and a set of eight beside it.
func TestAsManyKeysAreRememberedAsAskedFor(t *testing.T) {
	for _, remember := range []int{-1, 1, 7, 8, 9, 100, 1000} {
		s, c := newScripted(), &count{limit: 1}
		e := storage.NewEngine(s, storage.EngineOptions{Remember: remember})
		for i := range 5000 {
			_, err := do(e, c, fmt.Sprint(i))
			require.NoError(t, err)
		}
		kept := 0
		for i := range 5000 {
			if _, seen := e.Glance([]byte(fmt.Sprint(i)), time.Now()); seen {
				kept++
			}
		}
		require.LessOrEqual(t, kept, max(0, remember+7))
		require.GreaterOrEqual(t, kept, remember*9/10)
		_, seen := e.Glance([]byte("4999"), time.Now())
		require.Equal(t, remember > 0, seen, "the last one, of %d", remember)
	}
}

// A state that is ahead of the clock, because that was set back, has no age that
// MaxAge could bound.
func TestAClockThatWasSetBackRemembersNothing(t *testing.T) {
	s, c := newScripted(), &count{limit: 1}
	now := time.Unix(10_000, 0)
	e := storage.NewEngine(s, storage.EngineOptions{MaxAge: time.Minute, Clock: func() time.Time { return now }})
	_, err := do(e, c, "k")
	require.NoError(t, err)
	now = now.Add(-time.Second)
	_, seen := e.Glance([]byte("k"), now)
	require.False(t, seen)
	delete(s.records, "k") // another process resets it
	how, err := do(e, c, "k")
	require.NoError(t, err)
	require.False(t, how.Memory)
	require.True(t, c.allowed)
}

// Who has glanced at the only key, and was not denied, need not be tried on the same
// memory: each decision is made once.
func TestACommitIsDecidedOnItsWay(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.limit = 3
		var callers []*caller
		for range 4 {
			k := &caller{count: count{limit: c.limit}}
			c.start(func() { k.how, k.err = c.engine.Commit(context.Background(), []string{"k"}, k.decide) })
			callers = append(callers, k)
		}
		close(s.gate)
		c.group.Wait()
		for i, k := range callers {
			require.NoError(t, k.err)
			require.Equal(t, i < 3, k.allowed)
			require.Equal(t, storage.How{Attempts: 1}, k.how)
		}
		require.Equal(t, []string{"k", "k"}, s.trips)
	})
}
