package fleet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// name is the parts of the key of a record.
type name struct{ namespace, group, rule, key string }

// hostile returns parts of keys that a client or a database could truncate, escape, normalize, refuse or
// interpret.
func hostile() []string {
	large := strings.Repeat("x", 100<<10)
	return []string{
		"", "\x00", "\x00\x00", "a\x00", "a\x00b", "\xff", "\xff\xff", "\xc3\x28", "\xed\xa0\x80", "\ufffd",
		"{", "}", "{}", "{a}", "}{", "a{b}c", ":", "a:", ":a", "a:b", "a/b", "a|b", "a,b", "a b", " a", "a ",
		"a", "A", "b", "é", "e\u0301", "'", `"`, `\`, `\x00`, "%", "*", "?", "[a]", "\n", "\r\n", "k", "h", "\x01a",
		large, large + "x", large + "y", "y" + large, "\x00" + large, "\xff" + large,
	}
}

// names returns names with each hostile part at each position, and names whose parts differ only in
// where one part ends and the next begins.
func names() (all []name) {
	known := map[name]bool{}
	add := func(n name) {
		if !known[n] {
			known[n] = true
			all = append(all, n)
		}
	}
	for _, part := range hostile() {
		add(name{part, "g", "r", "k"})
		add(name{"n", part, "r", "k"})
		add(name{"n", "g", part, "k"})
		add(name{"n", "g", "r", part})
	}
	for _, text := range []string{"abcd", ":::::", "\x00\x00\x00\x00\x00", "{{}}", "\x01a\x01b\x01c"} {
		for i := range text {
			for j := i; j < len(text); j++ {
				add(name{text[:i], text[i:j], "r", text[j:]})
				add(name{"n", text[:i], "r" + text[i:j], text[j:]})
			}
		}
	}
	return all
}

const daily = 4

// limiter returns a limiter for one name in this run.
func (n name) limiter(t *testing.T, store storage.Store, run string) *sluice.Limiter[name] {
	policy, err := compose.ParsePolicy("fixedwindow 4/24h")
	require.NoError(t, err)
	l, err := sluice.Options[name]{
		Namespace: n.namespace,
		Group:     func(n name) string { return n.group },
		Timeout:   longTimeout,
	}.New(store, sluice.Rule[name]{Name: run + n.rule, Key: func(n name) string { return n.key }, Policy: policy})
	require.NoError(t, err)
	return l
}

// Each name has its own count, which another process sees, and its own limit.
func TestHostileKeysNeitherCollideNorFailOpen(t *testing.T) {
	forEachStore(t, func(t *testing.T, open func() storage.Store) {
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
