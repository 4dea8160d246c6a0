package benchmarks

import (
	"fmt"
	"testing"
	"time"

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
	var made []sluice.Rule[string]
	for i := range rules {
		made = append(made, sluice.By("rule "+numbers[i+1], identity, fmt.Sprintf("gcra %d/%v", count, period)))
	}
	l, err := sluice.For(&memory.Store{MaxKeys: 1 << 22}, made...)
	must(t, err)
	ctx := deadline(t)
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

func identity(key string) string { return key }
