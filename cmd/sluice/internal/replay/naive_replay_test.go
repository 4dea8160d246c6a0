package replay

import (
	"bufio"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

// naive has the policies of a replay that shares no code with the real one. It reads lines by a regular
// expression and times by time.Parse, and sorts all requests. Its policies decide by all earlier allowed
// requests of the key.
var naive = []struct {
	policy string
	oracle algotest.Oracle
	period time.Duration
}{
	{"gcra 30/m burst=10", algotest.Bucket(algo.Per(30, time.Minute), 10), time.Minute},
	{"gcra 10/m burst=5", algotest.Bucket(algo.Per(10, time.Minute), 5), time.Minute},
	{"tokenbucket 10/m", algotest.Bucket(algo.Per(10, time.Minute), 10), time.Minute},
	{"tokenbucket 3/20s burst=7 refill=interval", algotest.IntervalBucket(algo.Per(3, 20*time.Second), 7), 20 * time.Second},
	{"fixedwindow 10/m", algotest.WindowFromFirst(algo.Per(10, time.Minute)), time.Minute},
	{"fixedwindow 30/h align=clock offset=15m", algotest.WindowByClock(algo.Per(30, time.Hour), 15*time.Minute), time.Hour},
	{"movingwindow 10/m", algotest.MovingWindow(algo.Per(10, time.Minute), 1, false), time.Minute},
	{"movingwindow 10/m slots=12 trailing=whole", algotest.MovingWindow(algo.Per(10, time.Minute), 12, true), time.Minute},
}

var line = regexp.MustCompile(`^(\S+) \S+ \S+ \[([^\]]+)\] ".*" \d{3} (?:\d+|-)`)

type request struct {
	at  time.Time
	key string
}

func naiveRead(t *testing.T, r io.Reader) (requests []request, lines int64) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		lines++
		m := line.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
		if err == nil {
			requests = append(requests, request{at, m[1]})
		}
	}
	require.NoError(t, in.Err())
	slices.SortStableFunc(requests, func(a, b request) int { return a.at.Compare(b.at) })
	return requests, lines
}

func naiveReplay(requests []request, oracle algotest.Oracle, period time.Duration) (denied map[string]int64, worst int64) {
	logs := make(map[string]algotest.Log)
	denied = make(map[string]int64)
	for _, r := range requests {
		log := logs[r.key]
		if oracle(log, r.at) < 1 {
			denied[r.key]++
			continue
		}
		log.Add(r.at, 1)
		logs[r.key] = log
	}
	for _, log := range logs {
		worst = max(worst, log.Worst(period))
	}
	return denied, worst
}

// TestAgreesWithTheNaiveReplay replays a part of the sample, because the naive replay takes four times as
// long for twice as many requests.
func TestAgreesWithTheNaiveReplay(t *testing.T) {
	log := clitest.PartOfSample(t, 2)
	requests, lines := naiveRead(t, strings.NewReader(log))
	require.NotEmpty(t, requests)
	keys := make(map[string]bool)
	for _, r := range requests {
		keys[r.key] = true
	}
	for _, s := range naive {
		t.Run(s.policy, func(t *testing.T) {
			t.Parallel()
			denied, worst := naiveReplay(requests, s.oracle, s.period)
			out := clitest.Ok(t, log, "replay", "--json", "--top", "1000000", "-p", s.policy, "-")
			var got JSONReport
			require.NoError(t, json.Unmarshal([]byte(out), &got))
			require.Equal(t, lines, got.Lines)
			require.EqualValues(t, lines-int64(len(requests)), got.Skipped)
			p := got.Policies[0]
			require.EqualValues(t, len(requests), p.Requests)
			require.EqualValues(t, len(keys), p.Keys)
			require.Equal(t, worst, p.Worst.Admitted)
			require.LessOrEqual(t, p.Worst.Admitted, p.Worst.Bound)
			byKey := make(map[string]int64)
			for _, d := range p.TopDenied {
				byKey[d.Key] = d.Denied
			}
			require.Equal(t, denied, byKey)
			var sum int64
			for _, n := range denied {
				sum += n
			}
			require.Positive(t, sum)
			require.Equal(t, sum, p.Denied)
		})
	}
}
