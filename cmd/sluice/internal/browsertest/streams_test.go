package browsertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachKindOfRequestsAndEachReactionIsDrawn(t *testing.T) {
	t.Parallel()
	b := open(t, "kind=steady&requests=2000&length=3600&clients=1&seed=1&p=gcra+30/m&p=tokenbucket+30/m&p=fixedwindow+30/m&p=movingwindow+30/m")
	for i, kind := range []string{"poisson", "edge", "greedy", "crowd", "worst", "log", "bursts", "steady"} {
		reaction := [...]string{"wait", "retry", "backoff", "ignore"}[i%4]
		b.changes(func() { b.choose("#reaction", reaction) })
		b.changes(func() { b.choose("#kind", kind) })
		q := query{
			Specs:    b.specs(),
			Stream:   stream{Kind: kind, Requests: 2000, Length: 3600, Clients: 1, Seed: 1},
			Reaction: reaction,
		}
		b.requireTable(b.compare(q))
		for i, row := range b.table() {
			require.Positive(t, row.number(t, "Allowed"), kind)
			require.Positive(t, b.pixels(i+1, allowedColour), kind)
			require.Equal(t, row.number(t, "Denied") > 0, b.pixels(i+1, deniedColour) > 0, "%s: %v", kind, row)
		}
	}
	require.Empty(t, b.messages())
}

// A request each second, from 1s to 10s.
func TestNumbersOfAKnownStream(t *testing.T) {
	t.Parallel()
	b := open(t, steady(10, "gcra 1/5s", "fixedwindow 3/20s", "gcra 1/s").settings())
	rows := b.table()
	for i, want := range []row{
		{"Calls": "10", "Allowed": "2", "Denied": "8", "Share denied": "80.0%", "Most in a period": "1 in 5s", "Longest wait": "4s", "Requests never served": "8"},
		{"Calls": "10", "Allowed": "3", "Denied": "7", "Share denied": "70.0%", "Most in a period": "3 in 20s", "Longest wait": "17s", "Requests never served": "7"},
		{"Calls": "10", "Allowed": "10", "Denied": "0", "Share denied": "0.0%", "Most in a period": "1 in 1s", "Longest wait": "0s", "Requests never served": "0"},
	} {
		for column, text := range want {
			require.Equal(t, text, rows[i][column], "%s of %s", column, rows[i]["Policy"])
		}
	}
}
