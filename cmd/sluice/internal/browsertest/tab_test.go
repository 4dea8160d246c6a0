package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// testTimeout is how long a test waits before it fails.
const testTimeout = 60 * time.Second

// tab is a tab of the browser, with a profile of its own. The test fails if its page has faults.
type tab struct {
	recorder
	t       *testing.T
	ctx     context.Context
	visited bool
}

// blank opens a tab without a page.
func blank(t *testing.T) *tab {
	t.Helper()
	b := &tab{t: t}
	ctx, end := chromedp.NewContext(sharedBrowser(t), chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	b.ctx = ctx
	t.Cleanup(func() {
		end()
		for _, fault := range b.take() {
			t.Error(fault)
		}
	})
	call(b, network.Enable, network.EnableParams{})
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return b
}

// open opens the page with the settings after # in its address.
func open(t *testing.T, settings string) *tab {
	t.Helper()
	b := blank(t)
	b.visit(pageAddress(t) + "#" + settings)
	return b
}

// openOwn opens the page of a program of its own. The program keeps only a few logs, and other tests send
// logs too.
func openOwn(t *testing.T, settings string) *tab {
	t.Helper()
	need(t)
	p, err := start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(p.kill)
	b := blank(t)
	b.visit(p.address + "#" + settings)
	return b
}

// visit opens an address, and returns when the page has drawn.
func (b *tab) visit(address string) {
	b.t.Helper()
	if b.visited {
		b.do(chromedp.Navigate("about:blank")) // a page that differs only after # is not loaded again
	}
	b.visited = true
	b.do(chromedp.Navigate(address))
	b.wait("document.documentElement.dataset.drawn > 0")
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, testTimeout)
	defer end()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// wait waits until a JavaScript expression is true.
func (b *tab) wait(format string, args ...any) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, testTimeout)
	defer end()
	expression := fmt.Sprintf(format, args...)
	poll := "new Promise((done) => { const look = () => { if (" + expression + ") done(true); else requestAnimationFrame(look); }; look(); })"
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](poll, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, "it never was true: %s", expression)
}

// changes runs f, and returns when the page has drawn again.
func (b *tab) changes(f func()) {
	b.t.Helper()
	before := eval[string](b, "document.documentElement.dataset.drawn")
	f()
	b.wait("document.documentElement.dataset.drawn > %s", before)
}

// call sends a command of the DevTools protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	require.NoError(b.t, err)
	return result
}

// eval returns the value of a JavaScript expression, which may be a promise.
func eval[T any](b *tab, format string, args ...any) T {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, testTimeout)
	defer end()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return value
}

// quote returns a JavaScript string.
func quote(text string) string {
	quoted, _ := json.Marshal(text) // a text has no error
	return string(quoted)
}
