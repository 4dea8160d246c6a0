package compose_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/gcra"
)

func at(d time.Duration) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
}

func gcraOf(t *testing.T, limit string, burst int64) algo.Policy {
	l, err := algo.ParseLimit(limit)
	require.NoError(t, err)
	p, err := gcra.New(gcra.Options{Limit: l, Burst: burst})
	require.NoError(t, err)
	return p
}

func TestAvailableIsWhatTheLastPayingStepLeft(t *testing.T) {
	s, err := compose.All(gcraOf(t, "10/s", 0), gcraOf(t, "30/m", 12))
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	var state []byte
	var now time.Duration
	var left int64
	for range 20000 {
		now += time.Duration(rng.ExpFloat64() * float64(time.Second))
		next, r, err := s.Step(nil, state, at(now), 1+rng.Int64N(3))
		require.NoError(t, err)
		if !r.Fresh {
			require.Equal(t, left, r.Available)
			require.GreaterOrEqual(t, r.Refilled, int64(0))
		}
		if r.Allowed {
			left, state = r.Remaining, next
		}
	}
}

func BenchmarkStep(b *testing.B) {
	l := algo.Per(1000, time.Millisecond)
	p, _ := gcra.New(gcra.Options{Limit: l})
	q, _ := gcra.New(gcra.Options{Limit: algo.Per(1e6, time.Hour)})
	s, _ := compose.All(p, q)
	var state, spare []byte
	now := at(0)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(2 * time.Millisecond)
		next, _, err := s.Step(spare[:0], state, now, 1)
		if err != nil {
			b.Fatal(err)
		}
		state, spare = next, state
	}
}
