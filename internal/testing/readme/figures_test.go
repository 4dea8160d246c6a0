package readme

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
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

// benchmarkSentences returns the sentences of the README about the benchmarks. It writes the figures of
// the committed results into them.
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

// unprovenFigures returns the figures in a text that are in none of the sentences.
func unprovenFigures(text string, sentences []string) []string {
	text = oneLine(text)
	for _, s := range sentences {
		text = strings.ReplaceAll(text, s, " ")
	}
	return benchmarkFigure.FindAllString(text, -1)
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n// ", "\n")), " ")
}

func TestReadmeHasTheFiguresOfTheBenchmarks(t *testing.T) {
	readme := oneLine(readFile(t, root, "README.md"))
	for _, s := range benchmarkSentences(t) {
		if !strings.Contains(readme, s) {
			t.Errorf("README.md lacks this sentence, which has the results of the last run of scripts/bench.sh:\n%s", s)
		}
	}
}

// benchmarks/README.md is left out, because scripts/bench.sh writes it from the results. The pages in
// benchmarks/render/why are left out too: their figures are from profiles, as benchmarks/README.md says.
func TestEveryFigureOfAPageIsMeasured(t *testing.T) {
	docs, err := filepath.Glob(filepath.Join(root, "*/doc.go"))
	require.NoError(t, err)
	stores, err := filepath.Glob(filepath.Join(root, "storage/*/doc.go"))
	require.NoError(t, err)
	all := allPages(t)
	for _, file := range append(docs, stores...) {
		relative, err := filepath.Rel(root, file)
		require.NoError(t, err)
		all = append(all, filepath.ToSlash(relative))
	}
	sentences := benchmarkSentences(t)
	for _, page := range all {
		if page == "benchmarks/README.md" || page == "benchmarks/compare/README.md" || strings.HasPrefix(page, "benchmarks/render/why/") {
			continue
		}
		text := readFile(t, root, page)
		for _, s := range otherMeasurements[page] {
			require.True(t, strings.Contains(oneLine(text), s), "otherMeasurements has a text that %s no longer has: %s", page, s)
		}
		unproven := unprovenFigures(text, append(otherMeasurements[page], sentences...))
		if len(unproven) > 0 {
			t.Errorf("%s has figures that are not in benchmarks/results: %s", page, strings.Join(unproven, ", "))
		}
	}
}

func TestUnprovenFiguresAreFound(t *testing.T) {
	for text, want := range map[string][]string{
		"64 callers get 110,000 decisions a second,\ntwice as many":     {"110,000 decisions a second"},
		"limiters are up to 2.2 times as fast as sluice":                {"2.2 times as"},
		"gets 0.9 of the speed of redis_rate":                           {"0.9 of the speed"},
		"a decision takes 240 ns":                                       {"takes 240 ns"},
		"In four processes they get 99,000, more":                       {"they get 99,000"},
		"gcra 100/m, a burst of 20 refills in 12 s, 2^51 µs (71 years)": nil,
	} {
		require.Equal(t, want, unprovenFigures(text, benchmarkSentences(t)), text)
	}
}
