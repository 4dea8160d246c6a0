package fleet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// name is all that makes the key of a record.
type name struct{ namespace, group, rule, key string }

// hostile are parts of keys that something between us and the database could
// cut, escape, fold, refuse or take for its own.
func hostile() []string {
	long := strings.Repeat("x", 100<<10)
	return []string{
		"", "\x00", "\x00\x00", "a\x00", "a\x00b", "\xff", "\xff\xff", "\xc3\x28", "\xed\xa0\x80", "\ufffd",
		"{", "}", "{}", "{a}", "}{", "a{b}c", ":", "a:", ":a", "a:b", "a/b", "a|b", "a,b", "a b", " a", "a ",
		"a", "A", "b", "é", "e\u0301", "'", `"`, `\`, `\x00`, "%", "*", "?", "[a]", "\n", "\r\n", "k", "h", "\x01a",
		long, long + "x", long + "y", "y" + long, "\x00" + long, "\xff" + long,
	}
}

// names puts every hostile part in every place, and moves bytes across the seams
// between them.
func names() (all []name) {
	seen := map[name]bool{}
	add := func(n name) {
		if !seen[n] {
			seen[n] = true
			all = append(all, n)
		}
	}
	for _, part := range hostile() {
		add(name{part, "g", "r", "k"})
		add(name{"n", part, "r", "k"})
		add(name{"n", "g", part, "k"})
		add(name{"n", "g", "r", part})
	}
	for _, seam := range []string{"abcd", ":::::", "\x00\x00\x00\x00\x00", "{{}}", "\x01a\x01b\x01c"} {
		for i := range seam {
			for j := i; j < len(seam); j++ {
				add(name{seam[:i], seam[i:j], "r", seam[j:]})
				add(name{"n", seam[:i], "r" + seam[i:j], seam[j:]})
			}
		}
	}
	return all
}

const daily = 4

// limiter makes one of its own for a name, in this run.
func (n name) limiter(t *testing.T, store storage.Store, run string) *compose.Limiter[name] {
	policy, err := compose.ParsePolicy("fixedwindow 4/24h")
	require.NoError(t, err)
	l, err := compose.Options[name]{
		Namespace: n.namespace,
		Group:     func(n name) string { return n.group },
		Timeout:   long,
	}.New(store, compose.Rule[name]{Name: run + n.rule, Key: func(n name) string { return n.key }, Policy: policy})
	require.NoError(t, err)
	return l
}

// Every name has a count of its own, which another process sees, and a limit that
// holds.
func TestHostileKeysNeitherCollideNorFailOpen(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() storage.Store) {
		ours, theirs, run := open(), open(), fmt.Sprintf("%x", rand.Uint64())
		all := names()
		spent := func(i int) int64 { return int64(i % daily) }
		for i, n := range all {
			l := n.limiter(t, ours, run)
			for range spent(i) {
				d, err := l.Allow(t.Context(), n)
				require.NoError(t, err, "%.80q", n)
				require.True(t, d.Allowed, "%.80q", n)
			}
		}
		for i, n := range all {
			l := n.limiter(t, theirs, run)
			d, err := l.Peek(t.Context(), n)
			require.NoError(t, err, "%.80q", n)
			require.Equal(t, daily-spent(i), d.Remaining, "%.80q", n)
			d, err = l.AllowN(t.Context(), n, daily-spent(i))
			require.NoError(t, err, "%.80q", n)
			require.True(t, d.Allowed, "%.80q", n)
		}
		for _, n := range all {
			d, err := n.limiter(t, ours, run).Allow(t.Context(), n)
			require.NoError(t, err, "%.80q", n)
			require.False(t, d.Allowed, "%.80q", n)
		}
	})
}
