package replay

import (
	"fmt"
	"image/color"
	"math"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/picture"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

const (
	panelHeight = 1.55 * vg.Inch
	lineHeight  = 0.16 * vg.Inch // of the titles of panels
)

// timelinePicture has a panel for each row of a timeline. All panels have equal axes.
type timelinePicture struct {
	*picture.Chart
	timeline *backtest.Timeline
	highest  float64 // of all panels
}

func newPicture(what, subtitle string, timeline *backtest.Timeline) *timelinePicture {
	return &timelinePicture{picture.New("Allowed and denied requests under each "+what, subtitle), timeline, 1}
}

// addPanel adds a panel with its title. It cuts a very long name, but never the counts.
func (p *timelinePicture) addPanel(name string, allowed, denied int64) {
	counts := "no requests"
	if allowed+denied > 0 {
		counts = fmt.Sprintf("%d allowed, %d denied (%s)", allowed, denied, readable.Share(denied, allowed+denied))
	}
	const most = 3
	title := wrap(name + ": " + counts)
	if len(title) > most {
		title = title[:most]
		title[most-2] += " …"
		title[most-1] = counts
	}
	allowedArea, allArea := p.areas(len(p.Plots))
	panel := p.Add(panelHeight + vg.Length(len(title)-1)*lineHeight)
	panel.Title.Text = strings.Join(title, "\n")
	panel.Title.Padding = vg.Points(3)
	panel.Y.Label.Text = "requests per " + readable.Exact(p.timeline.Width)
	panel.X.Tick.Marker = plot.TickerFunc(clockTicks)
	panel.Add(allArea, allowedArea) // the denied requests stay visible above the allowed ones
	p.highest = max(p.highest, panel.Y.Max)
	if len(p.Plots) == 1 {
		p.Legend.Add("allowed", allowedArea)
		p.Legend.Add("denied", allArea)
	}
}

// wrap breaks a title between words into lines that fit the picture.
func wrap(title string) []string {
	style := picture.TextStyle(10)
	var lines []string
	for _, word := range strings.Fields(title) {
		if last := len(lines) - 1; last >= 0 && style.Width(lines[last]+" "+word) <= picture.Width-4*picture.Margin {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// Draw draws the picture into the file.
func (p *timelinePicture) Draw(path string) error {
	for _, row := range p.Plots {
		row[0].Y.Min, row[0].Y.Max = 0, 1.05*p.highest
	}
	p.Plots[len(p.Plots)-1][0].X.Label.Text = "time (UTC)"
	return p.Chart.Draw(path)
}

// areas returns the allowed requests and all requests of a panel as steps. The colours are for people
// with colour blindness (Okabe and Ito).
func (p *timelinePicture) areas(row int) (allowed, all *plotter.Line) {
	allowed = &plotter.Line{StepStyle: plotter.PostStep, FillColor: color.NRGBA{0x56, 0xb4, 0xe9, 0xff}}
	all = &plotter.Line{StepStyle: plotter.PostStep, FillColor: color.NRGBA{0xd5, 0x5e, 0x00, 0xff}}
	at := float64(p.timeline.Start.Unix())
	for i, n := range p.timeline.Allowed[row] {
		allowed.XYs = append(allowed.XYs, plotter.XY{X: at, Y: float64(n)})
		all.XYs = append(all.XYs, plotter.XY{X: at, Y: float64(n + p.timeline.Denied[row][i])})
		at += p.timeline.Width.Seconds()
	}
	allowed.XYs = append(allowed.XYs, plotter.XY{X: at})
	all.XYs = append(all.XYs, plotter.XY{X: at})
	return allowed, all
}

// clockSteps has the distances of labels.
var clockSteps = [...]time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 365 * day,
}

const day = 24 * time.Hour

// clockTicks puts labels at round times.
func clockTicks(from, to float64) (ticks []plot.Tick) {
	const most = 9
	i := 0
	for i < len(clockSteps)-1 && (to-from)/clockSteps[i].Seconds() > most {
		i++
	}
	step := clockSteps[i].Seconds()
	for (to-from)/step > most {
		step *= 2
	}
	layout := "15:04:05"
	switch d := clockSteps[i]; {
	case d > 28*day:
		layout = "2006-01-02"
	case d >= day:
		layout = "Jan 2"
	case d >= 3*time.Hour:
		layout = "Jan 2 15:04"
	case d >= time.Minute:
		layout = "15:04"
	}
	for at := step * math.Ceil(from/step); at <= to; at += step {
		ticks = append(ticks, plot.Tick{Value: at, Label: time.Unix(int64(at), 0).UTC().Format(layout)})
	}
	return ticks
}
