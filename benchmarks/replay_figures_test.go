//go:build figures

package benchmarks

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

// replayArea measures a replay of a log with four policies, and goaccess on the same file.
func replayArea(t testing.TB) (figures []figure.Figure, goals []figure.Goal) {
	const work, peer = "1,000,000 lines, combined format", "goaccess"
	if !selected("replay", work) {
		return nil, nil
	}
	goaccess, err := exec.LookPath(peer)
	if err != nil {
		t.Fatal("goaccess is missing; on Debian: apt-get install goaccess")
	}
	sluice, log, out := sluiceCommand(t), writeLog(t), filepath.Join(t.TempDir(), "report.json")
	command := func(name string, args ...string) func(int) {
		return func(int) {
			if text, err := exec.Command(name, args...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", name, err, text)
			}
		}
	}
	taken := turns([]runner{
		{"sluice replay, four policies", command(sluice, "replay", log)},
		{peer, command(goaccess, log, "--log-format=COMBINED", "--no-progress", "-o", out)},
	}, lines, 3, wallTime())
	ours, theirs := 1e9/median(taken[0]), 1e9/median(taken[1])
	return []figure.Figure{
			{Work: work, Name: "sluice replay, four policies", Value: ours, Unit: "lines/s", Ours: true},
			{Work: work, Name: peer, Value: theirs, Unit: "lines/s"},
		}, []figure.Goal{
			{Work: work, To: "500,000 lines/s", What: "lines a second", Ratio: ours / 500_000, Goal: 1},
			{Work: work, To: peer, What: "lines a second", Ratio: ours / theirs, Goal: 1},
		}
}

// lines is the number of lines in the log.
const lines = 1_000_000

// writeLog writes the sample log repeatedly, each time an hour later.
func writeLog(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "access.log")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	sample, err := os.Open("../cmd/sluice/internal/sample/access.log.gz")
	must(t, err)
	defer sample.Close()
	z, err := gzip.NewReader(sample)
	must(t, err)
	text, err := io.ReadAll(z)
	must(t, err)
	const layout = "02/Jan/2006:15:04:05 -0700"
	stamps := regexp.MustCompile(`\[([^\]]+)\]`)
	rows := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	out := bufio.NewWriter(f)
	for n := range lines {
		row, later := strings.TrimSuffix(rows[n%len(rows)], "\n"), time.Duration(n/len(rows))*time.Hour
		at := stamps.FindStringSubmatchIndex(row)
		stamp, err := time.Parse(layout, row[at[2]:at[3]])
		must(t, err)
		fmt.Fprintf(out, "%s%s%s\n", row[:at[2]], stamp.Add(later).Format(layout), row[at[3]:])
	}
	must(t, out.Flush())
	return path
}

func sluiceCommand(t testing.TB) string {
	command := filepath.Join(t.TempDir(), "sluice")
	build := exec.Command("go", "build", "-o", command, ".")
	build.Dir = "../cmd/sluice"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return command
}
