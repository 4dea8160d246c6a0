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

// press presses keys, one after the other.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// shift presses a key with Shift.
func (b *tab) shift(key string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(key, chromedp.KeyModifiers(kb.ModifierShift)))
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
