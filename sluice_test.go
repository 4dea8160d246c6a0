package sluice_test

// These tests promise what the functions that make limiters return or refuse.

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// Two limiters of New on one store share the state of a key only if their policies are equal. The spelling
// of the specs does not matter.
func TestLimitersWithDifferentPoliciesShareAStore(t *testing.T) {
	store := new(memory.Store)
	left := func(spec string) int64 {
		d, err := sluice.MustNew(store, spec).Allow(context.Background(), "ann")
		require.NoError(t, err)
		return d.Remaining
	}
	require.EqualValues(t, 4, left("fixedwindow 5/hour"))
	require.EqualValues(t, 99, left("fixedwindow 100/min"))
	require.EqualValues(t, 4, left("gcra 5/hour"))
	require.EqualValues(t, 3, left(" fixedwindow  5/60m align=first"))
}

func byBoth(c call) string { return c.user + c.resource }

// Join is all or nothing across limiters, and shares their records.
func TestJoinChargesTheRulesOfAllLimitersOrNone(t *testing.T) {
	inBubbles(t, memoryStores(), func(t *testing.T, store storage.Store) {
		users := newLimiter(t, sluice.Options[call]{Namespace: "users"}, store, sluice.Rule[call]{Name: "user", Key: byUser, Spec: "gcra 3/h"})
		resources := newLimiter(t, sluice.Options[call]{}, store, sluice.Rule[call]{Name: "resource", Key: byResource, Policy: mustPolicy("gcra 5/h")})
		both, err := sluice.Join(users, resources)
		require.NoError(t, err)
		require.Equal(t, []string{"user", "resource"}, both.Rules())
		in := call{user: "ann", resource: "a"}
		require.True(t, must(t)(both.AllowN(background, in, 2)).Allowed)
		require.Equal(t, []int64{1}, remaining(t, users, in))
		require.Equal(t, []int64{3}, remaining(t, resources, in))
		require.Equal(t, "user", must(t)(both.AllowN(background, in, 2)).Rule)
		require.Equal(t, []int64{1, 3}, remaining(t, both, in), "a denial charges nothing")
		require.True(t, must(t)(users.Allow(background, in)).Allowed)
		require.False(t, must(t)(both.Allow(background, in)).Allowed)
		require.NoError(t, both.ResetRule(background, "user", in))
		require.True(t, must(t)(both.Allow(background, in)).Allowed)
	})
	own := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 3/h")...)
	same, err := sluice.Join(own)
	require.NoError(t, err)
	must(t)(same.Allow(background, ann))
	require.Equal(t, []int64{2}, remaining(t, own, ann))
}

// retrying is a store of a user. A comparison of two such stores panics.
type retrying struct {
	storage.Store
	_ []time.Duration // the pauses
}

func TestJoinRefuses(t *testing.T) {
	store := new(memory.Store)
	with := func(o sluice.Options[call], store storage.Store, name string) *sluice.Limiter[call] {
		return newLimiter(t, o, store, sluice.Rule[call]{Name: name, Spec: "gcra 1/s"})
	}
	a, zero := with(sluice.Options[call]{}, store, "a"), new(sluice.Limiter[call])
	var pairs [][]*sluice.Limiter[call] // on stores that cannot be compared
	for _, store := range []storage.Store{retrying{Store: store}, swapOnly{retrying{Store: store}}} {
		pairs = append(pairs, []*sluice.Limiter[call]{with(sluice.Options[call]{}, store, "a"), with(sluice.Options[call]{}, store, "b")})
	}
	for text, refused := range map[string][][]*sluice.Limiter[call]{
		"sluice: Join needs at least one limiter":                                           {{}},
		"sluice: Join: limiter 0 is nil":                                                    {{nil, a}},
		"sluice: Join: limiter 1 is nil":                                                    {{a, nil}},
		"sluice: Join: limiter 0 is a zero Limiter; make it with New, For or Options.New":   {{zero}, {zero, a}},
		"sluice: Join: limiter 1 is a zero Limiter; make it with New, For or Options.New":   {{a, zero}},
		"sluice: Join: limiters 0 and 1 have different stores; make them with the same one": append(pairs, []*sluice.Limiter[call]{a, with(sluice.Options[call]{}, nil, "b")}),
		"sluice: Join: limiters 0 and 1 have different Options.Clock":                       {{a, with(sluice.Options[call]{Clock: newClock().Now}, store, "b")}},
		"sluice: Join: limiters 0 and 1 have different Options.Group":                       {{a, with(sluice.Options[call]{Group: byBoth}, store, "b")}},
		`sluice: two rules have the name "a"; give each rule its own name`:                  {{a, with(sluice.Options[call]{}, store, "a")}},
	} {
		for _, limiters := range refused {
			_, err := sluice.Join(limiters...)
			require.EqualError(t, err, text)
		}
	}
}
