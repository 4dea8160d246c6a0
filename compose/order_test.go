package compose_test

// These tests promise that the order of the parts of a Stack does not matter to its states, and that results name the parts in
// the order of the user.

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/policy"
)

func allOf(specs ...string) *compose.Stack {
	return mustPolicy("all(" + strings.Join(specs, "; ") + ")").(*compose.Stack)
}

var partSpecs = []string{
	"gcra 5/s", "gcra 5/s burst=3", "gcra 9/s", "gcra 20/m", "tokenbucket 5/s", "tokenbucket 12/m refill=interval", "fixedwindow 7/2s",
	"fixedwindow 40/m align=clock", "movingwindow 6/s slots=3", "movingwindow 30/m trailing=whole", "movingwindow 30/m",
}

// Two stacks of the same parts in different orders take turns on one state. A third stack makes all operations.
func TestPartsMayChangePlaces(t *testing.T) {
	denied := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 5))
		specs := make([]string, 1+random.IntN(5))
		for i := range specs {
			specs[i] = partSpecs[random.IntN(len(partSpecs))]
		}
		stack := allOf(specs...)
		var state, want []byte
		now := at(0)
		for range 60 {
			now = now.Add(time.Duration(random.ExpFloat64() * float64(300*time.Millisecond)))
			places := random.Perm(len(specs)) // places[i] is the index in specs of part i of the shuffled stack
			shuffledSpecs := make([]string, len(specs))
			for i, place := range places {
				shuffledSpecs[i] = specs[place]
			}
			shuffled := allOf(shuffledSpecs...)
			op, cost := policy.Ops[random.IntN(len(policy.Ops))], 1+random.Int64N(4)
			next, wantResult, err := op.Apply(stack, nil, want, now, cost)
			require.NoError(t, err)
			got, result, err := op.Apply(shuffled, nil, state, now, cost)
			require.NoError(t, err)

			require.Equal(t, next, got, "%v of %v and %v", op, stack, shuffled)
			require.Equal(t, decided(t, stack, next, now, &wantResult), decided(t, shuffled, got, now, &result))
			result.Part = wantResult.Part
			require.Equal(t, wantResult, result)
			state, want = got, next
			if !result.Allowed {
				denied++
			}
		}
	}
	require.Greater(t, denied, 1000)
}

// decided returns why the part that Result.Part names has decided: its wait after a denial, otherwise its remaining units. state is
// the state after the operation. Parts that are equal in this are not told apart.
func decided(t *testing.T, s *compose.Stack, state []byte, now time.Time, r *algo.Result) any {
	for own, bytes := range s.Split(state) {
		if own.String() != s.Parts()[r.Part].String() {
			continue
		}
		peeked, err := own.Peek(bytes, now, r.Cost)
		require.NoError(t, err)
		if !r.Allowed {
			return peeked.RetryAfter
		}
		return peeked.Remaining
	}
	return nil
}

func ExampleKind() {
	for _, spec := range []string{"gcra 10/s", "tokenbucket 10/s refill=interval", "all(gcra 10/s; fixedwindow 1000/h)", "all(fixedwindow 5/h; gcra 1/s)"} {
		p, _ := compose.ParsePolicy(spec)
		fmt.Println(compose.Kind(p))
	}
	// Output:
	// gcra
	// tokenbucket
	// all(fixedwindow/h,gcra/s)
	// all(fixedwindow/h,gcra/s)
}

// named is a policy of a user.
type named struct {
	algo.Policy
	name string
}

func (n named) String() string { return n.name }

func TestKind(t *testing.T) {
	inner := mustPolicy("gcra 10/s")
	own, err := compose.All(named{inner, "penalty 3"}, mustPolicy("fixedwindow 3/h"))
	require.NoError(t, err)
	for want, p := range map[string]algo.Policy{
		"fixedwindow":                   mustPolicy("fixedwindow 3/h align=clock"),
		"movingwindow":                  mustPolicy("movingwindow 3/h slots=3"),
		"all(gcra/1m30s,gcra/2d)":       mustPolicy("all(gcra 3/48h; gcra 9/90s burst=4)"),
		"all(gcra/s,tokenbucket/250ms)": mustPolicy("all(tokenbucket 1/250ms; all(gcra 3/s))"),
		"penalty":                       named{inner, "penalty 3/m ban=1h"},
		"penalty(3)":                    named{inner, "penalty(3)"},
		"":                              named{inner, ""},
		"é{:}":                          named{inner, "é{:} x"},
		strings.Repeat("p", 64):         named{inner, strings.Repeat("p", 70)},
		"all(fixedwindow/h,penalty/s)":  own,
	} {
		require.Equal(t, want, compose.Kind(p))
	}
	require.Equal(t, compose.Kind(mustPolicy("all(gcra 1/s; gcra 2/m)")), compose.Kind(mustPolicy("all(gcra 9/m burst=3; gcra 4/s)")))
	require.NotEqual(t, compose.Kind(mustPolicy("all(gcra 1/s; gcra 2/m)")), compose.Kind(mustPolicy("all(gcra 1/s; gcra 2/h)")))
}
