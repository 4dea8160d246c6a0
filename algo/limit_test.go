package algo_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestParseLimit(t *testing.T) {
	tracetest.Answers(t, "testdata/limits.txt", func(spec string) string { return answer(t, spec) })
}

// answer returns the limit or the error for a spec. A limit is the one that it is written as, and the period in a hint is
// valid.
func answer(t *testing.T, spec string) string {
	t.Helper()
	l, err := algo.ParseLimit(spec)
	if err == nil {
		again, err := algo.ParseLimit(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
		require.NoError(t, l.Validate())
		return fmt.Sprintf("%d every %v, written %v", l.Count, l.Period, l)
	}
	if _, hint, ok := strings.Cut(err.Error(), "or 24h; "); ok {
		words := strings.Fields(hint)
		_, err := algo.ParseLimit("100/" + words[len(words)-1])
		require.NoError(t, err, spec)
	}
	return err.Error()
}

// The time to find a hint is linear. If it were quadratic, the test would take minutes.
func TestParseLimitWithALongPeriod(t *testing.T) {
	_, err := algo.ParseLimit("100/" + strings.Repeat("s", 1<<20))
	require.ErrorContains(t, err, "neither a unit")
}

func FuzzParseLimit(f *testing.F) {
	f.Fuzz(func(t *testing.T, s string) {
		l, err := algo.ParseLimit(s)
		if err != nil {
			return
		}
		require.NoError(t, l.Validate())
		again, err := algo.ParseLimit(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}

func ExampleParseLimit() {
	l, err := algo.ParseLimit("100/min")
	fmt.Println(l, err)
	fmt.Println(l.Count, l.Period)
	_, err = algo.ParseLimit("100/moon")
	fmt.Println(err)
	// Output:
	// 100/m <nil>
	// 100 1m0s
	// algo: limit "100/moon": the period "moon" is neither a unit (us, ms, s or sec, m or min, h or hour, d or day) nor a duration such as 250ms or 24h
}

func ExampleLimit_Validate() {
	fmt.Println(algo.Per(100, time.Minute).Validate())
	fmt.Println(algo.Per(0, time.Minute).Validate())
	// Output:
	// <nil>
	// algo: Limit.Count must be at least 1, got 0
}

func ExamplePer() {
	fmt.Println(algo.Per(5, 250*time.Millisecond))
	// Output: 5/250ms
}

func TestLongestPeriodIsMaxPeriod(t *testing.T) {
	require.NoError(t, algo.Limit{Count: 1, Period: algo.MaxPeriod}.Validate())
	require.Error(t, algo.Limit{Count: 1, Period: algo.MaxPeriod + time.Microsecond}.Validate())
}
