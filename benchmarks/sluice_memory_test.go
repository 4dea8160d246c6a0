package benchmarks

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/storage/memory"
)

// sluiceMemory is a limiter with one rule.
var sluiceMemory = memoryLimiter{"sluice", openSluice}

func openSluice(t testing.TB, count int64, period time.Duration) func(string) bool {
	return openSluiceRules(t, count, period, 1)
}

func openSluiceRules(t testing.TB, count int64, period time.Duration, rules int) func(string) bool {
	policy, err := gcra.New(gcra.Options{Limit: algo.Per(count, period)})
	if err != nil {
		t.Fatal(err)
	}
	made := []compose.Rule[string]{}
	for i := range rules {
		made = append(made, compose.Rule[string]{Name: "rule " + string(rune('a'+i)), Key: identity, Policy: policy})
	}
	l, err := compose.New(&memory.Store{MaxKeys: 1 << 22}, made...)
	if err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	return func(key string) bool {
		d, err := l.Allow(ctx, key)
		if err != nil {
			panic(err) // an error must not count as a denial
		}
		return d.Allowed
	}
}

func identity(key string) string { return key }
