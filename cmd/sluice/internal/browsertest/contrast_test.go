package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/stretchr/testify/require"
)

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
