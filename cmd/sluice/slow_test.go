package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
)

// slow is a replay that shares no code with the one it judges: lines by regular
// expression, time by time.Parse, order by sorting, and every decision asked of
// an oracle that looks at all that the key was ever admitted.
var slow = []struct {
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

func slowRead(t *testing.T, r io.Reader) (requests []request, lines int64) {
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

func slowReplay(requests []request, oracle algotest.Oracle, period time.Duration) (denied map[string]int64, worst int64) {
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

func judge(t *testing.T, name, log string) {
	requests, lines := slowRead(t, strings.NewReader(log))
	require.NotEmpty(t, requests)
	keys := make(map[string]bool)
	for _, r := range requests {
		keys[r.key] = true
	}
	for _, s := range slow {
		t.Run(name+"/"+s.policy, func(t *testing.T) {
			t.Parallel()
			denied, worst := slowReplay(requests, s.oracle, s.period)
			code, out, errs := sluice(t, log, "replay", "--json", "--top", "1000000", "-p", s.policy, "-")
			require.Zero(t, code, errs)
			var got jsonReport
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
			for n := range maps.Values(denied) {
				sum += n
			}
			require.Equal(t, sum, p.Denied)
		})
	}
}

// TestAgreesWithTheSlowReplay replays the first half of the sample, for the slow
// replay takes four times as long for all of it, and every *.log in the folder that
// SLUICE_LOGS names, if it names one.
func TestAgreesWithTheSlowReplay(t *testing.T) {
	z, err := gzip.NewReader(sample.Open())
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	judge(t, "sample", string(text[:len(text)/2])) // cut within a line

	folder, ok := os.LookupEnv("SLUICE_LOGS")
	if !ok {
		return
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		judge(t, filepath.Base(file), string(text))
	}
}
