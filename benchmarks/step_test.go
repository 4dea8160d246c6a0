package benchmarks

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// Every benchmark below takes one unit every millisecond under a limit of 1000/s. All steps are
// allowed.
const (
	count  = 1000
	period = time.Second
	tick   = time.Millisecond
)

var (
	start  = time.Unix(1e9, 0)
	limit  = algo.Per(count, period)
	denied int // so that the compiler keeps the results
)

// policies returns the policies of the benchmarks. With a weighted trailing slot the estimate can
// exceed the true use, so movingwindow has twice the limit.
func policies(t testing.TB) map[string]algo.Policy {
	made := make(map[string]algo.Policy)
	add := func(name string, p algo.Policy, err error) {
		if err != nil {
			t.Fatal(err)
		}
		made[name] = p
	}
	g, err := gcra.New(gcra.Options{Limit: limit})
	add("gcra", g, err)
	tb, err := tokenbucket.New(tokenbucket.Options{Limit: limit})
	add("tokenbucket", tb, err)
	fw, err := fixedwindow.New(fixedwindow.Options{Limit: limit})
	add("fixedwindow", fw, err)
	for _, slots := range []int{1, 12} {
		mw, err := movingwindow.New(movingwindow.Options{Limit: algo.Per(2*count, period), Slots: slots})
		add(fmt.Sprintf("movingwindow slots=%d", slots), mw, err)
	}
	return made
}

func TestAllStepsOfTheBenchmarksAreAllowed(t *testing.T) {
	peer := rate.NewLimiter(count, count)
	states := make(map[string][]byte)
	for i := range 10 * count {
		now := start.Add(time.Duration(i) * tick)
		if !peer.AllowN(now, 1) {
			t.Fatalf("x/time/rate denies at %v", now)
		}
		for name, p := range policies(t) {
			next, r, err := p.Step(nil, states[name], now, 1)
			if err != nil || !r.Allowed {
				t.Fatalf("%s at %v: %+v, %v", name, now, r, err)
			}
			states[name] = next
		}
	}
}

func requireAllowed(b *testing.B, allowed bool) {
	if !allowed {
		denied++
		b.Error("denied")
	}
}

func BenchmarkStepPeerRateAllowN(b *testing.B) {
	l := rate.NewLimiter(count, count)
	now := start
	b.ReportAllocs()
	for range b.N {
		if !l.AllowN(now, 1) {
			requireAllowed(b, false)
		}
		now = now.Add(tick)
	}
}

func BenchmarkStepGCRA(b *testing.B) {
	o := gcra.Options{Limit: limit}
	var s gcra.State
	var r algo.Result
	now := start
	b.ReportAllocs()
	for range b.N {
		if s, r = gcra.Step(s, now, o); !r.Allowed {
			requireAllowed(b, false)
		}
		now = now.Add(tick)
	}
}

func BenchmarkStepTokenBucket(b *testing.B) {
	o := tokenbucket.Options{Limit: limit}
	var s tokenbucket.State
	var r algo.Result
	now := start
	b.ReportAllocs()
	for range b.N {
		if s, r = tokenbucket.Step(s, now, o); !r.Allowed {
			requireAllowed(b, false)
		}
		now = now.Add(tick)
	}
}

func BenchmarkStepFixedWindow(b *testing.B) {
	o := fixedwindow.Options{Limit: limit}
	var s fixedwindow.State
	var r algo.Result
	now := start
	b.ReportAllocs()
	for range b.N {
		if s, r = fixedwindow.Step(s, now, o); !r.Allowed {
			requireAllowed(b, false)
		}
		now = now.Add(tick)
	}
}

func benchmarkMovingWindow(b *testing.B, slots int) {
	o := movingwindow.Options{Limit: algo.Per(2*count, period), Slots: slots}
	var s movingwindow.State
	var r algo.Result
	now := start
	b.ReportAllocs()
	for range b.N {
		if s, r = movingwindow.Step(s, now, o); !r.Allowed {
			requireAllowed(b, false)
		}
		now = now.Add(tick)
	}
}

func BenchmarkStepMovingWindow1(b *testing.B)  { benchmarkMovingWindow(b, 1) }
func BenchmarkStepMovingWindow12(b *testing.B) { benchmarkMovingWindow(b, 12) }

func BenchmarkStepPolicy(b *testing.B) {
	for name, p := range policies(b) {
		b.Run(name, func(b *testing.B) { benchmarkPolicy(b, p) })
	}
}

func benchmarkPolicy(b *testing.B, p algo.Policy) {
	var state, spare []byte
	var r algo.Result
	var err error
	now := start
	b.ReportAllocs()
	for range b.N {
		spare, r, err = p.Step(spare[:0], state, now, 1)
		if err != nil || !r.Allowed {
			requireAllowed(b, false)
		}
		state, spare = spare, state
		now = now.Add(tick)
	}
}
