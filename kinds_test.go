package sluice_test

// These tests promise that a policy of another kind has records of its own under the name of a rule, and that a policy of the same
// kind continues with the stored units.

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
)

// kindChanges are the specs of one rule, one after the other, and the units that remain of each.
var kindChanges = []struct {
	spec string
	left int64 // before the call, which takes 3 units
}{
	{"gcra 10/h", 10},
	{"tokenbucket 10/h", 10},
	{"all(gcra 10/h; fixedwindow 20/d)", 10},
	{"all(fixedwindow 20/d; gcra 10/h)", 7},         // the order of the parts does not matter
	{"all(fixedwindow 19/d; gcra 11/h burst=9)", 3}, // nor do the counts
	{"all(fixedwindow 20/h; gcra 10/h)", 10},        // but the periods do
	{"all(gcra 10/h; fixedwindow 20/h; gcra 10/s)", 10},
	{"movingwindow 10/h", 10},
	{"fixedwindow 10/h", 10},
	{"gcra 9/h", 6}, // the records of the first policy are still there
	{"tokenbucket 20/d", 17},
}

func TestPolicyOfAnotherKindHasItsOwnRecords(t *testing.T) {
	clock := newClock()
	names, stores := allStores(t, clock.Now)
	for i, store := range stores {
		for name, rule := range map[string]func(spec string) sluice.Rule[call]{
			"spec": func(spec string) sluice.Rule[call] { return sluice.Rule[call]{Spec: spec} },
			"PolicyFor": func(spec string) sluice.Rule[call] {
				return sluice.Rule[call]{PolicyFor: func(call) (algo.Policy, error) { return mustPolicy(spec), nil }}
			},
		} {
			t.Run(fmt.Sprint(names[i], " ", name), func(t *testing.T) {
				o := sluice.Options[call]{Namespace: name, Clock: clock.Now, Timeout: time.Minute}
				for _, c := range kindChanges {
					r := rule(c.spec)
					r.Name, r.Key = "user", byUser
					d := must(t)(newLimiter(t, o, store, r).AllowN(background, ann, 3))
					require.Equal(t, c.left >= 3, d.Allowed, c.spec)
					require.Equal(t, c.left-3, d.Remaining, c.spec)
				}
			})
		}
	}
}

// One limiter gets policies of more kinds than it keeps texts for.
func TestPolicyForOfManyKinds(t *testing.T) {
	periods := []string{"s", "m", "h", "d", "2h", "3h", "4h", "5h", "6h", "7h"}
	for _, store := range memoryStores() {
		l := newLimiter(t, sluice.Options[call]{}, store, sluice.Rule[call]{
			Name: "user", PolicyFor: func(c call) (algo.Policy, error) {
				return mustPolicy("all(fixedwindow 10/30d; gcra 100/" + c.user + ")"), nil
			},
		})
		for i := range 3 {
			for _, period := range periods {
				require.EqualValues(t, 9-i, must(t)(l.Allow(background, call{user: period})).Remaining)
			}
		}
	}
}

func TestPolicyForDoesNotAllocateForKnownKinds(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("with coverage counters Allow is too large to be inlined")
	}
	plans := []algo.Policy{mustPolicy("gcra 100000/s"), mustPolicy("tokenbucket 100000/s"), mustPolicy("all(gcra 100000/s; fixedwindow 1000000000/d)")}
	n := 0
	l := newLimiter(t, sluice.Options[call]{}, nil, sluice.Rule[call]{
		Name: "plan", Key: byUser, PolicyFor: func(call) (algo.Policy, error) { n++; return plans[n%len(plans)], nil },
	})
	requireAllocations(t, 0, func() {
		if d, err := l.Allow(background, ann); err != nil || !d.Allowed {
			panic(err)
		}
	})
}
