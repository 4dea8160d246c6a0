package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// phone opens the page on a small screen with touch.
func phone(t *testing.T, settings string) *tab {
	t.Helper()
	b := blank(t)
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
	b.visit(pageAddress(t) + "#" + settings)
	return b
}

// unfold opens the settings, which a small screen folds.
func (b *tab) unfold() {
	b.t.Helper()
	b.do(chromedp.Tap(chromedp.CSS("#fold summary")))
	b.wait("document.querySelector('#fold').open")
}

// requireNoOverflow checks that the page is not wider than the screen. The table scrolls in a box of its
// own.
func (b *tab) requireNoOverflow() {
	b.t.Helper()
	wide := eval[[]string](b, `[...document.querySelectorAll('body *')]
		.filter((e) => e.offsetWidth > 0 && !e.parentElement.closest('.scroll, pre') && e.getBoundingClientRect().right > 361)
		.map((e) => e.outerHTML.slice(0, 80))`)
	require.Empty(b.t, wide)
	require.Equal(b.t, 360, eval[int](b, "innerWidth"))
	require.Equal(b.t, 360, eval[int](b, "document.documentElement.scrollWidth"))
}

func TestPhoneShowsThePageWithoutHorizontalScroll(t *testing.T) {
	t.Parallel()
	b := phone(t, "")
	require.LessOrEqual(t, eval[float64](b, "document.querySelector('#chart-1').getBoundingClientRect().bottom"), 740., "the first screen shows no chart")
	b.unfold()
	b.requireNoOverflow()
	eval[bool](b, "(document.documentElement.style.fontSize = '200%%', true)") // text can be enlarged to twice its size
	b.requireNoOverflow()
	eval[bool](b, "(document.documentElement.style.fontSize = '', true)")
	b.changes(func() { b.enter("#processes", "16") })
	b.requireNoOverflow()
	b.changes(func() { b.enter("#spec-1", "gcra 100000000000000000000000000000000000000000000000/m burst=20 or not") })
	b.requireNoOverflow()
	b.changes(func() { b.choose("#kind", "log") })
	b.requireNoOverflow()
	b.do(chromedp.Tap(chromedp.CSS("#chart-2 .u-over")))
	b.waitWords("call ")
	b.requireNoOverflow()
}

// A finger needs about 24 CSS pixels: WCAG 2.2, 2.5.8.
func TestPhoneControlsAreLargeEnough(t *testing.T) {
	t.Parallel()
	b := phone(t, "clocks-ahead=0,5&kind=worst")
	b.unfold()
	small := eval[[]string](b, `[...document.querySelectorAll('button, input, select, summary')]
		.map((e) => [e, (e.closest('label') ?? e).getBoundingClientRect()])
		.filter(([e, r]) => e.offsetWidth > 0 && (r.height < 24 || r.width < 24))
		.map(([e, r]) => [e.tagName, e.id, e.textContent.slice(0, 20), r.width, r.height].join(' '))`)
	require.Empty(t, small)
}
