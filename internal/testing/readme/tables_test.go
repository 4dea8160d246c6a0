package readme

import (
	"fmt"
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

// The rows have a policy, and the most units that it admits in any of these intervals.
func TestTablesOfAdmittedUnitsEqualBound(t *testing.T) {
	day := 24 * time.Hour
	for page, table := range map[string]struct {
		row       string
		rows      int
		intervals []time.Duration
	}{
		"README.md":      {"(?m)^\\| `([^`]+)` \\| [^|]* \\| (\\d+) \\| (\\d+) \\|$", 6, []time.Duration{time.Second, time.Minute}},
		"docs/client.md": {"(?m)^\\| `([^`]+)` \\| (\\d+) \\| (\\d+) \\| (\\d+) \\| (\\d+) \\|", 7, []time.Duration{time.Second, time.Minute, time.Hour, day}},
	} {
		rows := regexp.MustCompile(table.row).FindAllStringSubmatch(readFile(t, root, page), -1)
		require.Len(t, rows, table.rows, page)
		for _, row := range rows {
			for i, interval := range table.intervals {
				require.Equal(t, fmt.Sprint(parse(t, row[1]).Bound(interval)), row[2+i], "%s: %v in any %v", page, row[1], interval)
			}
		}
	}
}

// The limits are common ones. The states have between one unit and all units in use.
func TestSizesOfStatesEqualTheTable(t *testing.T) {
	table := readFile(t, root, "docs/policies.md")
	for _, algorithm := range []string{"gcra", "tokenbucket", "fixedwindow"} {
		least, most := math.MaxInt, 0
		for _, limit := range []string{"10/s", "100/m", "1000/h", "100000/h", "1000/d"} {
			policy := parse(t, algorithm+" "+limit)
			least = min(least, len(spend(t, policy, 0, 1)))
			most = max(most, len(spend(t, policy, 0, policy.Limit().Count)))
		}
		require.Equal(t, least, most, algorithm)
		require.Regexp(t, fmt.Sprintf(`(?m)^\| \[%s\].*\| %d bytes \|`, algorithm, most), table)
	}
}

// Each slot, also the trailing one, has a number of units that takes one byte, and then two bytes.
func TestSizesOfMovingWindowsEqualTheTable(t *testing.T) {
	table := readFile(t, root, "docs/policies.md")
	for _, slots := range []int{1, 2, 12} {
		policy := parse(t, fmt.Sprintf("movingwindow 1000000/h slots=%d", slots))
		for bytes, cost := range map[int]int64{1: 255, 2: 65535} {
			costs := make([]int64, slots+1)
			for i := range costs {
				costs[i] = cost
			}
			state := spend(t, policy, time.Hour/time.Duration(slots), costs...)
			words := fmt.Sprintf(`(?m)^\| \[movingwindow\].*\| %d bytes, and 1 or 2 for each of n \+ 1 slots \|`, len(state)-bytes*(slots+1))
			require.Regexp(t, words, table, "slots=%d", slots)
		}
	}
}

// spend returns the state after steps with these costs. apart is the time between two steps.
func spend(t *testing.T, policy algo.Policy, apart time.Duration, costs ...int64) (state []byte) {
	t.Helper()
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, cost := range costs {
		next, r, err := policy.Step(nil, state, now, cost)
		require.NoError(t, err)
		require.True(t, r.Allowed, "%s: %+v", policy, r)
		state, now = next, now.Add(apart)
	}
	return state
}
