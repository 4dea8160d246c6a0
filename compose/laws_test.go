package compose_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/compose"
)

// A stack is tried over every limit L of the searches. 2L and 9L stand for one of
// a few more units in a period two or nine times as long, so that each part is
// the one that binds in its turn.
var stacks = []string{
	"all(gcra L; gcra 9L)",
	"all(gcra L; gcra L)",
	"all(tokenbucket L refill=interval; tokenbucket 2L burst=3)",
	"all(fixedwindow L; fixedwindow 2L align=clock)",
	"all(movingwindow L; movingwindow 2L slots=2 trailing=whole)",
	"all(fixedwindow 9L; gcra L burst=2; movingwindow 2L)",
}

func over(stack string, l algo.Limit) (algo.Policy, error) {
	times := func(n int64) string {
		count := min(l.Count, algo.MaxCount/n-1)*n + n/2
		period := min(l.Period, algo.MaxCount/time.Duration(n)) * time.Duration(n)
		return algo.Per(count, period).String()
	}
	return compose.ParsePolicy(strings.NewReplacer("2L", times(2), "9L", times(9), "L", times(1)).Replace(stack))
}

func TestStacksOfTheLaws(t *testing.T) {
	p, err := over("all(gcra L; gcra 9L; gcra 2L)", algo.Per(10, time.Second))
	require.NoError(t, err)
	require.Equal(t, "all(gcra 10/s; gcra 94/9s; gcra 21/2s)", p.String())
}

func TestLaws(t *testing.T) {
	for _, stack := range stacks {
		subject := algotest.Subject{
			Name:     stack,
			New:      func(l algo.Limit) (algo.Policy, error) { return over(stack, l) },
			Windowed: true,
			Composed: true,
		}
		t.Run(stack, func(t *testing.T) {
			t.Parallel()
			holds(t, subject)
		})
	}
}

// holds is algotest.Run, but for what two laws say of a refund to one account: that
// a full one stays the very same, and that a state has one time. A refund
// to a stack may find one part full, and leave it at its time, and fill another.
func holds(t *testing.T, s algotest.Subject) {
	unrefunded := s
	unrefunded.New = func(l algo.Limit) (algo.Policy, error) {
		p, err := s.New(l)
		return keepsRefunds{p}, err
	}
	for name, law := range map[string]func(testing.TB, algotest.Subject){
		"1 Deterministic":     algotest.Deterministic,
		"2 FreshIsZero":       algotest.FreshIsZero,
		"3 RoundTrip":         algotest.RoundTrip,
		"5 RetryIsExact":      algotest.RetryIsExact,
		"6 NextRefillIsExact": algotest.NextRefillIsExact,
		"7 LapseIsExact":      algotest.LapseIsExact,
		"8 Bounded":           algotest.Bounded,
		"10 StaleDenial":      algotest.StaleDenialIsTrue,
		"11 Indivisible":      algotest.Indivisible,
		"12 Monotone":         algotest.Monotone,
		"13 Accounts":         algotest.Accounts,
		"14 Reconfigured":     algotest.Reconfigured,
		"Frugal":              algotest.Frugal,
	} {
		t.Run(name, func(t *testing.T) { law(t, s) })
	}
	t.Run("4 DenialIsInert", func(t *testing.T) { algotest.DenialIsInert(t, unrefunded) })
	t.Run("9 TimeMayStepBack", func(t *testing.T) { algotest.TimeMayStepBack(t, unrefunded) })
}

// keepsRefunds gives nothing back.
type keepsRefunds struct{ algo.Policy }

func (p keepsRefunds) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	r, err := p.Peek(state, now, cost)
	if err != nil {
		return dst, r, err
	}
	return append(dst, state...), r, nil
}
