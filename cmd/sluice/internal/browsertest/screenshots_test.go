package browsertest

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// A scene is a screenshot of the documentation.
type scene struct {
	file          string
	width, height int64
	scheme        string
	phone         bool
}

var scenes = []scene{
	{file: "compare.png", width: 1280, height: 1000, scheme: "light"},
	{file: "compare-dark.png", width: 1280, height: 1000, scheme: "dark"},
	{file: "compare-phone.png", width: 360, height: 740, scheme: "light", phone: true},
}

// A client that knows the edge of a fixed window gets almost twice its limit within seconds.
const sceneSettings = "p=gcra+30/m&p=tokenbucket+30/m+burst=10&p=fixedwindow+30/m&p=movingwindow+30/m+slots=12&kind=edge&length=150"

// TestScreenshots takes the smallest screenshot, and with -update writes all.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	for _, s := range scenes {
		if !*update && !s.phone {
			continue
		}
		shot := quantized(t, s.take(t))
		size, err := png.DecodeConfig(bytes.NewReader(shot))
		require.NoError(t, err)
		require.Equal(t, [2]int64{s.width, s.height}, [2]int64{int64(size.Width), int64(size.Height)})
		if *update {
			require.NoError(t, os.WriteFile(filepath.Join("../../../../docs", s.file), shot, 0o644))
		}
	}
}

// take returns the screenshot as a PNG.
func (s scene) take(t *testing.T) []byte {
	t.Helper()
	b := blank(t)
	var options []chromedp.EmulateViewportOption
	if s.phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	b.do(chromedp.EmulateViewport(s.width, s.height, options...))
	b.scheme(s.scheme)
	b.visit(pageAddress(t) + "#" + sceneSettings)
	b.tabTo("#chart-3")
	b.do(chromedp.Click(chromedp.CSS("#chart-3 .u-over")))
	b.waitWords("call ")
	b.requireResult()
	return call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
}

// quantized returns the PNG with its 256 most frequent colours. All other colours are those at the edges of letters and
// lines. Without them, the file has less than half the size.
func quantized(t *testing.T, shot []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(shot))
	require.NoError(t, err)
	size := full.Bounds()
	pixels := map[color.Color]int{}
	for y := range size.Dy() {
		for x := range size.Dx() {
			pixels[full.At(x, y)]++
		}
	}
	var palette color.Palette
	for c := range pixels {
		palette = append(palette, c)
	}
	slices.SortFunc(palette, func(a, b color.Color) int { return pixels[b] - pixels[a] })
	small := image.NewPaletted(size, palette[:min(len(palette), 256)])
	draw.Draw(small, size, full, image.Point{}, draw.Src)
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small))
	return out.Bytes()
}
