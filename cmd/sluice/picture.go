package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

// Colours for people with colour blindness (Okabe and Ito).
var (
	allowedColor = color.NRGBA{0x56, 0xb4, 0xe9, 0xff}
	deniedColor  = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	gridColor    = color.NRGBA{0xe0, 0xe0, 0xe0, 0xff}
)

const (
	pictureWidth = 9 * vg.Inch
	panelHeight  = 1.55 * vg.Inch
	headHeight   = 0.8 * vg.Inch
	lineHeight   = 0.16 * vg.Inch // of the titles of panels
	margin       = 0.15 * vg.Inch
)

// picture has a panel for each row of a timeline. All panels have equal axes.
type picture struct {
	title, subtitle string
	panels          [][]string // the lines of their titles
	timeline        *replay.Timeline
}

// addPanel adds a panel with its title. It cuts a very long name, but never the counts.
func (p *picture) addPanel(name string, allowed, denied int64) {
	counts := "no requests"
	if allowed+denied > 0 {
		counts = fmt.Sprintf("%d allowed, %d denied (%s)", allowed, denied, share(denied, allowed+denied))
	}
	const most = 3
	lines := wrap(name + ": " + counts)
	if len(lines) > most {
		lines = lines[:most]
		lines[most-2] += " …"
		lines[most-1] = counts
	}
	p.panels = append(p.panels, lines)
}

// draw draws the picture into the file.
func (p *picture) draw(path string) error {
	plots, lines := p.plots()
	height := headHeight + vg.Length(len(plots))*(panelHeight+vg.Length(lines-1)*lineHeight) + margin
	return drawFile(path, height, func(dc draw.Canvas) {
		p.drawHead(draw.Crop(dc, margin, -margin, height-headHeight, 0))
		body := draw.Crop(dc, margin, -margin, margin, -headHeight)
		for i, c := range plot.Align(plots, draw.Tiles{Rows: len(plots), Cols: 1, PadY: vg.Points(8)}, body) {
			plots[i][0].Draw(c[0])
		}
	})
}

// drawFile writes a picture into the file. paint paints it on a white canvas of the height.
func drawFile(path string, height vg.Length, paint func(draw.Canvas)) error {
	var canvas vg.CanvasWriterTo = vgsvg.New(pictureWidth, height)
	png := strings.EqualFold(filepath.Ext(path), ".png")
	if png {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(pictureWidth, height), vgimg.UseDPI(150))}
	}
	dc := draw.New(canvas)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	paint(dc)
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	content := out.Bytes()
	if !png { // viewers without the font that measured the text need fonts of equal width
		const font = "font-family:Liberation Sans"
		content = bytes.ReplaceAll(content, []byte(font), []byte(font+",Arial,Helvetica,sans-serif"))
	}
	if err := writeWhole(path, content); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// writeWhole writes a file. If that fails, for instance because the disk is full, it removes the
// file, so that nobody takes a part for the whole.
func writeWhole(path string, content []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	info, statErr := f.Stat()
	err = cmp.Or(err, f.Close())
	if err != nil && statErr == nil && info.Mode().IsRegular() { // not a device
		os.Remove(path)
	}
	return err
}

