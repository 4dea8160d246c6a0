package main

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

var (
	oursColor  = color.RGBA{R: 0x1b, G: 0x6c, B: 0xa8, A: 0xff}
	theirColor = color.RGBA{R: 0xb8, G: 0xbf, B: 0xc6, A: 0xff}
)

// picture is a chart of horizontal bars.
type picture struct {
	*plot.Plot
	rows int
}

// draw draws a chart: the name of each workload, and a bar for each of its figures, with a label
// behind it. The largest figure of each workload has the full length.
func draw(r figure.Result, path string) error {
	p := picture{Plot: plot.New()}
	p.HideAxes()
	work := ""
	for _, f := range r.Figures {
		if f.Work != work {
			work = f.Work
			p.rows++ // space between workloads
			if err := p.text(0, work); err != nil {
				return err
			}
		}
		if err := p.bar(f, largest(r, work)); err != nil {
			return err
		}
	}
	p.X.Min, p.X.Max = 0, 1.7
	p.Y.Min, p.Y.Max = float64(-p.rows)-0.5, 0.5
	return p.Save(18*vg.Centimeter, vg.Length(p.rows+2)*0.5*vg.Centimeter, path)
}

func (p *picture) bar(f figure.Figure, largest float64) error {
	length := f.Value / largest
	bar, err := plotter.NewBarChart(plotter.Values{length}, vg.Points(10))
	if err != nil {
		return fmt.Errorf("%s, %s: %w", f.Work, f.Name, err)
	}
	bar.Horizontal, bar.XMin, bar.LineStyle.Width, bar.Color = true, float64(-p.rows), 0, theirColor
	if f.Ours {
		bar.Color = oursColor
	}
	p.Add(bar)
	return p.text(length+0.01, fmt.Sprintf("%s: %s %s", f.Name, number(f.Value), f.Unit))
}

// text writes a line of text.
func (p *picture) text(x float64, text string) error {
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: float64(-p.rows) - 0.3}}, Labels: []string{text}})
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	p.Add(labels)
	p.rows++
	return nil
}

// largest returns the largest figure of a workload, or 1 if all are 0.
func largest(r figure.Result, work string) float64 {
	var most float64
	for _, f := range r.Figures {
		if f.Work == work {
			most = max(most, f.Value)
		}
	}
	return cmp.Or(most, 1)
}

// number formats x with three significant digits and commas.
func number(x float64) string {
	if x < 1000 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	digits := strconv.FormatInt(int64(math.Round(x/unit)*unit), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func latency(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Round(time.Microsecond).Microseconds())
	}
	return fmt.Sprintf("%.3g ms", float64(d)/1e6)
}
