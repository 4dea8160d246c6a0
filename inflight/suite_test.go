// The tests promise that the package obeys the laws of package algotest, that functions and methods agree, that the
// documented timeline is right, and that options which are not valid are named and deny everything.
package inflight_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/inflight"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/movingwindow"
)

// subject returns the algorithm with that many slots, for every limit.
func subject(slots int) algotest.Subject {
	return algotest.Subject{
		Name: fmt.Sprintf("inflight slots=%d", slots),
		New: func(l algo.Limit) (algo.Policy, error) {
			return inflight.New(inflight.Options{Count: l.Count, TTL: l.Period, Slots: slots % inflight.DefaultSlots}) // 0 means the default
		},
		Oracle: func(l algo.Limit) algotest.Oracle { return algotest.MovingWindow(l, slots, true) },
		Recode: func(state []byte) ([]byte, error) {
			s, err := movingwindow.ParseState(state)
			return movingwindow.AppendState(nil, s), err
		},
		HeldAtMost: func(l algo.Limit) time.Duration {
			width := (l.Period.Microseconds() + int64(slots) - 1) / int64(slots)
			return time.Duration(width*int64(slots+1)) * time.Microsecond
		},
		Windowed: true, Tick: inflight.MinTTL,
	}
}

func TestLaws(t *testing.T) {
	for _, slots := range []int{1, 3, inflight.DefaultSlots} {
		s := subject(slots)
		t.Run(s.Name, func(t *testing.T) {
			algotest.Run(t, s)
			algotest.RunHolds(t, s)
		})
	}
}

func TestSpecs(t *testing.T) {
	for want, o := range map[string]inflight.Options{
		"inflight 20 ttl=30s":              {Count: 20, TTL: 30 * time.Second},
		"inflight 1 ttl=1ms":               {Count: 1, TTL: inflight.MinTTL, Slots: inflight.DefaultSlots, Cost: 1},
		"inflight 1099511627776 ttl=8760h": {Count: algo.MaxCount, TTL: inflight.MaxTTL},
		"inflight 2 ttl=1.5ms slots=1":     {Count: 2, TTL: 1500 * time.Microsecond, Slots: 1},
		"inflight 7 ttl=1h30m slots=1024":  {Count: 7, TTL: 90 * time.Minute, Slots: movingwindow.MaxSlots},
	} {
		p, err := inflight.New(o)
		require.NoError(t, err)
		require.Equal(t, o, p.Options())
		require.Equal(t, algo.Limit{Count: o.Count, Period: o.TTL}, p.Limit())
		require.Equal(t, want, p.String())
		parsed, err := compose.ParsePolicy(want)
		require.NoError(t, err)
		require.Equal(t, want, parsed.String())
	}
}

var valid = inflight.Options{Count: 20, TTL: 30 * time.Second}

var invalid = map[string]inflight.Options{
	"inflight: Count must be from 1 to 2^40 (1099511627776), got 0":                                 {TTL: valid.TTL},
	"inflight: Count must be from 1 to 2^40 (1099511627776), got -1":                                {Count: -1, TTL: valid.TTL},
	"inflight: Count must be from 1 to 2^40 (1099511627776), got 1099511627777":                     {Count: algo.MaxCount + 1, TTL: valid.TTL},
	"inflight: TTL must be from 1ms to 8760h, which is a year, got 0s":                              {Count: 20},
	"inflight: TTL must be from 1ms to 8760h, which is a year, got 999µs":                           {Count: 20, TTL: 999 * time.Microsecond},
	"inflight: TTL must be from 1ms to 8760h, which is a year, got 8761h":                           {Count: 20, TTL: 8761 * time.Hour},
	"inflight: TTL must be a whole number of microseconds, got 1.0015ms; the nearest is 1.002ms":    {Count: 20, TTL: 1001500},
	"inflight: Slots must be from 1 to 1024, or 0 for 10, got -1":                                   {Count: 20, TTL: valid.TTL, Slots: -1},
	"inflight: Slots must be from 1 to 1024, or 0 for 10, got 1025":                                 {Count: 20, TTL: valid.TTL, Slots: 1025},
	"inflight: Cost is -1: algo: cost must be at least 1":                                           {Count: 20, TTL: valid.TTL, Cost: -1},
	"inflight: Cost must be 0 or 1 for a Policy, got 2; pass the cost to the methods of the Policy": {Count: 20, TTL: valid.TTL, Cost: 2},
}

