//go:build figures

package benchmarks

import (
	"os/exec"
	"path/filepath"
	"testing"

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
