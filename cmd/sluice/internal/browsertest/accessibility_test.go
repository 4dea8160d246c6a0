package browsertest

// These tests promise, for the page in Chromium:
//
//   - The table, the charts and the exports show the numbers of the service for each kind of requests and
//     clock (streams_test.go, fleet_test.go, log_test.go, worst_test.go, export_test.go).
//   - Each change is drawn, and the latest one wins (slider_test.go, policies_test.go).
//   - The address has all settings, and an invalid address is reported (address_test.go).
//   - The mouse, touch and the keyboard reach each function (explain_test.go, keyboard_test.go,
//     layout_test.go), and each control has a name and enough contrast (accessibility_test.go,
//     contrast_test.go).
//   - Slow requests show the progress bar (progress_bar_test.go), and the page recovers from an outage
//     (outage_test.go).
//   - The static site does the same without a server (site_test.go).
//   - Text from logs and specs is never HTML (log_test.go, policies_test.go).

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
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
