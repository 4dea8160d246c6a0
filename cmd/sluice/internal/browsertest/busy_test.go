package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The test holds the answer back until the page shows that it waits.
func TestLongWorkShowsProgress(t *testing.T) {
	t.Parallel()
	b := open(t, steady(10, "gcra 1/5s").settings())
	const busy = "document.querySelector('#busy progress').checkVisibility()"
	require.False(t, eval[bool](b, busy))
	paused := chromedp.Events(b.ctx, fetch.RequestPaused)
	call(b, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "*/api/*"}}})
	b.changes(func() {
		b.enter("#spec-1", "gcra 2/5s")
		b.wait(busy)
		for request, err := range paused {
			require.NoError(t, err)
			call(b, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: request.RequestID})
			break
		}
	})
	b.wait("!" + busy)
	require.Contains(t, b.table()[0]["Policy"], "gcra 2/5s")
}

// The page has no view before the first answer.
func TestButtonsBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	b := blank(t)
	b.do(chromedp.Navigate(pageAddress(t) + "#kind=crowd&requests=1"))
	b.wait("document.querySelector('#messages').innerText.includes('choose more requests')")
	for _, button := range []string{"#zoom-in", "#zoom-out", "#earlier", "#later", "#whole", "#export-svg"} {
		b.click(button)
	}
	b.enter("#requests", "10")
	b.wait("document.documentElement.dataset.drawn > 0")
}
