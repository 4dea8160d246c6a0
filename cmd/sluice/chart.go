package main

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart is a picture: a title, a legend, and plots below each other.
type chart struct {
	title, subtitle string
	legend          plot.Legend
	plots           [][]*plot.Plot // rows of one plot each
	height          vg.Length      // of all plots
}

const (
	chartWidth = 9 * vg.Inch
	headHeight = 0.6 * vg.Inch // without the legend
	margin     = 0.15 * vg.Inch
)

func newChart(title, subtitle string) *chart {
	c := &chart{title: title, subtitle: subtitle, legend: plot.NewLegend()}
	c.legend.TextStyle.Font = textStyle(10).Font
	c.legend.Padding = vg.Points(2)
	c.legend.ThumbnailWidth = vg.Points(34)
	c.legend.Left, c.legend.Top = true, true
	return c
}

// add adds an empty plot.
func (c *chart) add(height vg.Length) *plot.Plot {
	p := plot.New()
	small := textStyle(8).Font
	p.Title.TextStyle.Font = textStyle(10).Font
	for _, axis := range [...]*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = small
		axis.Label.Padding = vg.Points(4)
		axis.Tick.Label.Font = small
	}
	grid := plotter.NewGrid()
	light := color.Gray{0xe0}
	grid.Horizontal.Color, grid.Vertical.Color = light, light
	p.Add(grid)
	c.plots = append(c.plots, []*plot.Plot{p})
	c.height += height
	return p
}

// textStyle is the style of text that hangs from a point.
func textStyle(size vg.Length) draw.TextStyle {
	font := plot.DefaultFont
	font.Variant = "Sans"
	font.Size = size
	return draw.TextStyle{Color: color.Black, Font: font, YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
}

// draw draws the chart into the file.
func (c *chart) draw(path string) error {
	head := headHeight + c.legend.Rectangle(draw.Canvas{}).Size().Y
	height := head + c.height + 3*margin
	var canvas vg.CanvasWriterTo = vgsvg.New(chartWidth, height)
	png := strings.EqualFold(filepath.Ext(path), ".png")
	if png {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(chartWidth, height), vgimg.UseDPI(150))}
	}
	dc := draw.New(canvas)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	dc = draw.Crop(dc, margin, -margin, margin, -margin)
	dc.FillText(textStyle(15), vg.Point{X: dc.Min.X, Y: dc.Max.Y}, c.title)
	dc.FillText(textStyle(10), vg.Point{X: dc.Min.X, Y: dc.Max.Y - vg.Points(20)}, c.subtitle)
	c.legend.Draw(draw.Crop(dc, 0, 0, 0, -headHeight))
	tiles := draw.Tiles{Rows: len(c.plots), Cols: 1, PadY: vg.Points(8)}
	for i, tile := range plot.Align(c.plots, tiles, draw.Crop(dc, 0, 0, 0, -head-margin)) {
		c.plots[i][0].Draw(tile[0])
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	content := out.Bytes()
	if !png { // viewers without the font that measured the text need fonts of equal width
		const font = "font-family:Liberation Sans"
		content = bytes.ReplaceAll(content, []byte(font), []byte(font+",Arial,Helvetica,sans-serif"))
	}
	file, err := openOutput(path)
	if err == nil {
		err = file.write(content)
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// checkPicture returns an error if the picture is one of the logs, is where the report goes, or cannot be
// written, before a long replay. It leaves the file as it was.
func checkPicture(path string, logs []source, s streams) error {
	file, err := openOutput(path)
	if err != nil {
		return usagef("--out: %w; name a file in a folder that you can write to", err)
	}
	for _, log := range logs {
		if os.SameFile(log.info, file.info) {
			return usagef("--out %s is the log itself, and the chart would overwrite it; name another file", path)
		}
	}
	for _, stream := range []io.Writer{s.out, s.err} {
		if w, ok := stream.(*firstError); ok {
			stream = w.Writer
		}
		if f, ok := stream.(*os.File); ok && !file.isDevice() {
			if info, err := f.Stat(); err == nil && os.SameFile(info, file.info) {
				return usagef("--out %s is the file that standard output or standard error goes to, and the chart would overwrite it; name another file", path)
			}
		}
	}
	if err := file.check(); err != nil {
		return usagef("--out: %w; name a file in a folder that you can write to", err)
	}
	return nil
}
