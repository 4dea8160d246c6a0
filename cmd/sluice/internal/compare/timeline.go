package main

import (
	"fmt"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	shown   = 20 * time.Minute // of each pattern
	stretch = 5 * time.Second  // that a bar of it stands for
)

// arrivals is the picture of the requests themselves.
func arrivals(sections []section) picture {
	p := picture{
		file:   "arrivals.svg",
		title:  "The requests",
		legend: "of each pattern in its first twenty minutes, by every five seconds",
		height: headHeight + vg.Length(len(sections))*0.85*vg.Inch,
	}
	for i, s := range sections {
		p.plots = append(p.plots, []*plot.Plot{timeline(s, i == len(sections)-1)})
	}
	return p
}

func timeline(s section, last bool) *plot.Plot {
	p := newPlot(s.name)
	counts := count(s.requests)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColor, gridColor
	p.Add(grid, steps(counts))
	p.X.Min, p.X.Max = 0, shown.Minutes()
	p.X.Tick.Marker = minutes()
	if !last {
		p.HideX()
	}
	p.Y.Min, p.Y.Max = 0, 62
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 30, Label: "30"}, {Value: 60, Label: "60"}}
	return p
}

func minutes() (ticks plot.ConstantTicks) {
	for m := 0; m <= int(shown.Minutes()); m += 5 {
		ticks = append(ticks, plot.Tick{Value: float64(m), Label: fmt.Sprintf("%d min", m)})
	}
	return ticks
}

// count counts requests by stretch, from the minute in which the first one comes.
func count(requests []request) []int {
	counts := make([]int, shown/stretch)
	start := requests[0].at.Truncate(time.Minute)
	for _, r := range requests {
		if i := int(r.at.Sub(start) / stretch); i < len(counts) {
			counts[i]++
		}
	}
	return counts
}

// steps draws counts.
type steps []int

// Plot implements plot.Plotter.
func (s steps) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, n := range s {
		left, right := time.Duration(i)*stretch, time.Duration(i+1)*stretch
		fill(c, barColor, x(left.Minutes()), x(right.Minutes()), y(0), y(float64(n)))
	}
}
