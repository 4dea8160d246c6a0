package main

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

// curveChart draws the share that is denied by number, with a line for each template. Both axes
// are logarithmic, because limits differ by powers of ten and tolerances are small.
type curveChart struct {
	title, subtitle string
	unit            suggest.Unit
	goal            float64 // the largest share that may be denied, in percent
	none            float64 // where the chart shows 0%
	lines           []curveLine
}

type curveLine struct {
	name   string
	points plotter.XYs
	found  *plotter.XY // nil: no number meets the goal
}

// lineColors and lineDashes tell lines apart, also without colour and where lines cover each other.
// The colours are for people with colour blindness (Okabe and Ito).
var (
	lineColors = [...]color.NRGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xd5, 0x5e, 0x00, 0xff},
		{0xcc, 0x79, 0xa7, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff},
	}
	lineDashes = [...][]vg.Length{nil, {5, 4}, {1.5, 3}, {9, 3, 2, 3}}
	goalColor  = color.NRGBA{0x80, 0x80, 0x80, 0xff}
)

const (
	curveHeight  = 4.5 * vg.Inch
	legendHeight = 0.19 * vg.Inch // of a line
)

// chart returns a chart with a line for each search. by says what the limits are by.
func (r *suggestReport) chart(by string) *curveChart {
	c := &curveChart{
		title:    fmt.Sprintf("Share of %v denied, by number", r.goal.Of),
		subtitle: fmt.Sprintf("%s, %s, %s", baseName(r.log.name), r.log.span(), by),
		unit:     r.goal.Of,
		goal:     100 - r.goal.Share.Percent(),
		none:     100,
	}
	for i := range r.found {
		c.none = min(c.none, 100/float64(r.found[i].Total()))
	}
	c.none = math.Pow(10, math.Floor(math.Log10(c.none)-0.2))
	for i, name := range r.names {
		c.add(name, &r.found[i])
	}
	return c
}

func (c *curveChart) add(name string, s *suggest.Suggestion) {
	at := func(n *suggest.Candidate) plotter.XY {
		denied := 100 * float64(s.Goal.Count(&n.Counts)) / float64(s.Total())
		return plotter.XY{X: float64(n.Number), Y: max(denied, c.none)}
	}
	line := curveLine{name: name}
	for i := range s.Curve {
		line.points = append(line.points, at(&s.Curve[i]))
	}
	if s.Found {
		found := at(&s.Best)
		line.found = &found
		line.name = fmt.Sprintf("%s, found: %d", name, s.Best.Number)
	}
	c.lines = append(c.lines, line)
}

// draw draws the chart into the file.
func (c *curveChart) draw(path string) error {
	head := headHeight + vg.Length(len(c.lines))*legendHeight
	height := head + curveHeight
	p := c.plot()
	return drawFile(path, height, func(dc draw.Canvas) {
		top := draw.Crop(dc, margin, -margin, height-head, 0)
		y := top.Max.Y - margin
		top.FillText(textStyle(15, draw.XLeft), vg.Point{X: top.Min.X, Y: y}, c.title)
		top.FillText(textStyle(10, draw.XLeft), vg.Point{X: top.Min.X, Y: y - vg.Points(20)}, c.subtitle)
		y -= vg.Points(44)
		for i := range c.lines {
			style := lineStyle(i)
			x := top.Min.X
			top.StrokeLine2(style, x, y-vg.Points(6), x+vg.Points(34), y-vg.Points(6))
			if c.lines[i].found != nil {
				top.DrawGlyph(glyphStyle(i), vg.Point{X: x + vg.Points(17), Y: y - vg.Points(6)})
			}
			top.FillText(textStyle(10, draw.XLeft), vg.Point{X: x + vg.Points(42), Y: y}, shorten(c.lines[i].name))
			y -= legendHeight
		}
		p.Draw(draw.Crop(dc, margin, -margin, margin, -head))
	})
}

func (c *curveChart) plot() *plot.Plot {
	p := plot.New()
	p.X.Label.Text = "number in place of the ?"
	p.Y.Label.Text = fmt.Sprintf("share of %v denied", c.unit)
	p.X.Label.TextStyle.Font = textStyle(9, draw.XCenter).Font
	p.Y.Label.TextStyle.Font = textStyle(9, draw.XCenter).Font
	p.X.Tick.Label.Font = textStyle(8, draw.XCenter).Font
	p.Y.Tick.Label.Font = textStyle(8, draw.XCenter).Font
	p.X.Min, p.X.Max = 1, 2
	p.Y.Min, p.Y.Max = c.none, 100
	for i := range c.lines {
		for _, point := range c.lines[i].points {
			p.X.Max = max(p.X.Max, point.X)
		}
	}
	p.X.Max *= 1.05 // room for the last mark
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = plot.TickerFunc(roundTicks)
	p.Y.Tick.Marker = plot.TickerFunc(c.shareTicks)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = gridColor, gridColor
	p.Add(grid)
	if c.goal > c.none {
		p.Add(level{c.goal, fmt.Sprintf("the goal: at most %s%% denied", strconv.FormatFloat(c.goal, 'g', 6, 64))})
	}
	for i := range c.lines {
		p.Add(&plotter.Line{XYs: c.lines[i].points, LineStyle: lineStyle(i)})
	}
	for i := range c.lines {
		if found := c.lines[i].found; found != nil {
			p.Add(&plotter.Scatter{XYs: plotter.XYs{*found}, GlyphStyle: glyphStyle(i)})
		}
	}
	return p
}

// lineStyle returns the style of a line. Later lines are thinner, so that they do not hide earlier
// ones.
func lineStyle(i int) draw.LineStyle {
	return draw.LineStyle{
		Color:  lineColors[i%len(lineColors)],
		Width:  vg.Points(max(1.2, 2.6-0.4*float64(i))),
		Dashes: lineDashes[i%len(lineDashes)],
	}
}

func glyphStyle(i int) draw.GlyphStyle {
	shapes := [...]draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}}
	return draw.GlyphStyle{Color: lineColors[i%len(lineColors)], Radius: vg.Points(4), Shape: shapes[i%len(shapes)]}
}

// level is a horizontal line with a label.
type level struct {
	y     float64
	label string
}

// Plot implements plot.Plotter.
func (l level) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	at := y(l.y)
	c.StrokeLine2(draw.LineStyle{Color: goalColor, Width: vg.Points(1)}, c.Min.X, at, c.Max.X, at)
	c.FillText(textStyle(8, draw.XLeft), vg.Point{X: c.Min.X + vg.Points(3), Y: at - vg.Points(2)}, l.label)
}

// roundTicks labels powers of ten, and their doubles and fivefolds if there are few of them.
func roundTicks(from, to float64) (ticks []plot.Tick) {
	few := to/from <= 2e4
	for ten := 1.0; ten <= to; ten *= 10 {
		for _, digit := range [...]float64{1, 2, 5} {
			if at := ten * digit; at >= from && at <= to && (digit == 1 || few) {
				ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'g', 7, 64)})
			}
		}
	}
	return ticks
}

// shareTicks labels powers of ten in percent. The lowest one is 0%.
func (c *curveChart) shareTicks(_, to float64) []plot.Tick {
	ticks := []plot.Tick{{Value: c.none, Label: "0%"}}
	for at := c.none * 10; at <= to*1.01; at *= 10 {
		ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'g', 3, 64) + "%"})
	}
	return ticks
}
