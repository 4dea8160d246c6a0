package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
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
	need(t)
	browser, err := startBrowser()
	require.NoError(t, err)
	b := &tab{t: t}
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
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
	b := blank(t)
	p, err := start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(p.kill)
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

// recorder collects the faults of a page: exceptions, warnings and errors on the console, failed requests, and blocked content.
type recorder struct {
	mu     sync.Mutex
	faults []string
	sent   map[network.RequestID]string // the URL of each request
}

// listen takes an event of a tab.
func (r *recorder) listen(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		r.fault("exception: %v", &chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails})
	case *runtime.EventConsoleAPICalled:
		if e.Type == "warning" || e.Type == "error" || e.Type == "assert" {
			r.fault("console.%s: %s", e.Type, arguments(e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "warning" || e.Entry.Level == "error" {
			r.fault("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if r.sent == nil {
			r.sent = make(map[network.RequestID]string)
		}
		r.sent[e.RequestID] = e.Request.URL
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			r.fault("%s answered %d", e.Response.URL, e.Response.Status)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled { // the page cancels requests that a newer one replaces
			r.fault("%s failed: %s %s", r.sent[e.RequestID], e.ErrorText, e.BlockedReason)
		}
	}
}

func (r *recorder) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// take returns the faults since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	faults := r.faults
	r.faults = nil
	return faults
}

func arguments(list []*runtime.RemoteObject) string {
	var texts []string
	for _, o := range list {
		texts = append(texts, strings.TrimSpace(string(o.Value)+" "+o.Description))
	}
	return strings.Join(texts, " ")
}

// row is a row of the table of results: the text of each cell by the head of its column.
type row map[string]string

// number returns the first number of a cell.
func (r row) number(t testing.TB, column string) int {
	t.Helper()
	word, _, _ := strings.Cut(r[column], " ")
	n, err := strconv.Atoi(strings.ReplaceAll(word, ",", ""))
	require.NoError(t, err, "%s of %v", column, r)
	return n
}

// table returns the rows of the table of results.
func (b *tab) table() []row {
	b.t.Helper()
	return eval[[]row](b, `(() => {
		const texts = (row) => [...row.cells].map((cell) => cell.textContent);
		const table = document.querySelector('table#results');
		const heads = texts(table.tHead.rows[0]);
		return [...table.tBodies[0].rows].map((row) => Object.fromEntries(texts(row).map((text, i) => [heads[i], text])));
	})()`)
}

// specs returns the texts of the inputs of the policies.
func (b *tab) specs() []string {
	b.t.Helper()
	return eval[[]string](b, "[...document.querySelectorAll('article.policy input.spec')].map((e) => e.value)")
}

// text returns the text of an element; empty if it is hidden.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, "document.querySelector(%s).innerText", quote(selector))
}

// messages returns the messages at the top of the page.
func (b *tab) messages() string { return b.text("#messages") }

// click clicks an element with the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// button clicks a button in the card of a policy.
func (b *tab) button(policy int, text string) {
	b.t.Helper()
	eval[bool](b, `(() => {
		const buttons = document.querySelectorAll('article[aria-label="Policy %d"] button');
		[...buttons].find((e) => e.textContent === %s).id = 'tested-button';
		return true;
	})()`, policy, quote(text))
	b.click("#tested-button")
	eval[bool](b, "(document.querySelector('#tested-button')?.removeAttribute('id'), true)")
}

// enter replaces the text of an input, as a paste does.
func (b *tab) enter(selector, text string) {
	b.t.Helper()
	eval[bool](b, "(() => { const e = document.querySelector(%s); e.focus(); e.select(); return true; })()", quote(selector))
	call(b, input.InsertText, input.InsertTextParams{Text: text})
}

// choose chooses an option of a select. Headless Chromium shows no menu, so it sends the events of one.
func (b *tab) choose(selector, value string) {
	b.t.Helper()
	chosen := eval[string](b, `(() => {
		const e = document.querySelector(%s);
		e.value = %s;
		for (const name of ['input', 'change']) e.dispatchEvent(new Event(name, { bubbles: true }));
		return e.value;
	})()`, quote(selector), quote(value))
	require.Equal(b.t, value, chosen, "%s has no such option", selector)
}

// press presses a key.
func (b *tab) press(key string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(key))
}

// Colours of the charts in the light scheme: red, green and blue.
const (
	allowedColour = "0,114,178"
	deniedColour  = "213,94,0"
)

// pixels returns how many pixels of the chart of a policy have a colour.
func (b *tab) pixels(policy int, colour string) int {
	b.t.Helper()
	return eval[int](b, `(() => {
		const canvas = document.querySelector('#chart-%d canvas');
		const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
		copy.drawImage(canvas, 0, 0);
		const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
		const [red, green, blue] = [%s];
		let n = 0;
		for (let i = 0; i < data.length; i += 4) if (data[i] === red && data[i + 1] === green && data[i + 2] === blue) n++;
		return n;
	})()`, policy, colour)
}
