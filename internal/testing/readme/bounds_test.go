package readme

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

// admitted is a row of a table: a policy, and the most units that it admits in any second,
// minute, hour and day.
type admitted struct {
	policy algo.Policy
	most   [4]int64
}

var intervals = [4]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}

func rows(t *testing.T, page, row string) (all []admitted) {
	t.Helper()
	for _, found := range regexp.MustCompile(row).FindAllStringSubmatch(readFile(t, root, page), -1) {
		a := admitted{policy: parse(t, found[1])}
		for i := range a.most {
			if found[2+i] == "" { // the table has fewer intervals
				continue
			}
			n, err := strconv.ParseInt(found[2+i], 10, 64)
			require.NoError(t, err)
			a.most[i] = n
		}
		all = append(all, a)
	}
	return all
}

func TestTablesOfAdmittedUnitsEqualBound(t *testing.T) {
	for page, table := range map[string]struct {
		row  string
		rows int
	}{
		"README.md":      {"(?m)^\\| `([^`]+)` \\| [^|]* \\| (\\d+) \\| (\\d+) \\|()()$", 6},
		"docs/client.md": {"(?m)^\\| `([^`]+)` \\| (\\d+) \\| (\\d+) \\| (\\d+) \\| (\\d+) \\|", 7},
	} {
		found := rows(t, page, table.row)
		require.Len(t, found, table.rows, page)
		for _, a := range found {
			for i, interval := range intervals {
				if a.most[i] == 0 {
					continue
				}
				require.Equal(t, a.policy.Bound(interval), a.most[i], "%s: %v in any %v", page, a.policy, interval)
			}
		}
	}
}

// The page recommends policies for a quota of 1000 an hour, and warns of gcra 1000/h. The test runs
// callers that take as much as possible.
func TestRecommendedPoliciesKeepTheQuota(t *testing.T) {
	found := rows(t, "docs/client.md", "(?m)^\\| `([^`]+)` \\| (\\d+) \\| (\\d+) \\| (\\d+) \\| (\\d+) \\|")
	random := rand.New(rand.NewPCG(1, 2))
	kept := 0
	for _, a := range found {
		most := int64(0)
		for range 3 {
			most = max(most, mostInAnHour(t, a.policy, random))
		}
		require.LessOrEqual(t, most, a.most[2], "%v", a.policy)
		if a.most[2] <= 1000 {
			kept++
		}
		if a.policy.String() == "gcra 1000/h" {
			require.EqualValues(t, 2000, most, "the page warns of this")
		}
	}
	require.Equal(t, 5, kept, "policies that keep the quota")
}

// mostInAnHour returns the most units that a caller gets in any hour of four hours. The caller takes
// single units at random seconds. From a random second on, it takes all units that are left. Times are rounded
// down to microseconds, so an hour can have calls at both of its ends.
func mostInAnHour(t *testing.T, p algo.Policy, random *rand.Rand) (most int64) {
	t.Helper()
	const hour = 3600
	var taken [4 * hour]int64
	var state []byte
	greedy := random.IntN(2 * hour)
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	sum := int64(0)
	for i := range taken {
		now, cost := start.Add(time.Duration(i)*time.Second), int64(1)
		look, err := p.Peek(state, now, 1)
		require.NoError(t, err)
		if i >= greedy {
			cost = look.Remaining
		}
		if look.Remaining > 0 && (i >= greedy || random.IntN(hour) == 0) {
			next, r, err := p.Step(nil, state, now, cost)
			require.NoError(t, err)
			state, taken[i] = next, r.Paid
		}
		if sum += taken[i]; i > hour {
			sum -= taken[i-hour-1]
		}
		most = max(most, sum)
	}
	return most
}