// calls returns all functions at an instant.
func calls(s inflight.State, now, taken time.Time, o inflight.Options) map[string]func() (inflight.State, algo.Result) {
	return map[string]func() (inflight.State, algo.Result){
		"Step":    func() (inflight.State, algo.Result) { return inflight.Step(s, now, o) },
		"Peek":    func() (inflight.State, algo.Result) { return s, inflight.Peek(s, now, o) },
		"Release": func() (inflight.State, algo.Result) { return inflight.Release(s, now, taken, o) },
		"Renew":   func() (inflight.State, algo.Result) { return inflight.Renew(s, now, taken, o) },
	}
}

func TestInvalidOptionsAreRefusedAndDeny(t *testing.T) {
	now := policytest.Start
	held, _ := inflight.Step(inflight.State{}, now, valid)
	for text, o := range invalid {
		p, err := inflight.New(o)
		require.EqualError(t, err, text)
		require.Zero(t, p)
		require.Equal(t, o.Cost < 0, errors.Is(err, algo.ErrCost))
		if o.Cost > 1 {
			require.NoError(t, o.Validate(), "functions take any cost")
			continue
		}
		require.EqualError(t, o.Validate(), text)
		for _, s := range []inflight.State{{}, held} {
			for name, call := range calls(s, now, now, o) {
				next, r := call()
				require.Equal(t, algo.Result{Cost: 1, RetryAfter: algo.Never}, r, "%s: %s", name, text)
				require.Equal(t, s, next, "%s: %s", name, text)
			}
		}
	}
}

func TestZeroPolicyDeniesEverything(t *testing.T) {
	var zero inflight.Policy
	for _, p := range []algo.Policy{zero, zero.Held(policytest.Start)} {
		next, r, err := p.Step(nil, nil, policytest.Start, 1)
		require.NoError(t, err)
		require.Empty(t, next)
		require.Equal(t, algo.Result{Cost: 1, RetryAfter: algo.Never}, r)
		require.Zero(t, p.Bound(time.Hour))
	}
}

// The timeline of the package comment, by functions and by methods.
func TestDocumentedTimeline(t *testing.T) {
	o := inflight.Options{Count: 2, TTL: 30 * time.Second, Slots: 3}
	second := func(s int64) time.Time { return policytest.Start.Add(time.Duration(s) * time.Second) }
	p, err := inflight.New(o)
	require.NoError(t, err)
	var s inflight.State
	for _, e := range []struct {
		name      string
		at, taken int64
		allowed   bool
		left      int64
		retry     int64 // seconds
		reset     int64 // the second at which all units have returned
	}{
		{"Step", 5, 0, true, 1, 0, 40},
		{"Step", 14, 0, true, 0, 0, 50},
		{"Step", 20, 0, false, 0, 20, 50},
		{"Peek", 20, 0, false, 0, 20, 50},
		{"Release", 25, 5, true, 1, 0, 50},
		{"Step", 26, 0, true, 0, 0, 60},
		{"Renew", 32, 14, true, 0, 0, 70},
	} {
		next, r := calls(s, second(e.at), second(e.taken), o)[e.name]()
		user, op := algo.Policy(p), map[string]policy.Op{"Peek": policy.Peek, "Release": policy.Refund}[e.name]
		if e.taken > 0 {
			user = p.Held(second(e.taken))
			require.Equal(t, p.String(), user.String())
		}
		bytes, result, err := op.Apply(user, nil, movingwindow.AppendState(nil, s), second(e.at), 1)
		require.NoError(t, err)
		require.Equal(t, r, result)
		require.Equal(t, movingwindow.AppendState(nil, next), bytes)
		s = next
		require.Equal(t, e.allowed, r.Allowed, "%+v", e)
		require.Equal(t, e.left, r.Remaining, "%+v", e)
		require.Equal(t, time.Duration(e.retry)*time.Second, r.RetryAfter, "%+v", e)
		require.Equal(t, second(e.reset), second(e.at).Add(r.ResetAfter), "%+v", e)
	}
}
