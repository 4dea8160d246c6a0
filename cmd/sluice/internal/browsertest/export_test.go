package browsertest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// download clicks a button, and returns the path of the file that the browser saves.
func (b *tab) download(button, name string) string {
	b.t.Helper()
	dir := b.t.TempDir()
	_, err := chromedp.CallBrowser(b.ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
		Behavior:         "allow",
		BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID,
		DownloadPath:     dir,
	})
	require.NoError(b.t, err)
	path := filepath.Join(dir, name)
	var clicked time.Time
	require.Eventually(b.t, func() bool {
		if time.Since(clicked) > testTimeout/4 { // on a busy machine, the page can move under the pointer
			b.click(button)
			clicked = time.Now()
		}
		info, err := os.Stat(path) // the browser renames a finished file
		return err == nil && info.Size() > 0
	}, testTimeout, time.Millisecond, "%s is not saved", name)
	return path
}

func TestExportedTracePassesItsCheck(t *testing.T) {
	t.Parallel()
	q := steady(40, "gcra 1/5s", "movingwindow 3/20s slots=4")
	q.Reaction = "wait"
	b := open(t, q.settings())
	b.choose("#trace-policy", "1")
	path := b.download("#export-trace", "sluice.trace")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "policy movingwindow 3/20s slots=4\n")
	require.Equal(t, b.table()[1].number(t, "Calls"), strings.Count(string(text), "\n@"))
	sluice(t, "replay", "--check", path)
}

// TestExportsOfThePolicies: the rules are valid, the SVG has the texts of the table, and the PNG has the
// colours of the charts.
func TestExportsOfThePolicies(t *testing.T) {
	t.Parallel()
	b := open(t, "")
	path := b.download("#export-rules", "limits.yaml")
	rules, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, spec := range b.specs() {
		require.Contains(t, string(rules), "policy: "+spec+"\n")
	}
	sluice(t, "check", path)

	svg, err := os.ReadFile(b.download("#export-svg", "sluice.svg"))
	require.NoError(t, err)
	texts := svgTexts(t, svg)
	for _, row := range b.table() {
		delete(row, "Policy")
		for column, value := range row {
			require.Contains(t, texts, value, column)
		}
	}
	for i, spec := range b.specs() {
		require.Contains(t, strings.Join(texts, "\n"), string(rune('1'+i))+"  "+spec)
	}

	file, err := os.Open(b.download("#export-png", "sluice.png"))
	require.NoError(t, err)
	defer file.Close()
	picture, err := png.Decode(file)
	require.NoError(t, err)
	size := picture.Bounds().Size()
	require.Equal(t, 2000, size.X)
	colours := make(map[color.Color]int)
	for i := range size.X * size.Y {
		colours[color.NRGBAModel.Convert(picture.At(i%size.X, i/size.X))]++
	}
	for _, c := range []color.NRGBA{{0, 114, 178, 255}, {213, 94, 0, 255}} {
		require.Greater(t, colours[c], 1000, "%v", c)
	}
}

// svgTexts parses an SVG, and returns the texts in it.
func svgTexts(t *testing.T, svg []byte) []string {
	t.Helper()
	var texts []string
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.CharData:
			texts = append(texts, string(token))
		case xml.StartElement:
			require.NotEqual(t, "script", token.Name.Local)
		}
	}
}
