package browsertest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func TestAddressHasAllSettings(t *testing.T) {
	t.Parallel()
	b := open(t, "p=gcra+30/m&p=fixedwindow+30/m&p=movingwindow+30/m&p=gcra+1/s")
	b.changes(func() { b.choose("#kind", "poisson") })
	for range 2 {
		before := b.table()
		b.changes(func() { b.click("#new-seed") })
		require.NotEqual(t, before, b.table())
	}
	b.changes(func() { b.enter("#requests", "500") })
	b.changes(func() { b.enter("#length", "900") })
	b.changes(func() { b.enter("#clients", "5") })
	b.changes(func() { b.enter("#seed", "9") })
	b.changes(func() { b.choose("#reaction", "wait") })
	b.changes(func() { b.click("#shared") })
	b.changes(func() { b.enter("#processes", "3") })
	b.changes(func() { b.enter("#skews label:nth-child(2) input", "7.5") })
	b.changes(func() { b.choose("#clock", "own") })
	b.changes(func() { b.enter("#prepay-calls", "20") })
	b.changes(func() { b.enter("#prepay-for", "0.5") })
	b.changes(func() { b.button(4, "Remove") })
	b.changes(func() { b.enter("#spec-1", "all(gcra 10/s; gcra 100/m burst=20)") })
	b.changes(func() { b.choose("#client", "client-3") })
	b.changes(func() { b.click("#zoom-in") })
	b.waitView("to > from")
	b.requireTable(b.compare(query{
		Specs:    []string{"all(gcra 10/s; gcra 100/m burst=20)", "fixedwindow 30/m", "movingwindow 30/m"},
		Stream:   stream{Kind: "poisson", Requests: 500, Length: 900, Clients: 5, Seed: 9},
		Reaction: "wait", Shared: true, Skews: []float64{0, 7.5, 0}, OwnClocks: true,
		Prepay: prepay{20, 0.5},
	}))

	address := eval[string](b, "location.href")
	require.Contains(t, address, "#p=all(gcra+10/s;+gcra+100/m+burst=20)&", "not easy to read")
	parameters, err := url.ParseQuery(strings.ReplaceAll(address[strings.Index(address, "#")+1:], ";", "%3B"))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"kind": "poisson", "requests": "500", "length": "900", "clients": "5", "seed": "9", "after-denial": "wait",
		"shared": "yes", "clocks-ahead": "0,7.5,0", "clock": "own", "bought-ahead": "20", "bought-for": "0.5", "level": "client-3",
	} {
		require.Equal(t, value, parameters.Get(name), name)
	}

	other := blank(t)
	other.visit(address)
	require.Equal(t, address, eval[string](other, "location.href"))
	require.Equal(t, b.table(), other.table())
	require.Equal(t, b.specs(), other.specs())
	require.Equal(t, b.settingsShown(), other.settingsShown())
	require.Empty(t, other.messages())
}

// settingsShown returns the state of each control, in their order.
func (b *tab) settingsShown() []string {
	b.t.Helper()
	return eval[[]string](b, `[...document.querySelectorAll('input:not([type=file]), select')].map((e) => [e.id, e.ariaLabel, e.value, e.checked, e.disabled].join(' '))`)
}

func TestInvalidParametersAreReported(t *testing.T) {
	t.Parallel()
	b := blank(t)
	for settings, messages := range map[string][]string{
		"requests=many&length=-1&kind=<b>x</b>&clocks-ahead=1,x&after-denial=__proto__": {
			"requests=many", "length=-1", "kind=<b>x</b>", "clocks-ahead=1,x", "after-denial=__proto__",
		},
		"requests=1e9&from=9&to=3&target=13&kind=worst": {"requests=1e9", "to that is not above from", "target=13"},
		"nonsense=1&__proto__=1&constructor=x":          {"nonsense", "__proto__"},
		"%E0%A4%A":                                      {"unknown setting"},
		strings.Repeat("p=gcra&", 13):                   {"13 policies"},
	} {
		b.visit(pageAddress(t) + "#" + settings)
		for _, message := range messages {
			require.Contains(t, b.messages(), message)
		}
		require.NotEmpty(t, b.table())
		require.Zero(t, eval[int](b, "document.querySelectorAll('#messages b').length"))
		b.changes(func() { b.enter("#spec-1", "gcra 7/m") })
		require.Empty(t, b.messages(), "the message about %s remains", settings)
		require.Contains(t, b.table()[0]["Policy"], "gcra 7/m")
	}
}

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

// TestExportsOfThePolicies: the trace passes its check, the rules are valid, the SVG has the texts of the table, and the PNG has
// the colours of the charts.
func TestExportsOfThePolicies(t *testing.T) {
	t.Parallel()
	b := open(t, "after-denial=wait")
	b.choose("#trace-policy", "1")
	path := b.download("#export-trace", "sluice.trace")
	trace, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(trace), "policy "+b.specs()[1]+"\n")
	require.Equal(t, b.table()[1].number(t, "Calls"), strings.Count(string(trace), "\n@"))
	sluice(t, "replay", "--check", path)

	path = b.download("#export-rules", "limits.yaml")
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

// TestLargeNumbersFit: the labels of a chart are inside it, and no two texts of the SVG overlap.
func TestLargeNumbersFit(t *testing.T) {
	t.Parallel()
	b := open(t, "p=gcra+1099511627776/s&kind=greedy&requests=200000&length=1&clocks-ahead=0,0,0,0,0,0,0,0,0,0")
	eval[bool](b, `(() => {
		window.labels = [];
		const draw = CanvasRenderingContext2D.prototype.fillText;
		CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
			const size = this.measureText(text);
			const { e } = this.getTransform();
			const fits = e + x - size.actualBoundingBoxLeft >= 0 && e + x + size.actualBoundingBoxRight <= this.canvas.width;
			window.labels.push(text + (fits ? '' : ' is cut'));
			draw.call(this, text, x, y);
		};
		return true;
	})()`)
	b.changes(func() { b.enter("#spec-1", "gcra 1099511627775/s") })
	labels := eval[[]string](b, "window.labels")
	require.Contains(t, labels, "1.1T")
	require.NotContains(t, strings.Join(labels, "\n"), "is cut")

	svg, err := os.ReadFile(b.download("#export-svg", "sluice.svg"))
	require.NoError(t, err)
	require.Empty(t, eval[[]string](b, `(() => {
		document.body.innerHTML = %s;
		const texts = [...document.querySelectorAll('svg text')].map((e) => [e.textContent, e.getBBox()]);
		const overlap = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && Math.abs(a.y - b.y) < 11;
		return texts.flatMap(([a, box], i) => texts.slice(i + 1).filter(([, other]) => overlap(box, other)).map(([b]) => a + ' and ' + b));
	})()`, quote(string(svg))))
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
