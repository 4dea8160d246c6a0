package readme

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// results is a file of benchmarks/results.
type results struct {
	CPUs    int
	Figures []struct {
		Work, Name string
		Value      float64
	}
	Goals []struct {
		Work, To, What string
		Ratio          float64
	}
}

func readResults(t *testing.T, area string) (r results) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(readFile(t, root, "benchmarks/results", area+".json")), &r))
	return r
}

// value returns a figure of sluice as benchmarks/README.md has it: with three significant digits and commas.
func (r results) value(t *testing.T, work string) string {
	t.Helper()
	for _, f := range r.Figures {
		if f.Work == work && f.Name == "sluice" {
			unit := math.Pow(10, math.Floor(math.Log10(f.Value))-2)
			digits := fmt.Sprintf("%.0f", math.Round(f.Value/unit)*unit)
			for i := len(digits) - 3; i > 0; i -= 3 {
				digits = digits[:i] + "," + digits[i:]
			}
			return digits
		}
	}
	t.Fatalf("the results have no figure of sluice for %q", work)
	return ""
}

// ratio returns the largest ratio of the goals for works that contain a text.
func (r results) ratio(t *testing.T, work, to, what string) string {
	t.Helper()
	largest := 0.0
	for _, g := range r.Goals {
		if strings.Contains(g.Work, work) && g.To == to && g.What == what {
			largest = max(largest, g.Ratio)
		}
	}
	require.NotZero(t, largest, "the results compare %q with %s", work, to)
	return fmt.Sprintf("%.2f", largest)
}

// benchmarkSentences returns the sentences of the README about the benchmarks, with the figures of the committed results.
func benchmarkSentences(t *testing.T) []string {
	redis, memory := readResults(t, "redis"), readResults(t, "memory")
	const one, single, speed = "1x64, 10,000 keys", "1x1, 10,000 keys", "decisions a second"
	return []string{
		fmt.Sprintf("On %d cores with a local Redis, 64 callers in one process get %s decisions a second, %s times as many as with redis_rate.",
			redis.CPUs, redis.value(t, one), redis.ratio(t, one, "redis_rate", speed)),
		fmt.Sprintf("A lone caller gets %s of the speed of redis_rate.", redis.ratio(t, single, "redis_rate", speed)),
		fmt.Sprintf("In memory with one key, the simplest limiter is up to %s times as fast as sluice.", memory.ratio(t, "1 key, ", "sethvargo/go-limiter", "ns")),
	}
}

// benchmarkFigure is a number that a benchmark measures, or a comparison of two of them.
var benchmarkFigure = regexp.MustCompile(`[\d.,]*\d (?:decisions (?:a|per) second|times (?:as|the|faster|slower|redis_rate)|of the speed|ns (?:for|of|in|differs)|ns\.)|[\d.,]+% (?:longer|faster|slower)|(?:takes?|about|by) [\d.]+ (?:ns|µs|ms)\b|they get [\d.,]+\d`)

// otherMeasurements are figures that scripts/bench.sh does not measure, with the text around them.
var otherMeasurements = map[string][]string{
	"ARCHITECTURE.md":      {"then took 66% to 70% longer"},
	"observe/doc.go":       {"takes about 70 ns", "takes 30 to 160 ns for each denial", "slower by about 250 ns"},
	"storage/redis/doc.go": {"takes the server 0.1 to 0.2 ms"},
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n// ", "\n")), " ")
}

// The pages of benchmarks are left out: scripts/bench.sh writes them from the results, or their figures are from
// profiles, as benchmarks/README.md says.
func TestEveryFigureOfAPageIsMeasured(t *testing.T) {
	all := filesAt(t, "*/doc.go", "storage/*/doc.go")
	maps.Copy(all, pages(t))
	sentences := benchmarkSentences(t)
	for page, text := range all {
		if strings.HasPrefix(page, "benchmarks/") {
			continue
		}
		text = oneLine(text)
		for _, s := range otherMeasurements[page] {
			require.True(t, strings.Contains(text, s), "otherMeasurements has a text that %s no longer has: %s", page, s)
		}
		for _, s := range append(otherMeasurements[page], sentences...) {
			text = strings.ReplaceAll(text, s, " ")
		}
		if unproven := benchmarkFigure.FindAllString(text, -1); len(unproven) > 0 {
			t.Errorf("%s has figures that are not in benchmarks/results: %s\nThe results of the last run of scripts/bench.sh:\n%s",
				page, strings.Join(unproven, ", "), strings.Join(sentences, "\n"))
		}
	}
}
