package browsertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Requests at 1s and 2s, of which the limit allows one in 5s.
func TestReactionsOfClients(t *testing.T) {
	t.Parallel()
	b := open(t, steady(2, "gcra 1/5s").settings())
	for _, c := range []struct {
		reaction                         string
		calls, allowed, denied, unserved int
	}{
		{"wait", 3, 2, 1, 0},    // again at 6s
		{"retry", 21, 1, 20, 1}, // 20 calls until 3.9s
		{"backoff", 5, 2, 3, 0},
		{"ignore", 2, 1, 1, 1},
	} {
		b.changes(func() { b.choose("#reaction", c.reaction) })
		row := b.table()[0]
		require.Equal(t, c.calls, row.number(t, "Calls"), c.reaction)
		require.Equal(t, c.allowed, row.number(t, "Allowed"), c.reaction)
		require.Equal(t, c.denied, row.number(t, "Denied"), c.reaction)
		require.Equal(t, c.unserved, row.number(t, "Requests never served"), c.reaction)
	}
}
