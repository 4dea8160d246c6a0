package main

import (
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// measure is what a picture shows of every policy under every pattern.
type measure struct {
	file          string
	title, legend string
	ticks         []plot.Tick // the last is the end of the axis
	bar           func(outcome) float64
	label         func(outcome) string
	mark          func(outcome) float64 // nil: none
}

func measures() []measure {
	shares := []plot.Tick{{Value: 0, Label: "0"}, {Value: 0.5, Label: "50%"}, {Value: 1, Label: "100%"}}
	return []measure{
		{
			file: "admitted.svg", title: "Admitted", ticks: shares,
			legend: "share of the requests that were admitted",
			bar:    outcome.share,
			label:  func(o outcome) string { return fmt.Sprintf("%.0f%%", 100*o.share()) },
		},
		{
			file: "worst.svg", title: "Worst period",
			ticks:  []plot.Tick{{Value: 0, Label: "0"}, {Value: 1, Label: "limit"}, {Value: 2, Label: "twice"}},
			legend: "the most admitted in any one period, in multiples of the limit; the line is the most that the policy ever admits, by its bound",
			bar:    outcome.worstPeriod,
			label:  func(o outcome) string { return multiple(o.worstPeriod()) },
			mark:   outcome.worstEver,
		},
		{
			file: "overdenied.svg", title: "Over-denied", ticks: shares,
			legend: "share of the denied requests for which the exact log had room",
			bar:    outcome.overDenied,
			label:  func(o outcome) string { return fmt.Sprintf("%.0f%%", 100*o.overDenied()) },
		},
		{
			file: "wait.svg", title: "Wait",
			ticks:  []plot.Tick{{Value: 0, Label: "0"}, {Value: 20, Label: "20s"}, {Value: 40, Label: "40s"}},
			legend: "told to a denied request, in the mean; the line is what the exact log of the same admissions would have told",
			bar:    func(o outcome) float64 { return mean(o.waits).Seconds() },
			label:  func(o outcome) string { return seconds(mean(o.waits)) },
			mark:   func(o outcome) float64 { return mean(o.exactWaits).Seconds() },
		},
	}
}

// picture is a row of plots, one for each pattern, and the policies' names on the
// left of it.
func (m measure) picture(sections []section) picture {
	p := picture{file: m.file, title: m.title, legend: m.legend, height: 3.4 * vg.Inch, indent: 2.25 * vg.Inch}
	p.plots = make([][]*plot.Plot, 1)
	for i, s := range sections {
		p.plots[0] = append(p.plots[0], m.plot(s, i == 0))
	}
	return p
}

func (m measure) plot(s section, named bool) *plot.Plot {
	p := newPlot(s.name)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Width = gridColor, 0
	p.Add(grid, bars{m, s.outcomes, named})
	p.X.Min, p.X.Max = 0, 1.4*m.ticks[len(m.ticks)-1].Value // room for the figures
	p.X.Tick.Marker = plot.ConstantTicks(m.ticks)
	p.Y.Min, p.Y.Max = -0.7, float64(len(s.outcomes))-0.3
	p.HideY()
	return p
}

// bars draws a bar for each outcome, with its mark, its figure on the right, and
// perhaps its name on the left of the plot.
type bars struct {
	measure
	outcomes []outcome
	named    bool
}

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, o := range b.outcomes {
		row := float64(len(b.outcomes) - 1 - i) // the first is on top
		fill(c, paint(i), x(0), x(b.bar(o)), y(row-0.35), y(row+0.35))
		if b.mark != nil {
			at := x(b.mark(o))
			fill(c, markColor, at-vg.Points(0.75), at+vg.Points(0.75), y(row-0.45), y(row+0.45))
		}
		c.FillText(style(7.5, draw.XRight, draw.YCenter), vg.Point{X: c.Max.X, Y: y(row)}, b.label(o))
		if b.named {
			c.FillText(style(8.5, draw.XRight, draw.YCenter), vg.Point{X: x(0) - vg.Points(6), Y: y(row)}, shortName(o))
		}
	}
}

// paint is grey for the exact log, which is not one of the algorithms.
func paint(i int) color.Color {
	if i == 0 {
		return exactColor
	}
	return barColor
}

// shortName is without the limit that all have in common.
func shortName(o outcome) string { return strings.Replace(o.name, " "+limit.String(), "", 1) }
