package browsertest

// These tests promise, for the page in Chromium:
//
//   - The table, the charts and the exports show the numbers of the service for each kind of requests and clock. Each
//     change is drawn, and the latest one wins (service_test.go, settings_test.go, log_test.go).
//   - The address has all settings, and an invalid address is reported (settings_test.go).
//   - The mouse, touch and the keyboard reach each function (explain_test.go), and each control has a name and enough
//     contrast (accessibility_test.go).
//   - Slow requests show the progress bar, and the page recovers from an outage (log_test.go).
//   - The static site does the same without a server (site_test.go).
//   - Text from logs and specs is never HTML (log_test.go, settings_test.go).

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// everything is an address with all that can be shown.
const everything = "p=gcra+30/m&p=nonsense&p=movingwindow+30/m+slots=12&kind=worst&clocks-ahead=0,5&after-denial=backoff"

func TestEachControlHasAName(t *testing.T) {
	t.Parallel()
	b := open(t, everything)
	tree := call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	roles := make(map[string]int)
	for _, node := range tree.Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		role := text(t, node.Role)
		switch role {
		case "textbox", "spinbutton", "slider", "combobox", "checkbox", "button", "application", "table", "region", "complementary", "group":
			roles[role]++
			if role != "group" {
				require.NotEmpty(t, text(t, node.Name), "a %s has no name: %+v", role, node)
			}
		}
	}
	for _, role := range []string{"textbox", "spinbutton", "slider", "combobox", "checkbox", "button", "application", "table"} {
		require.Positive(t, roles[role], "no %s was found", role)
	}
}

// text returns the text of a value of the accessibility tree.
func text(t *testing.T, v *accessibility.Value) string {
	t.Helper()
	if v == nil {
		return ""
	}
	var s string
	require.NoError(t, json.Unmarshal(v.Value, &s))
	return s
}

// TestPageHasTheStructureThatScreenReadersNeed: they read a live region when its text changes.
func TestPageHasTheStructureThatScreenReadersNeed(t *testing.T) {
	t.Parallel()
	b := open(t, "")
	require.Equal(t, "en", eval[string](b, "document.documentElement.lang"))
	require.NotEmpty(t, eval[string](b, "document.title"))
	require.Equal(t, 1, eval[int](b, "document.querySelectorAll('h1').length"))
	require.Equal(t, 1, eval[int](b, "document.querySelectorAll('main').length"))
	require.Equal(t, "polite", eval[string](b, "document.querySelector('#explanation-words').ariaLive"))
	require.Equal(t, "results", eval[string](b, "document.querySelector('#chart-1').getAttribute('aria-describedby')"))
	require.Contains(t, b.text("#results caption"), "What each policy decided")
	require.Equal(t, []string{"col"}, eval[[]string](b, "[...new Set([...document.querySelectorAll('#results thead th')].map((e) => e.scope))]"))
	require.Equal(t, []string{"row"}, eval[[]string](b, "[...new Set([...document.querySelectorAll('#results tbody tr')].map((e) => e.cells[0].scope))]"))
	require.Empty(t, eval[[]string](b, "[...document.querySelectorAll('#results thead th')].filter((e) => e.title === '').map((e) => e.textContent)"))
}

// Tab goes through all controls in the order of the page, and each shows that it has the focus.
func TestTabReachesEachControl(t *testing.T) {
	t.Parallel()
	b := open(t, everything)
	want := eval[[]string](b, `[...document.querySelectorAll('input, select, button, summary, [tabindex="0"]')]
		.filter((e) => e.checkVisibility() && !e.disabled)
		.map((e, i) => (e.dataset.stop = e.id + ' ' + i))`)
	require.Greater(t, len(want), 40)
	var got []string
	for range len(want) + 5 {
		b.press(kb.Tab)
		stop := eval[string](b, "document.activeElement?.dataset.stop ?? ''")
		if stop == "" {
			break
		}
		got = append(got, stop)
		require.True(t, eval[bool](b, `(() => {
			const e = document.activeElement;
			const { outlineStyle, outlineWidth } = getComputedStyle(e);
			return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
		})()`), "the focus of %s is not visible", stop)
	}
	require.Equal(t, want, slices.Compact(got))
}

// scheme emulates a setting of the system: light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// measured is a text with its contrast.
type measured struct {
	Text     string
	Contrast float64
}

// contrasts returns the contrast of each text that is shown, by the definition of WCAG 2.2.
func (b *tab) contrasts() []measured {
	b.t.Helper()
	return eval[[]measured](b, `(() => {
		const pixel = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
		const blend = (colours) => {
			pixel.clearRect(0, 0, 1, 1);
			for (const colour of colours) { pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1); }
			return [...pixel.getImageData(0, 0, 1, 1).data];
		};
		const backgrounds = (e) => (e ? [...backgrounds(e.parentElement), getComputedStyle(e).backgroundColor] : ['Canvas']);
		const luminance = (rgb) => {
			const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
			return 0.2126 * r + 0.7152 * g + 0.0722 * b;
		};
		const found = [];
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (walk.nextNode()) {
			const e = walk.currentNode.parentElement;
			if (walk.currentNode.textContent.trim() === '' || e.offsetWidth === 0 || e.matches(':disabled, noscript')) continue;
			const behind = backgrounds(e);
			const text = luminance(blend([...behind, getComputedStyle(e).color]));
			const back = luminance(blend(behind));
			found.push({ Text: walk.currentNode.textContent, Contrast: (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05) });
		}
		return found;
	})()`)
}

func TestTextHasContrast(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			b := blank(t)
			b.scheme(scheme)
			b.visit(pageAddress(t) + "#p=gcra+30/m&p=nonsense&kind=worst&clocks-ahead=0,5&unknown=1")
			b.click("#chart-1 .u-over")
			b.waitWords("call ")
			eval[bool](b, "document.querySelectorAll('details').forEach((e) => { e.open = true; }) ?? true")
			found := b.contrasts()
			require.Greater(t, len(found), 100)
			for _, m := range found {
				require.GreaterOrEqual(t, m.Contrast, 4.5, "%q", m.Text)
			}
		})
	}
}

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
