package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
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
	panels          []panel
	timeline        *replay.Timeline
}

// panel has the parts of a panel's title.
type panel struct{ name, counts string }

func (r *result) picture() *picture {
	p := &picture{
		title:    "Allowed and denied requests under each policy",
		subtitle: fmt.Sprintf("%s, %s, limited by %s", shorten(filepath.Base(r.name)), r.span(), r.by),
		timeline: &r.Timeline,
	}
	for _, o := range r.Policies {
		p.panels = append(p.panels, panel{o.Policy.String(), countsOf(o.Allowed, o.Denied)})
	}
	return p
}

func countsOf(allowed, denied int64) string {
	if allowed+denied == 0 {
		return "no requests"
	}
	return fmt.Sprintf("%d allowed, %d denied (%s)", allowed, denied, share(denied, allowed+denied))
}

// drawPicture draws the picture into the file.
func drawPicture(path string, r *picture) error {
	panels, lines := r.plots()
	height := headHeight + vg.Length(len(panels))*(panelHeight+vg.Length(lines-1)*lineHeight) + margin
	canvas, writer := newCanvas(pictureFormat(path), pictureWidth, height)
	dc := draw.New(canvas)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())

	r.head(draw.Crop(dc, margin, -margin, height-headHeight, 0))
	body := draw.Crop(dc, margin, -margin, margin, -headHeight)
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: vg.Points(8)}
	var rows [][]*plot.Plot
	for _, p := range panels {
		rows = append(rows, []*plot.Plot{p})
	}
	for i, c := range plot.Align(rows, tiles, body) {
		panels[i].Draw(c[0])
	}
	return writeFile(path, writer)
}

func newCanvas(format string, w, h vg.Length) (vg.CanvasSizer, io.WriterTo) {
	if format == "png" {
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(150))}
		return c, c
	}
	c := vgsvg.New(w, h)
	return c, withFonts{c}
}

// withFonts adds fonts of equal width, for viewers without the font that measured the text.
type withFonts struct{ svg io.WriterTo }

// WriteTo implements io.WriterTo.
func (f withFonts) WriteTo(w io.Writer) (int64, error) {
	var text bytes.Buffer
	if _, err := f.svg.WriteTo(&text); err != nil {
		return 0, err
	}
	const font = "font-family:Liberation Sans"
	n, err := w.Write(bytes.ReplaceAll(text.Bytes(), []byte(font), []byte(font+",Arial,Helvetica,sans-serif")))
	return int64(n), err
}

// tryToWrite returns an error if the picture cannot be written, before a long replay. It leaves
// the file as it was.
func tryToWrite(path string) error {
	_, err := os.Lstat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
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

func writeFile(path string, content io.WriterTo) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	_, err = content.WriteTo(f)
	return err
}

// head draws the title and the legend of the colours.
func (r *picture) head(c draw.Canvas) {
	head := textStyle(15, draw.XLeft)
	sub := textStyle(10, draw.XLeft)
	top := c.Max.Y - margin
	c.FillText(head, vg.Point{X: c.Min.X, Y: top}, r.title)
	c.FillText(sub, vg.Point{X: c.Min.X, Y: top - vg.Points(20)}, r.subtitle)

	x := c.Max.X - vg.Points(125)
	for _, entry := range [...]struct {
		name  string
		color color.Color
	}{{"allowed", allowedColor}, {"denied", deniedColor}} {
		c.SetColor(entry.color)
		box := vg.Rectangle{Min: vg.Point{X: x, Y: top - vg.Points(12)}, Max: vg.Point{X: x + vg.Points(10), Y: top - vg.Points(2)}}
		c.Fill(box.Path())
		c.FillText(sub, vg.Point{X: x + vg.Points(14), Y: top - vg.Points(1)}, entry.name)
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
		Handler: text.Plain{Fonts: plot.DefaultTextHandler.Cache()},
	}
}

// plots returns the plots of the panels, and the number of lines of their titles.
func (r *picture) plots() (plots []*plot.Plot, lines int) {
	highest := r.highest()
	var titles [][]string
	for _, p := range r.panels {
		titles = append(titles, p.title())
		lines = max(lines, len(titles[len(titles)-1]))
	}
	for i := range r.panels {
		p := plot.New()
		// Shorter titles get empty lines above, so that all axes are equal.
		p.Title.Text = strings.Repeat("\n", lines-len(titles[i])) + strings.Join(titles[i], "\n")
		p.Title.TextStyle = textStyle(10, draw.XCenter)
		p.Title.Padding = vg.Points(3)
		p.Y.Label.Text = "requests per " + algo.FormatDuration(r.timeline.Width)
		p.Y.Label.TextStyle.Font = textStyle(8, draw.XCenter).Font
		p.Y.Label.Padding = vg.Points(4)
		p.Y.Tick.Label.Font = textStyle(8, draw.XRight).Font
		p.X.Tick.Label.Font = textStyle(8, draw.XCenter).Font
		p.X.Tick.Marker = clockTicks{}
		if i == len(r.panels)-1 {
			p.X.Label.Text = "time (UTC)"
			p.X.Label.TextStyle.Font = textStyle(9, draw.XCenter).Font
		}
		grid := plotter.NewGrid()
		grid.Horizontal.Color, grid.Vertical.Color = gridColor, gridColor
		p.Add(grid, bars{r, i})
		p.X.Min, p.X.Max = r.span()
		p.Y.Min, p.Y.Max = 0, 1.05*highest
		plots = append(plots, p)
	}
	return plots, lines
}

// title returns the lines of the title. It cuts a very long name, but never the counts.
func (p *panel) title() []string {
	const most = 3
	lines := wrap(p.name + ": " + p.counts)
	if len(lines) > most {
		lines = lines[:most]
		lines[most-2] += " …"
		lines[most-1] = p.counts
	}
	return lines
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

func (r *picture) highest() float64 {
	highest := int64(1)
	for row, allowed := range r.timeline.Allowed {
		for i, n := range allowed {
			highest = max(highest, n+r.timeline.Denied[row][i])
		}
	}
	return float64(highest)
}

// span returns the time range of the picture, in seconds since 1970.
func (r *picture) span() (from, to float64) {
	t := r.timeline
	from = float64(t.Start.Unix())
	return from, from + float64(len(t.Allowed[0]))*t.Width.Seconds()
}

// bars draws the bins of one row: denied requests on top of allowed ones.
type bars struct {
	r   *picture
	row int
}

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	from, _ := b.r.span()
	width := b.r.timeline.Width.Seconds()
	denied := b.r.timeline.Denied[b.row]
	for i, allowed := range b.r.timeline.Allowed[b.row] {
		left, right := x(from+float64(i)*width), x(from+float64(i+1)*width)
		middle, top := y(float64(allowed)), y(float64(allowed+denied[i]))
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

// clockTicks puts labels at round times.
type clockTicks struct{}

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

// Ticks implements plot.Ticker.
func (clockTicks) Ticks(from, to float64) []plot.Tick {
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
	for at := step * float64(int64(from/step)); at <= to; at += step {
		if at >= from {
			ticks = append(ticks, plot.Tick{Value: at, Label: time.Unix(int64(at), 0).UTC().Format(s.layout)})
		}
	}
	return ticks
}
