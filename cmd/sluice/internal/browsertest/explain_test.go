package browsertest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// fields are all names in the explanation of a decision.
var fields = []string{
	"Allowed", "Limit", "Cost", "Available", "Refilled", "Paid", "Remaining", "RetryAfter", "NextRefill", "ResetAfter",
	"Fresh", "Skew", "Part", "Client", "Attempt", "Process", "Time", "Clock", "Exact wait", "Unnecessary",
}

// explanation returns the value of each field of the decision that is shown.
func (b *tab) explanation() map[string]string {
	b.t.Helper()
	return eval[map[string]string](b, `Object.fromEntries([...document.querySelectorAll('#explanation-fields dt')]
		.map((dt) => [dt.firstChild.textContent.trim(), dt.nextElementSibling.textContent]))`)
}

// requireResult checks that the explanation is complete and that its units add up.
func (b *tab) requireResult() {
	b.t.Helper()
	e := b.explanation()
	require.Len(b.t, e, len(fields))
	for _, name := range fields {
		require.NotEmpty(b.t, e[name], name)
	}
	n := func(name string) int {
		value, err := strconv.Atoi(strings.ReplaceAll(e[name], ",", ""))
		require.NoError(b.t, err)
		return value
	}
	require.Equal(b.t, n("Remaining"), n("Available")+n("Refilled")-n("Paid"), "%v", e)
}

// waitWords waits until the explanation in words begins with a text.
func (b *tab) waitWords(begin string) {
	b.t.Helper()
	b.wait("document.querySelector('#explanation-words').textContent.startsWith(%s)", quote(begin))
}

// over returns the place of a time in the chart of a policy, in pixels. The chart shows the seconds 0 to 10.1.
func (b *tab) over(policy int, seconds float64) (x, y float64) {
	b.t.Helper()
	at := eval[struct{ X, Y, Width, Height float64 }](b, `(() => {
		const e = document.querySelector('#chart-%d .u-over');
		e.scrollIntoView({ block: 'center' });
		return e.getBoundingClientRect().toJSON();
	})()`, policy)
	return at.X + at.Width*seconds/10.1, at.Y + at.Height/2
}

// A request each second. The policy allows the second one and the seventh.
func TestMouseExplainsADecision(t *testing.T) {
	t.Parallel()
	b := open(t, steady(10, "gcra 1/5s", "fixedwindow 3/20s").settings())
	x, y := b.over(1, 3)
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	b.waitWords("call 3 of 10 at 3s by client-1: denied, 0 of 1 left, retry after 3s")
	b.requireResult()
	e := b.explanation()
	require.Equal(t, "no", e["Allowed"])
	require.Equal(t, "3s", e["RetryAfter"])
	require.Equal(t, "client-1", e["Client"])

	x, y = b.over(2, 1)
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	b.waitWords("call 1 of 10 at 1s by client-1: allowed, 2 of 3 left")
	b.requireResult()
	require.Equal(t, "yes", b.explanation()["Fresh"])

	b.do(chromedp.MouseEvent(chromedp.MouseMoved, 5, 5))
	b.waitWords("Point at a chart")
}

func TestTapExplainsADecision(t *testing.T) {
	t.Parallel()
	b := phone(t, steady(10, "gcra 1/5s").settings())
	x, y := b.over(1, 4)
	b.do(chromedp.TapXY(x, y))
	b.waitWords("call 4 of 10 at 4s by client-1: denied")
	b.requireResult()
	b.wait("document.querySelector('#explanation').getBoundingClientRect().bottom <= innerHeight + 1")
	b.do(chromedp.Tap(chromedp.CSS("#close-explanation")))
	b.wait("document.querySelector('#explanation').offsetHeight === 0")
}

func TestMouseZooms(t *testing.T) {
	t.Parallel()
	b := open(t, steady(10, "gcra 1/5s", "fixedwindow 3/20s").settings())
	x, y := b.over(1, 2)
	to, _ := b.over(1, 6)
	b.do(chromedp.DragAndDropXY(x, y, to, y))
	b.waitView("Math.abs(from - 2) < 0.1 && Math.abs(to - 6) < 0.1")
	b.do(chromedp.MouseClickXY(x, y, chromedp.ClickCount(2)))
	b.waitView("from === 0 && to === 0")
	call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{
		Type: input.DispatchMouseEventTypeMouseWheel, X: x, Y: y, DeltaX: 0.1, DeltaY: -100, Modifiers: int64(kb.ModifierCtrl),
	})
	b.waitView("from > 0 && from < 2 && to > 2 && to < 10")
}

// waitView waits until the part of the time in the address has a property. From 0 to 0 is the whole time.
func (b *tab) waitView(property string) {
	b.t.Helper()
	b.wait("((from, to) => %s)(...['from', 'to'].map((name) => Number(new URLSearchParams(location.hash.slice(1)).get(name))))", property)
}

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
			b.do(chromedp.KeyEvent(c.key, chromedp.KeyModifiers(kb.ModifierShift)))
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