// checkPicture returns an error if the picture is one of the logs or cannot be written, before a
// long replay. It leaves the file as it was.
func checkPicture(path string, logs []source) error {
	_, err := os.Lstat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	before, _ := os.Stat(path)
	for _, log := range logs {
		if os.SameFile(log.info, before) {
			return usagef("--out %s is the log itself, and the chart would overwrite it; name another file", path)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return usagef("--out: %w; name a file in a folder that you can write to", err)
	}
	defer f.Close()
	if isNew {
		os.Remove(path)
	}
	return nil
}

// drawHead draws the title and the legend of the colours.
func (p *picture) drawHead(c draw.Canvas) {
	style := textStyle(10, draw.XLeft)
	top := c.Max.Y - margin
	c.FillText(textStyle(15, draw.XLeft), vg.Point{X: c.Min.X, Y: top}, p.title)
	c.FillText(style, vg.Point{X: c.Min.X, Y: top - vg.Points(20)}, p.subtitle)

	x := c.Max.X - vg.Points(125)
	for _, entry := range [...]struct {
		name  string
		color color.Color
	}{{"allowed", allowedColor}, {"denied", deniedColor}} {
		fill(c, entry.color, x, x+vg.Points(10), top-vg.Points(12), top-vg.Points(2))
		c.FillText(style, vg.Point{X: x + vg.Points(14), Y: top - vg.Points(1)}, entry.name)
		x += vg.Points(66)
	}
}

func textStyle(size vg.Length, align draw.XAlignment) draw.TextStyle {
	font := plot.DefaultFont
	font.Variant = "Sans"
	font.Size = size
	return draw.TextStyle{
		Color:   color.Black,
		Font:    font,
		XAlign:  align,
		YAlign:  draw.YTop,
		Handler: plot.DefaultTextHandler,
	}
}

// plots returns a row with one plot for each panel, and the number of lines of their titles.
func (p *picture) plots() (rows [][]*plot.Plot, lines int) {
	for _, title := range p.panels {
		lines = max(lines, len(title))
	}
	small := textStyle(8, draw.XCenter).Font
	highest := p.highest()
	for i, title := range p.panels {
		row := plot.New()
		// Shorter titles get empty lines above, so that all axes are equal.
		row.Title.Text = strings.Repeat("\n", lines-len(title)) + strings.Join(title, "\n")
		row.Title.TextStyle = textStyle(10, draw.XCenter)
		row.Title.Padding = vg.Points(3)
		row.Y.Label.Text = "requests per " + algo.FormatDuration(p.timeline.Width)
		row.Y.Label.TextStyle.Font = small
		row.Y.Label.Padding = vg.Points(4)
		row.Y.Tick.Label.Font = small
		row.X.Tick.Label.Font = small
		row.X.Tick.Marker = plot.TickerFunc(clockTicks)
		if i == len(p.panels)-1 {
			row.X.Label.Text = "time (UTC)"
			row.X.Label.TextStyle.Font = textStyle(9, draw.XCenter).Font
		}
		grid := plotter.NewGrid()
		grid.Horizontal.Color, grid.Vertical.Color = gridColor, gridColor
		row.Add(grid, bars{p.timeline, i})
		row.X.Min = float64(p.timeline.Start.Unix())
		row.X.Max = row.X.Min + float64(len(p.timeline.Allowed[i]))*p.timeline.Width.Seconds()
		row.Y.Min, row.Y.Max = 0, 1.05*highest
		rows = append(rows, []*plot.Plot{row})
	}
	return rows, lines
}

// wrap breaks a title between words into lines that fit the picture.
func wrap(title string) []string {
	style := textStyle(10, draw.XCenter)
	widest := pictureWidth - 4*margin
	var lines []string
	for _, word := range strings.Fields(title) {
		if last := len(lines) - 1; last >= 0 && style.Width(lines[last]+" "+word) <= widest {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

func (p *picture) highest() float64 {
	highest := int64(1)
	for row, allowed := range p.timeline.Allowed {
		for i, n := range allowed {
			highest = max(highest, n+p.timeline.Denied[row][i])
		}
	}
	return float64(highest)
}

// bars draws the bins of one row: denied requests on top of allowed ones.
type bars struct {
	timeline *replay.Timeline
	row      int
}

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	start, width := p.X.Min, b.timeline.Width.Seconds()
	for i, allowed := range b.timeline.Allowed[b.row] {
		left, right := x(start+float64(i)*width), x(start+float64(i+1)*width)
		middle, top := y(float64(allowed)), y(float64(allowed+b.timeline.Denied[b.row][i]))
		fill(c, allowedColor, left, right, y(0), middle)
		fill(c, deniedColor, left, right, middle, top)
	}
}

func fill(c draw.Canvas, with color.Color, left, right, bottom, top vg.Length) {
	if top <= bottom {
		return
	}
	c.SetColor(with)
	c.Fill(vg.Rectangle{Min: vg.Point{X: left, Y: bottom}, Max: vg.Point{X: right, Y: top}}.Path())
}

// clockSteps has the distances of labels, with the layout of the labels.
var clockSteps = []struct {
	step   time.Duration
	layout string
}{
	{time.Second, "15:04:05"}, {5 * time.Second, "15:04:05"}, {15 * time.Second, "15:04:05"}, {30 * time.Second, "15:04:05"},
	{time.Minute, "15:04"}, {2 * time.Minute, "15:04"}, {5 * time.Minute, "15:04"}, {10 * time.Minute, "15:04"},
	{15 * time.Minute, "15:04"}, {30 * time.Minute, "15:04"}, {time.Hour, "15:04"}, {2 * time.Hour, "15:04"},
	{3 * time.Hour, "Jan 2 15:04"}, {6 * time.Hour, "Jan 2 15:04"}, {12 * time.Hour, "Jan 2 15:04"},
	{24 * time.Hour, "Jan 2"}, {2 * 24 * time.Hour, "Jan 2"}, {7 * 24 * time.Hour, "Jan 2"}, {14 * 24 * time.Hour, "Jan 2"},
	{28 * 24 * time.Hour, "Jan 2"}, {91 * 24 * time.Hour, "2006-01-02"}, {365 * 24 * time.Hour, "2006-01-02"},
}

// clockTicks puts labels at round times.
func clockTicks(from, to float64) []plot.Tick {
	const most = 9
	s := clockSteps[0]
	for _, s = range clockSteps {
		if (to-from)/s.step.Seconds() <= most {
			break
		}
	}
	step := s.step.Seconds()
	for (to-from)/step > most {
		step *= 2
	}
	var ticks []plot.Tick
	for at := step * math.Ceil(from/step); at <= to; at += step {
		ticks = append(ticks, plot.Tick{Value: at, Label: time.Unix(int64(at), 0).UTC().Format(s.layout)})
	}
	return ticks
}
