package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// enough is how many calls of every process must be admitted until a run ends.
const enough = 300

// Four processes, sixteen callers in each: every admission is one that the
// policy allows at that time and in that order, none is lost, and no denial was
// false.
func TestFourProcessesShareOneStore(t *testing.T) {
	for name, place := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for their databases most of the time
			p := place(t)
			for i := range slow {
				t.Run(traffics[i].name, func(t *testing.T) {
					f := newFleet(t, p, i, long).on(p)
					f.task.Enough = enough
					f.start(4)
					f.hammer(4)
					f.finish()
					f.requireClean(4)
				})
			}
		})
	}
}

// Clocks that are ahead or behind change which calls are admitted, but every admission is
// still one that the policy allows at that time and in that order.
func TestFourProcessesWithSkewedClocks(t *testing.T) {
	skews := []time.Duration{0, 5 * time.Second, time.Hour, -time.Hour}
	for name, place := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := place(t)
			for _, i := range []int{0, 3, 4, 5} { // every algorithm, with and without a shared rule
				t.Run(traffics[i].name, func(t *testing.T) {
					f := newFleet(t, p, i, long).on(p)
					f.task.Enough = enough
					f.start(len(skews), skews...)
					f.hammer(len(skews))
					f.finish()
					f.requireClean(len(skews))
				})
			}
		})
	}
}

// bySwaps hides that the store can decide in place.
type bySwaps struct{ storage.Store }

func TestSixtyFourCallersShareOneMemory(t *testing.T) {
	for name, store := range map[string]storage.Store{
		"in place": new(memory.Store),
		"by swaps": bySwaps{new(memory.Store)},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range slow {
				t.Run(traffics[i].name, func(t *testing.T) {
					f := newFleet(t, "", i, long)
					f.store, f.task.Callers, f.task.Enough = store, 64, 2*enough
					own := f.task
					own.Journal = f.journal(0)
					done := make(chan error, 1)
					go func() { done <- own.work(store) }()
					f.hammer(1)
					require.NoError(t, <-done)
					f.requireClean(1)
				})
			}
		})
	}
}

// hammer lets the members work until each has been admitted enough, which takes seconds.
func (f *fleet) hammer(members int) {
	f.t.Helper()
	defer f.page.stop()
	require.Eventually(f.t, func() bool {
		for m := range members {
			if admissions(f.page.desk(m)) < f.task.Enough {
				return false
			}
		}
		return true
	}, 30*time.Second, time.Millisecond, "%d calls of every process are admitted", f.task.Enough)
}

// requireClean judges a run in which nothing failed.
func (f *fleet) requireClean(members int) {
	f.t.Helper()
	j := f.judge(members)
	f.report(j, members)
	for _, e := range j.entries {
		require.Empty(f.t, e.Err, e)
	}
	f.requireInnocent(j)
}

// report says how much was done, and how evenly.
func (f *fleet) report(j *judge, members int) {
	var fates [unknown + 1]int
	var units, most int64
	cached, attempts := 0, 0
	byMember := make([]int, members)
	var longest time.Duration
	for _, e := range j.entries {
		fates[e.Fate]++
		longest = max(longest, e.Took)
		if e.Cached {
			cached++
		}
		if e.Fate == admitted {
			units += e.Cost
			attempts += e.Attempts
			most = max(most, int64(e.Attempts))
			byMember[e.Member]++
		}
	}
	f.t.Logf("%d decisions: admitted %d (%d units, in %d attempts, at most %d for one), denied %d (%d from memory), refused %d, uncertain %d; by process %v; the longest took %v",
		len(j.entries), fates[admitted], units, attempts, most, fates[denied], cached, fates[refused], fates[unknown]+fates[begun], byMember, longest.Round(time.Millisecond))
}
