package compose_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// Results tell by which policy they came about, also where it was chosen for the
// input, however many rules there are and wherever they are decided.
func TestResultsTellThePolicy(t *testing.T) {
	fixed, write, read := limitOf(t, "gcra 3/m"), limitOf(t, "all(gcra 1/s; gcra 5/m)"), limitOf(t, "gcra 7/m")
	policyFor := func(c call) (algo.Policy, error) {
		if c.write {
			return write, nil
		}
		return read, nil
	}
	all := []compose.Rule[call]{
		{Name: "chosen", PolicyFor: policyFor, Key: func(c call) string { return fmt.Sprint(c.write) }},
		{Name: "fixed", Policy: fixed}, {Name: "third", Policy: fixed}, {Name: "fourth", Policy: fixed},
	}
	for n := 1; n <= len(all); n++ {
		synctest.Test(t, func(t *testing.T) {
			for name, limiter := range limitersOf(t, all[:n]) {
				for _, in := range []call{{}, {write: true}} {
					for op, d := range answers(t, limiter, in) {
						require.Len(t, d.Results, n, "%s, %s", op, name)
						want, _ := policyFor(in)
						require.Equal(t, want, d.Results[0].Policy, "%s, %s", op, name)
						for _, r := range d.Results[1:] {
							require.Equal(t, fixed, r.Policy, "%s, %s", op, name)
						}
					}
				}
			}
		})
	}
}

// answers are what a limiter says to the same input, by what it was asked.
func answers(t *testing.T, limiter *compose.Limiter[call], in call) map[string]compose.Decision {
	t.Helper()
	d, err := limiter.Allow(background, in)
	all := map[string]compose.Decision{"allow": must(t, d, err)}
	d, err = limiter.Peek(background, in)
	all["peek"] = must(t, d, err)
	d, err = limiter.Refund(background, in, 1)
	all["refund"] = must(t, d, err)
	return all
}

// limitersOf are limiters that decide in place, by the engine, and by themselves
// while their store is away.
func limitersOf(t *testing.T, rules []compose.Rule[call]) map[string]*compose.Limiter[call] {
	t.Helper()
	inPlace, err := compose.New(new(memory.Store), rules...)
	require.NoError(t, err)
	byEngine, err := compose.New(contended{new(memory.Store)}, rules...)
	require.NoError(t, err)
	o := compose.Options[call]{OnFailure: compose.FailLocal}
	alone, err := o.New(down{storage.NotApplied(storage.ErrUnavailable)}, rules...)
	require.NoError(t, err)
	return map[string]*compose.Limiter[call]{"in place": inPlace, "by the engine": byEngine, "alone": alone}
}
