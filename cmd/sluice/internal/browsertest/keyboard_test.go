package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// tabTo presses Tab until an element has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 200 {
		b.press(kb.Tab)
		if eval[bool](b, "document.activeElement?.matches(%s) ?? false", quote(selector)) {
			return
		}
	}
	b.t.Fatalf("Tab does not reach %s", selector)
}

func TestKeyboardExplainsDecisions(t *testing.T) {
	t.Parallel()
	b := open(t, steady(40, "gcra 1/5s", "fixedwindow 3/20s").settings())
	b.tabTo("#chart-1")
	for _, c := range []struct {
		key   string
		shift bool
		words string
	}{
		{kb.ArrowRight, false, "call 1 of 40 at 1s"},
		{kb.ArrowRight, false, "call 2 of 40 at 2s"},
		{kb.ArrowRight, true, "call 12 of 40 at 12s"},
		{kb.ArrowLeft, false, "call 11 of 40 at 11s"},
		{kb.ArrowLeft, true, "call 1 of 40 at 1s"},
		{kb.ArrowLeft, false, "call 1 of 40 at 1s"},
		{kb.End, false, "call 40 of 40 at 40s"},
		{kb.ArrowRight, false, "call 40 of 40 at 40s"},
		{kb.Home, false, "call 1 of 40 at 1s"},
		{kb.ArrowRight, false, "call 2 of 40 at 2s by client-1: denied, 0 of 1 left, retry after 4s"},
		{kb.ArrowDown, false, "call 2 of 40 at 2s by client-1: allowed, 1 of 3 left"},
		{kb.ArrowUp, false, "call 2 of 40 at 2s by client-1: denied"},
	} {
		if c.shift {
			b.shift(c.key)
		} else {
			b.press(c.key)
		}
		b.waitWords(c.words)
		b.requireResult()
	}
	b.press(kb.Enter)
	b.wait("document.querySelector('#pinned').innerText === 'kept'")
	b.press(kb.Enter)
	b.wait("document.querySelector('#pinned').hidden")
	b.press(kb.Escape)
	b.waitWords("Point at a chart")
	require.Equal(t, "chart-1", eval[string](b, "document.activeElement.id"))
}
