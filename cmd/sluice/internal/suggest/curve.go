package suggest

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sluice-go/sluice/cmd/sluice/internal/picture"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

// curvePicture draws the share that is denied by number, with a line for each search. Both axes are
// logarithmic, because limits differ by powers of ten and tolerances are small.
type curvePicture struct {
	found    []*Suggestion
	goal     Goal
	subtitle string
}

// Draw draws the chart into the file.
func (r curvePicture) Draw(path string) error {
	c := picture.New(fmt.Sprintf("Share of %v denied, by number", r.goal.Of), r.subtitle)
	none := 100.0 // where the chart shows 0%
	for _, s := range r.found {
		none = min(none, 100/float64(s.Total()))
	}
	none = math.Pow(10, math.Floor(math.Log10(none)-0.2))
	p := c.Add(4.5 * vg.Inch)
	p.X.Label.Text = "number in place of the ?"
	p.Y.Label.Text = fmt.Sprintf("share of %v denied", r.goal.Of)
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.TickerFunc(shareTicks)
	p.X.Max = 2
	var marks []plot.Plotter // above all lines
	for i, s := range r.found {
		line := &plotter.Line{LineStyle: lineStyle(i)}
		for j := range s.Curve {
			line.XYs = append(line.XYs, curvePoint(s, &s.Curve[j], none))
		}
		p.Add(line)
		if !s.Found {
			c.Legend.Add(readable.Shorten(s.Name), line)
			continue
		}
		mark := &plotter.Scatter{XYs: plotter.XYs{curvePoint(s, &s.Best, none)}, GlyphStyle: glyphStyle(i)}
		c.Legend.Add(readable.Shorten(fmt.Sprintf("%s, found: %d", s.Name, s.Best.Number)), line, mark)
		marks = append(marks, mark)
	}
	p.X.Min, p.X.Max = 1, p.X.Max*1.05 // room for the last mark
	p.Y.Min, p.Y.Max = none, 100
	share, _ := r.goal.Share.Float64()
	if goal := 100 - 100*share; goal > none {
		level := &plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: goal}, {X: p.X.Max, Y: goal}}}
		level.LineStyle = draw.LineStyle{Color: color.Gray{0x80}, Width: vg.Points(1)}
		p.Add(level)
		c.Legend.Add(fmt.Sprintf("the goal: at most %s%% denied", strconv.FormatFloat(goal, 'g', 6, 64)), level)
	}
	p.Add(marks...)
	return c.Draw(path)
}

// curvePoint returns the point of a candidate. 0% is at none.
func curvePoint(s *Suggestion, c *Candidate, none float64) plotter.XY {
	denied := 100 * float64(s.Goal.Count(&c.Counts)) / float64(s.Total())
	return plotter.XY{X: float64(c.Number), Y: max(denied, none)}
}

// lineColors are for people with colour blindness (Okabe and Ito).
var lineColors = [...]color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xd5, 0x5e, 0x00, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

// lineStyle returns the style of a line. Later lines are thinner, so that they do not hide earlier
// ones, and dashed.
func lineStyle(i int) draw.LineStyle {
	return draw.LineStyle{
		Color:  lineColors[i%len(lineColors)],
		Width:  vg.Points(max(1.2, 2.6-0.4*float64(i))),
		Dashes: plotutil.Dashes(i),
	}
}

func glyphStyle(i int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: lineColors[i%len(lineColors)], Radius: vg.Points(4), Shape: plotutil.Shape(i)}
}

// shareTicks labels powers of ten in percent. The lowest one is 0%.
func shareTicks(from, to float64) []plot.Tick {
	ticks := []plot.Tick{{Value: from, Label: "0%"}}
	for at := from * 10; at <= to*1.01; at *= 10 {
		ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'g', 3, 64) + "%"})
	}
	return ticks
}
