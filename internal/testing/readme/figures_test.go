package readme

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// benchmarkSentences returns the sentences of the README about the benchmarks, with the figures of the page that scripts/bench.sh
// writes from the committed results.
func benchmarkSentences(t *testing.T) []string {
	page := readFile(t, root, "benchmarks/README.md")
	figure := func(section, row string) string {
		found := regexp.MustCompile("(?s)\n## A limiter " + section + "\n.*?" + row).FindStringSubmatch(page)
		require.NotNil(t, found, "%s: %s", section, row)
		return found[1]
	}
	ratio := func(section, row string) string {
		return figure(section, regexp.QuoteMeta("| "+row+" | ")+`(\d\.\d\d) `)
	}
	return []string{
		fmt.Sprintf("On %s cores with a local Redis, 64 callers in one process get %s decisions a second, %s times as many as with redis_rate.",
			figure("on Redis", `(\d+) × `), figure("on Redis", `\| 1x64, 10,000 keys \| \*\*sluice\*\* \| (\S+) /s`),
			ratio("on Redis", "1x64, 10,000 keys, decisions a second | redis_rate")),
		fmt.Sprintf("One caller gets %s times as many as with redis_rate.", ratio("on Redis", "1x1, 10,000 keys, decisions a second | redis_rate")),
		fmt.Sprintf("In memory with one key, sethvargo/go-limiter is up to %s times as fast as sluice.",
			max(ratio("in memory", "1 key, goroutines: 1, ns | sethvargo/go-limiter"), ratio("in memory", "1 key, goroutines: 2, ns | sethvargo/go-limiter"))),
	}
}

// benchmarkFigure is a number that a benchmark measures, or a comparison of two of them.
var benchmarkFigure = regexp.MustCompile(`[\d.,]*\d (?:decisions (?:a|per) second|times (?:as|the|faster|slower|redis_rate)|of the speed|ns (?:for|of|in|differs)|ns\.)|[\d.,]+% (?:longer|faster|slower)|(?:takes?|about|by) [\d.]+ (?:ns|µs|ms)\b|they get [\d.,]+\d`)

// otherMeasurements are figures that scripts/bench.sh does not measure, with the text around them.
var otherMeasurements = map[string][]string{
	"ARCHITECTURE.md":      {"then took 66% to 70% longer"},
	"observe/doc.go":       {"takes about 70 ns", "takes 30 to 160 ns for each denial", "slower by about 250 ns"},
	"storage/redis/doc.go": {"takes the server 0.2 to 0.4 ms"},
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
			t.Errorf("%s has figures that are not in benchmarks/README.md: %s\nThe results of the last run of scripts/bench.sh:\n%s",
				page, strings.Join(unproven, ", "), strings.Join(sentences, "\n"))
		}
	}
}

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

// Each slot of a moving window, also the trailing one, has a number of units that takes one byte, and then two bytes.
func TestSizesOfStatesEqualTheTable(t *testing.T) {
	table := readFile(t, root, "docs/policies.md")
	for _, algorithm := range []string{"gcra", "tokenbucket", "fixedwindow"} {
		size := len(spend(t, parse(t, algorithm+" 1000/d"), 0, 1))
		require.Regexp(t, fmt.Sprintf(`(?m)^\| \[%s\].*\| %d bytes \|`, algorithm, size), table)
	}
	for _, slots := range []int{1, 2, 12} {
		policy := parse(t, fmt.Sprintf("movingwindow 1000000/h slots=%d", slots))
		for bytes, cost := range map[int]int64{1: 255, 2: 65535} {
			costs := make([]int64, slots+1)
			for i := range costs {
				costs[i] = cost
			}
			state := spend(t, policy, time.Hour/time.Duration(slots), costs...)
			words := fmt.Sprintf(`(?m)^\| \[movingwindow\].*\| %d bytes, and 1 to 7 for each of up to n \+ 1 slots \|`, len(state)-bytes*(slots+1))
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

// picturePolicies are the policies in docs/boundary.svg.
var picturePolicies = []string{"fixedwindow 30/m", "gcra 30/m"}

// The picture shows what the policies decide on the same requests: one at 12:00:00, which begins a window, and 60 within
// 4.5 s around its end. To draw it again, run this test with -update.
func TestPictureShowsTheDecisionsOfThePolicies(t *testing.T) {
	file := filepath.Join(root, "docs/boundary.svg")
	tracetest.Golden(t, file, drawBoundary(t))
	require.True(t, strings.Contains(oneLine(readFile(t, root, "README.md")), "`fixedwindow 30/m` allows 59 of them, `gcra 30/m` 32"))
}

func drawBoundary(t *testing.T) string {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const allowed, denied, ink, left, pixels = "#1a7f37", "#cf222e", "#57606a", 24, 150
	x := func(at time.Duration) float64 { return left + pixels*(at-57500*time.Millisecond).Seconds() }
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 236" width="800" height="236" font-family="system-ui, sans-serif" font-size="15">
<title>The same requests under fixedwindow 30/m and gcra 30/m</title>
<rect width="800" height="236" rx="8" fill="#ffffff"/>
<text x="%d" y="28" fill="%s">60 requests within 4.5 s, around the end of a window. <tspan fill="%s">Allowed</tspan>, <tspan fill="%s">denied</tspan>.</text>
`, left, ink, allowed, denied)
	for i, spec := range picturePolicies {
		policy, top := parse(t, spec), 48+i*80
		var state []byte
		count := map[bool]int{}
		var ticks strings.Builder
		for n := -1; n < 60; n++ {
			at := 57750*time.Millisecond + time.Duration(n)*75*time.Millisecond
			if n < 0 {
				at = 0
			}
			next, r, err := policy.Step(nil, state, noon.Add(at), 1)
			require.NoError(t, err)
			state = next
			if n < 0 {
				continue
			}
			count[r.Allowed]++
			colour, height := denied, 16
			if r.Allowed {
				colour, height = allowed, 36
			}
			fmt.Fprintf(&ticks, `<rect x="%.1f" y="%d" width="6" height="%d" fill="%s"/>`+"\n", x(at), top+24+36-height, height, colour)
		}
		fmt.Fprintf(&svg, `<text x="%d" y="%d" fill="#1f2328"><tspan font-family="monospace" font-weight="bold">%s</tspan> allows %d</text>`+"\n", left, top+14, spec, count[true])
		svg.WriteString(ticks.String())
	}
	fmt.Fprintf(&svg, `<line x1="%d" x2="776" y1="200" y2="200" stroke="%s"/>`+"\n", left, ink)
	for second := 58; second <= 62; second++ {
		at := time.Duration(second) * time.Second
		fmt.Fprintf(&svg, `<text x="%.1f" y="220" text-anchor="middle" fill="%s">%s</text>`+"\n", x(at), ink, noon.Add(at).Format("15:04:05"))
	}
	fmt.Fprintf(&svg, `<line x1="%.1f" x2="%.1f" y1="44" y2="200" stroke="%s" stroke-dasharray="4 4"/>`+"\n</svg>\n", x(time.Minute)-2, x(time.Minute)-2, ink)
	return svg.String()
}
