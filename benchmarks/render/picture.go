package main

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

var (
	oursColor  = color.RGBA{R: 0x1b, G: 0x6c, B: 0xa8, A: 0xff}
	theirColor = color.RGBA{R: 0xb8, G: 0xbf, B: 0xc6, A: 0xff}
)

// draw makes a picture of bars, a line for each figure; each bar is as long as its
// part of the best at the same work, so that works of all sizes can be compared.
func draw(r figure.Result, path string) error {
	figures := slices.Clone(r.Figures)
	slices.Reverse(figures) // the first at the top
	p := plot.New()
	p.Title.Text = r.Area + ": each beside the largest at the same work"
	p.X.Min, p.X.Max = 0, 1.25
	p.X.Tick.Marker = plot.ConstantTicks{}
	p.X.Label.Text = ""
	var names []string
	for i, f := range figures {
		bar, err := plotter.NewBarChart(plotter.Values{f.Value / largest(r, f.Work)}, vg.Points(11))
		if err != nil {
			return fmt.Errorf("drawing %s: %w", r.Area, err)
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width = true, float64(i), 0
		if bar.Color = theirColor; f.Ours {
			bar.Color = oursColor
		}
		label, err := plotter.NewLabels(plotter.XYLabels{
			XYs:    plotter.XYs{{X: f.Value/largest(r, f.Work) + 0.01, Y: float64(i) - 0.15}},
			Labels: []string{number(f.Value) + " " + f.Unit},
		})
		if err != nil {
			return fmt.Errorf("drawing %s: %w", r.Area, err)
		}
		p.Add(bar, label)
		names = append(names, f.Work+": "+f.Name)
	}
	p.NominalY(names...)
	p.X.Tick.Marker = plot.ConstantTicks{}
	return p.Save(22*vg.Centimeter, vg.Length(len(figures))*0.55*vg.Centimeter+2*vg.Centimeter, path)
}

func largest(r figure.Result, work string) (most float64) {
	for _, f := range r.Figures {
		if f.Work == work {
			most = max(most, f.Value)
		}
	}
	if most == 0 {
		return 1
	}
	return most
}
