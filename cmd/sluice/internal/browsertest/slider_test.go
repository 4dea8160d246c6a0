package browsertest

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// large is about 10,000 requests and four policies.
func large() query {
	return query{
		Specs:    []string{"gcra 30/m", "tokenbucket 30/m", "fixedwindow 30/m", "movingwindow 30/m slots=12"},
		Stream:   stream{Kind: "poisson", Requests: 10_000, Length: 18_000, Clients: 1, Seed: 1},
		Reaction: "ignore",
	}
}

// The last of many changes is the one that is drawn at the end.
func TestPictureFollowsADraggedSlider(t *testing.T) {
	t.Parallel()
	q := large()
	b := open(t, q.settings())
	at := eval[struct{ X, Y, Width, Height float64 }](b, `(() => {
		const e = document.querySelector('article[aria-label="Policy 1"] input[type=range]');
		e.scrollIntoView({ block: 'center' });
		return e.getBoundingClientRect().toJSON();
	})()`)
	y := at.Y + at.Height/2
	b.do(chromedp.MouseEvent(chromedp.MousePressed, at.X+at.Width/3, y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
	specs := []string{b.specs()[0]}
	for i := range 40 {
		b.do(chromedp.MouseEvent(chromedp.MouseMoved, at.X+at.Width*(1./3+float64(i)/80), y, chromedp.ButtonLeft))
		specs = append(specs, b.specs()[0])
	}
	b.do(chromedp.MouseEvent(chromedp.MouseReleased, at.X+at.Width*0.8, y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
	require.Greater(t, len(slices.Compact(specs)), 20, "the spec does not follow the slider")

	q.Specs[0] = b.specs()[0]
	b.wait("document.querySelector('#results tbody code').textContent === %s", quote(q.Specs[0]))
	b.requireTable(b.compare(q))
}
