package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
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
					f := newFleet(t, p, i, longTimeout).useStore(p)
					f.task.Enough = enough
					f.start(len(skews), skews...)
					f.awaitEnough(len(skews))
					f.finish()
					f.requireNoErrors(len(skews))
				})
			}
		})
	}
}

// bySwaps hides the optional interfaces of a store.
type bySwaps struct{ storage.Store }

// awaitEnough waits until each member has had enough admissions, and stops the run.
func (f *fleet) awaitEnough(members int) {
	f.t.Helper()
	defer f.page.stop()
	for m := range members {
		enough := func() bool { return admissions(f.page.counters(m)) >= f.task.Enough }
		require.Eventually(f.t, enough, 30*time.Second, 5*time.Millisecond, "%d calls of each process are admitted", f.task.Enough)
	}
}

// requireNoErrors verifies a run without errors.
func (f *fleet) requireNoErrors(members int) {
	f.t.Helper()
	v := f.newVerifier(members)
	for _, e := range v.entries {
		require.Empty(f.t, e.Err, e)
	}
	require.Empty(f.t, v.verify())
}
