package benchmarks

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage/memory"
)

// sluiceMemory is a limiter with one rule.
var sluiceMemory = sluiceRules(1)

// numbers are words for the names of limiters.
var numbers = [...]string{1: "one", 2: "two", 3: "three"}

// sluiceRules is one limiter with that many rules. Each rule limits every key.
func sluiceRules(rules int) memoryLimiter {
	name := "sluice"
	if rules > 1 {
		name += ", " + numbers[rules] + " rules"
	}
	return memoryLimiter{name, func(t testing.TB, count int64, period time.Duration) func(string) bool {
		return openSluiceRules(t, count, period, rules)
	}}
}

func openSluiceRules(t testing.TB, count int64, period time.Duration, rules int) func(string) bool {
	l, ctx := newSluice(t, count, period, rules), deadline(t)
	return func(key string) bool {
		d, err := l.Allow(ctx, key)
		if err != nil {
			panic(err) // an error must not count as a denial
		}
		if len(d.Results) != rules {
			panic("a decision lacks the result of a rule")
		}
		return d.Allowed
	}
}

func newSluice(t testing.TB, count int64, period time.Duration, rules int) *sluice.Limiter[string] {
	var made []sluice.Rule[string]
	spec := fmt.Sprintf("gcra %d/%v", count, period)
	for i := range rules {
		made = append(made, sluice.By("rule "+numbers[i+1], func(key string) string { return key }, spec))
	}
	l, err := sluice.For(&memory.Store{MaxKeys: 1 << 22}, made...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func identity(key string) string { return key }

// The benchmarks measure whole decisions: each rule has its own state, and its result is in the decision.
func TestSluiceDecidesEveryRule(t *testing.T) {
	const count = 5
	for rules := 1; rules <= 3; rules++ {
		l, ctx := newSluice(t, count, 50_000*time.Hour, rules), deadline(t)
		for i := range rules {
			name, key := "rule "+numbers[i+1], keyOf(i)
			for used := range int64(count) {
				d, err := l.Allow(ctx, key)
				require.NoError(t, err)
				require.True(t, d.Allowed)
				require.Len(t, d.Results, rules)
				for j, r := range d.Results {
					require.Equal(t, "rule "+numbers[j+1], r.Rule)
					require.Equal(t, key, r.Key)
					require.Equal(t, count-used-1, r.Remaining)
				}
			}
			for j := range rules { // only the rule name denies the next call
				if j != i {
					require.NoError(t, l.ResetRule(ctx, "rule "+numbers[j+1], key))
				}
			}
			d, err := l.Allow(ctx, key)
			require.NoError(t, err)
			require.False(t, d.Allowed)
			require.Equal(t, name, d.Rule)
			require.Positive(t, d.RetryAfter)
		}
	}
}
