package browsertest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPoliciesAreAddedDuplicatedAndRemoved(t *testing.T) {
	t.Parallel()
	b := open(t, steady(10, "gcra 1/5s", "fixedwindow 3/10s").settings())
	b.changes(func() { b.click("#add") })
	require.Equal(t, []string{"gcra 1/5s", "fixedwindow 3/10s", "fixedwindow 3/10s"}, b.specs())
	b.changes(func() { b.button(1, "Duplicate") })
	require.Equal(t, []string{"gcra 1/5s", "gcra 1/5s", "fixedwindow 3/10s", "fixedwindow 3/10s"}, b.specs())
	b.changes(func() { b.button(3, "Remove") })
	require.Equal(t, []string{"gcra 1/5s", "gcra 1/5s", "fixedwindow 3/10s"}, b.specs())
	b.requireTable(b.compare(steady(10, "gcra 1/5s", "gcra 1/5s", "fixedwindow 3/10s")))
	b.changes(func() { b.button(2, "Remove") })
	b.changes(func() { b.button(2, "Remove") })
	require.Equal(t, []string{"gcra 1/5s"}, b.specs())
	require.True(t, eval[bool](b, "document.querySelector('button[aria-label=\"Remove policy 1\"]').disabled"), "the last policy cannot be removed")
}

func TestInvalidPolicyIsMarkedAndTheOthersAreDrawn(t *testing.T) {
	t.Parallel()
	b := open(t, steady(10, "gcra 1/5s", "gcra 1/5s").settings())
	b.changes(func() { b.enter("#spec-2", "gcra 10/m brust=5") })
	lines := strings.Split(eval[string](b, "[...document.querySelectorAll('#spec-error-2 :is(p, pre)')].map((e) => e.textContent).join('\\n')"), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], "brust")
	require.Equal(t, strings.Index(lines[1], "brust"), strings.Index(lines[2], "^"), "the mark is under the wrong word")
	require.Contains(t, eval[string](b, "getComputedStyle(document.querySelector('#spec-error-2 pre')).fontFamily"), "monospace")
	require.Equal(t, "true", eval[string](b, "document.querySelector('#spec-2').getAttribute('aria-invalid')"))
	require.Positive(t, b.pixels(1, allowedColour))
	require.Equal(t, 2, b.table()[0].number(t, "Allowed"))

	b.changes(func() { b.enter("#spec-2", "gcra 10/m burst=5") })
	require.Empty(t, b.text("#spec-error-2"))
	b.requireTable(b.compare(steady(10, "gcra 1/5s", "gcra 10/m burst=5")))
}

// Text of the user is never HTML, and an SVG with any text is valid.
func TestHostileSpecIsShownAsText(t *testing.T) {
	t.Parallel()
	const script, image = "<script>alert('1')</script>&", "<img src=x onerror=alert(1)>"
	b := open(t, steady(10, "gcra 1/5s", script+"\x01]]>"+image).settings())
	require.Contains(t, b.text("#spec-error-2"), image)
	require.Contains(t, b.table()[1]["Policy"], image)
	require.Zero(t, eval[int](b, "document.querySelectorAll('img').length"))
	text, err := os.ReadFile(b.download("#export-svg", "sluice.svg"))
	require.NoError(t, err)
	require.Contains(t, strings.Join(svgTexts(t, text), "\n"), script)
	b.click("#export-rules")
	b.wait("document.querySelector('#messages').innerText.includes('policy 2')")

	b.changes(func() { b.enter("#spec-2", strings.Repeat("gcra ", 2000)) })
	require.Contains(t, b.table()[1]["Calls"], "Not valid")
	require.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), eval[int](b, "innerWidth"))
}
