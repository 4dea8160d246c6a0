package benchmarks

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// Every function below takes one unit every millisecond under a limit of 1000/s. All steps are
// allowed.
const (
	count  = 1000
	period = time.Second
	tick   = time.Millisecond
)

var (
	start = time.Unix(1e9, 0)
	limit = algo.Per(count, period)
)

// steps are the rows of the area. goal is the largest ratio of the time of a step to that of rateAllowN.
var steps = []struct {
	name string
	run  func(n int)
	goal float64
}{
	{"gcra.Step", func(n int) {
		o, s, now := gcra.Options{Limit: limit}, gcra.State{}, start
		var r algo.Result
		for range n {
			if s, r = gcra.Step(s, now, o); !r.Allowed {
				panic("denied")
			}
			now = now.Add(tick)
		}
	}, 0.3},
	{"tokenbucket.Step", func(n int) {
		o, s, now := tokenbucket.Options{Limit: limit}, tokenbucket.State{}, start
		var r algo.Result
		for range n {
			if s, r = tokenbucket.Step(s, now, o); !r.Allowed {
				panic("denied")
			}
			now = now.Add(tick)
		}
	}, 0.3},
	{"fixedwindow.Step", func(n int) {
		o, s, now := fixedwindow.Options{Limit: limit}, fixedwindow.State{}, start
		var r algo.Result
		for range n {
			if s, r = fixedwindow.Step(s, now, o); !r.Allowed {
				panic("denied")
			}
			now = now.Add(tick)
		}
	}, 0.5},
	{"movingwindow.Step, two counters", movingWindowStep(1), 1},
	{"movingwindow.Step, 12 slots", movingWindowStep(12), 2},
}

// movingWindowStep has twice the limit. With a weighted trailing slot, the estimate can exceed the true use.
func movingWindowStep(slots int) func(n int) {
	return func(n int) {
		o, s, now := movingwindow.Options{Limit: algo.Per(2*count, period), Slots: slots}, movingwindow.State{}, start
		var r algo.Result
		for range n {
			if s, r = movingwindow.Step(s, now, o); !r.Allowed {
				panic("denied")
			}
			now = now.Add(tick)
		}
	}
}

// rateAllowN is the same with x/time/rate.
func rateAllowN(n int) {
	l, now := rate.NewLimiter(count, count), start
	for range n {
		if !l.AllowN(now, 1) {
			panic("denied")
		}
		now = now.Add(tick)
	}
}
