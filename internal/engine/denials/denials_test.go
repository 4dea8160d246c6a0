package denials_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine/denials"
	"github.com/sluice-go/sluice/storage"
)

// The tests of the engine promise the rest.
func TestCacheHasALimitedSize(t *testing.T) {
	for _, size := range []int{1, 100, math.MaxInt} {
		c, cached := denials.New(time.Minute, size), 0
		for i := range 500 {
			for range 2 { // the second one replaces the first
				c.Put(fmt.Sprint(i), storage.Record{}, denials.Clock{Sent: time.Now()})
			}
			require.NotNil(t, c.Find([]byte(fmt.Sprint(i))), "the last one")
		}
		for i := range 500 {
			if c.Find([]byte(fmt.Sprint(i))) != nil {
				cached++
			}
		}
		require.Equal(t, min(size, 500), cached)
	}
}

func TestDenialsInFlightDuringADropAreNotCached(t *testing.T) {
	now := time.Now()
	for _, drop := range []func(c *denials.Cache){
		func(c *denials.Cache) { c.DropAll(now.Add(1)) },
		func(c *denials.Cache) { c.Drop(now.Add(1), "a", "b"); c.Drop(now, "a", "b") },
	} {
		c := denials.New(time.Minute, 10)
		c.Put("a", storage.Record{}, denials.Clock{Sent: now})
		drop(c)
		require.Nil(t, c.Find([]byte("a")))
		for _, sent := range []time.Duration{1, 2} {
			c.Put("b", storage.Record{}, denials.Clock{Sent: now.Add(sent)})
			require.Equal(t, sent > 1, c.Find([]byte("b")) != nil)
		}
	}
}

func TestAnEarlierDenialDoesNotReplaceALaterOne(t *testing.T) {
	c, now := denials.New(time.Minute, 10), time.Now()
	for _, sent := range []time.Duration{1, 2, 1} {
		c.Put("a", storage.Record{}, denials.Clock{Sent: now.Add(sent)})
	}
	require.Equal(t, now.Add(2), c.Find([]byte("a")).Sent)
}

func TestRecordHasTheTTLThatIsLeft(t *testing.T) {
	now := time.Now()
	for ttl, left := range map[time.Duration]time.Duration{10: 7, 3: 1, 2: 1, 0: 0} {
		d := denials.Denial{Record: storage.Record{TTL: ttl}, Clock: denials.Clock{Sent: now}}
		require.Equal(t, left, d.RecordAt(now.Add(3)).TTL)
	}
}
