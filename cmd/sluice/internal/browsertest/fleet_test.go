package browsertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcessesAndTheirClocks(t *testing.T) {
	t.Parallel()
	q := steady(600, "gcra 10/m", "fixedwindow 90/m")
	b := open(t, q.settings())
	require.NotContains(t, b.table()[0], "Allowed by process")
	b.changes(func() { b.enter("#processes", "2") })
	for _, c := range []struct {
		change func()
		ahead  float64
		own    bool
	}{
		{func() { b.click("button[data-clocks=five]") }, 5, false},
		{func() { b.choose("#clock", "own") }, 5, true},
		{func() { b.enter("#skews label:nth-child(2) input", "30") }, 30, true},
		{func() { b.click("button[data-clocks=exact]") }, 0, true},
	} {
		b.changes(c.change)
		q.Skews, q.OwnClocks = []float64{0, c.ahead}, c.own
		require.Contains(t, b.table()[0], "Allowed by process")
		b.requireTable(b.compare(q))
	}

	require.NotContains(t, b.table()[0], "Bought ahead")
	b.changes(func() { b.enter("#requests", "6000") })
	b.changes(func() { b.enter("#prepay-calls", "50") })
	b.changes(func() { b.enter("#prepay-for", "2.5") })
	q.Stream.Requests, q.Prepay = 6000, prepay{50, 2.5}
	c := b.compare(q)
	require.Positive(t, c.Policies[1].Prepaid)
	b.requireTable(c)
}
