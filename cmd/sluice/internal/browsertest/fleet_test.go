package browsertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The bound holds if the clocks agree. The second process is ahead, so its first calls get units
// that are not yet due.
func TestOwnClocksAllowMoreThanTheClockOfTheStore(t *testing.T) {
	t.Parallel()
	b := open(t, steady(600, "gcra 10/m", "fixedwindow 10/m").settings())
	require.NotContains(t, b.table()[0], "Allowed by process")
	b.changes(func() { b.enter("#processes", "2") })
	b.changes(func() { b.click("button[data-clocks=five]") })
	b.requireProcesses("1: 104, 2: 5", "1: 50, 2: 50")
	store := b.table()

	b.changes(func() { b.choose("#clock", "own") })
	b.requireProcesses("1: 6, 2: 104", "1: 52, 2: 53")
	own := b.table()
	for i := range own {
		require.Greater(t, own[i].number(t, "Allowed"), store[i].number(t, "Allowed"))
	}
	require.LessOrEqual(t, store[0].number(t, "Most in a period"), store[0].number(t, "Bound"))
	require.Greater(t, own[0].number(t, "Most in a period"), store[0].number(t, "Most in a period"))

	b.changes(func() { b.enter("#skews label:nth-child(2) input", "30") })
	b.requireProcesses("1: 3, 2: 107", "1: 55, 2: 55")
	b.changes(func() { b.click("button[data-clocks=exact]") })
	b.requireProcesses("1: 104, 2: 5", "1: 50, 2: 50")
	b.changes(func() { b.enter("#processes", "1") })
	require.Equal(t, store[0].number(t, "Allowed"), b.table()[0].number(t, "Allowed"))
}

// requireProcesses compares what each process allowed, for each policy.
func (b *tab) requireProcesses(want ...string) {
	b.t.Helper()
	for i, row := range b.table() {
		require.Equal(b.t, want[i], row["Allowed by process"], row["Policy"])
	}
}
