package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// enough is how many calls of each process must be admitted before a run ends. Each of them is tried
// about ten times, because the other calls change the states.
const enough = 12

// Each process has sixteen callers. Each admission must be allowed by the policy at its time and in its
// order, no admission may be lost, and no denial may be wrong. Skewed clocks change which calls are
// admitted, but not that. With equal and with skewed clocks, all algorithms are used, with and without a
// rule that all keys share.
func TestFourProcessesShareOneStore(t *testing.T) {
	equal, skewed := make([]time.Duration, 4), []time.Duration{0, 5 * time.Second, time.Hour, -time.Hour}
	clocks := [longWindow][]time.Duration{skewed, equal, equal, skewed, skewed, equal} // by workload
	for name, address := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the processes mostly wait for their databases
			p := address(t)
			for i, skews := range clocks {
				t.Run(workloads[i].name, func(t *testing.T) {
					f := newFleet(t, p, i, longTimeout)
					f.task.Enough = enough
					f.start(len(skews), skews...)
					for m := range skews {
						admitted := func() bool { return admissions(f.page.counters(m)) >= enough }
						require.Eventually(t, admitted, longTimeout, 5*time.Millisecond, "%d calls of each process are admitted", enough)
					}
					f.finish()
					v := f.newVerifier()
					for _, e := range v.entries {
						require.Empty(t, e.Err, e)
					}
					require.Empty(t, v.verify())
				})
			}
		})
	}
}

func TestSixtyFourCallersShareOneMemory(t *testing.T) {
	for name, store := range map[string]storage.Store{"in memory": new(memory.Store), "by swaps": bySwaps{new(memory.Store)}} {
		for i := range longWindow {
			f := newFleet(t, "", i, longTimeout)
			f.store, f.task.Callers, f.task.Enough = store, 64, 6*enough
			f.workHere(store)
			require.Empty(t, f.newVerifier().verify(), "%s, %s", name, workloads[i].name)
		}
	}
}
