package readme

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// picturePolicies are the policies in docs/boundary.svg.
var picturePolicies = []string{"fixedwindow 30/m", "gcra 30/m"}

// The picture shows what the policies decide on the same requests: one at 12:00:00, which begins a window, and 60 within
// 4.5 s around its end. To draw it again, run this test with -update.
func TestPictureShowsTheDecisionsOfThePolicies(t *testing.T) {
	file := filepath.Join(root, "docs/boundary.svg")
	tracetest.Golden(t, file, drawBoundary(t))
	require.True(t, strings.Contains(oneLine(readFile(t, root, "README.md")), "`fixedwindow 30/m` allows 59 of them, `gcra 30/m` 32"))
}

func drawBoundary(t *testing.T) string {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const allowed, denied, ink, left, pixels = "#1a7f37", "#cf222e", "#57606a", 24, 150
	x := func(at time.Duration) float64 { return left + pixels*(at-57500*time.Millisecond).Seconds() }
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 236" width="800" height="236" font-family="system-ui, sans-serif" font-size="15">
<title>The same requests under fixedwindow 30/m and gcra 30/m</title>
<rect width="800" height="236" rx="8" fill="#ffffff"/>
<text x="%d" y="28" fill="%s">60 requests within 4.5 s, around the end of a window. <tspan fill="%s">Allowed</tspan>, <tspan fill="%s">denied</tspan>.</text>
`, left, ink, allowed, denied)
	for i, spec := range picturePolicies {
		policy, top := parse(t, spec), 48+i*80
		var state []byte
		count := map[bool]int{}
		var ticks strings.Builder
		for n := -1; n < 60; n++ {
			at := 57750*time.Millisecond + time.Duration(n)*75*time.Millisecond
			if n < 0 {
				at = 0
			}
			next, r, err := policy.Step(nil, state, noon.Add(at), 1)
			require.NoError(t, err)
			state = next
			if n < 0 {
				continue
			}
			count[r.Allowed]++
			colour, height := denied, 16
			if r.Allowed {
				colour, height = allowed, 36
			}
			fmt.Fprintf(&ticks, `<rect x="%.1f" y="%d" width="6" height="%d" fill="%s"/>`+"\n", x(at), top+24+36-height, height, colour)
		}
		fmt.Fprintf(&svg, `<text x="%d" y="%d" fill="#1f2328"><tspan font-family="monospace" font-weight="bold">%s</tspan> allows %d</text>`+"\n", left, top+14, spec, count[true])
		svg.WriteString(ticks.String())
	}
	fmt.Fprintf(&svg, `<line x1="%d" x2="776" y1="200" y2="200" stroke="%s"/>`+"\n", left, ink)
	for second := 58; second <= 62; second++ {
		at := time.Duration(second) * time.Second
		fmt.Fprintf(&svg, `<text x="%.1f" y="220" text-anchor="middle" fill="%s">%s</text>`+"\n", x(at), ink, noon.Add(at).Format("15:04:05"))
	}
	fmt.Fprintf(&svg, `<line x1="%.1f" x2="%.1f" y1="44" y2="200" stroke="%s" stroke-dasharray="4 4"/>`+"\n</svg>\n", x(time.Minute)-2, x(time.Minute)-2, ink)
	return svg.String()
}
