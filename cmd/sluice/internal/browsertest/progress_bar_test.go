package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The test delays the request until the page shows the progress bar.
func TestLongRequestsShowTheProgressBar(t *testing.T) {
	t.Parallel()
	b := open(t, steady(10, "gcra 1/5s").settings())
	const visible = "document.querySelector('#progress-bar progress').checkVisibility()"
	require.False(t, eval[bool](b, visible))
	paused := chromedp.Events(b.ctx, fetch.RequestPaused)
	call(b, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "*/api/*"}}})
	b.changes(func() {
		b.enter("#spec-1", "gcra 2/5s")
		b.wait(visible)
		for request, err := range paused {
			require.NoError(t, err)
			call(b, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: request.RequestID})
			break
		}
	})
	b.wait("!" + visible)
	require.Contains(t, b.table()[0]["Policy"], "gcra 2/5s")
}
