// Package picture draws charts into SVG and PNG files.
package picture

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

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
)

// Chart is a picture: a title, a legend, and plots below each other.
type Chart struct {
	title, subtitle string
	Legend          plot.Legend
	Plots           [][]*plot.Plot // rows of one plot each
	height          vg.Length      // of all plots
}

const (
	Width      = 9 * vg.Inch
	headHeight = 0.6 * vg.Inch // without the legend
	Margin     = 0.15 * vg.Inch
)

func New(title, subtitle string) *Chart {
	c := &Chart{title: title, subtitle: subtitle, Legend: plot.NewLegend()}
	c.Legend.TextStyle.Font = TextStyle(10).Font
	c.Legend.Padding = vg.Points(2)
	c.Legend.ThumbnailWidth = vg.Points(34)
	c.Legend.Left, c.Legend.Top = true, true
	return c
}

// Add adds an empty plot.
func (c *Chart) Add(height vg.Length) *plot.Plot {
	p := plot.New()
	small := TextStyle(8).Font
	p.Title.TextStyle.Font = TextStyle(10).Font
	for _, axis := range [...]*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = small
		axis.Label.Padding = vg.Points(4)
		axis.Tick.Label.Font = small
	}
	grid := plotter.NewGrid()
	light := color.Gray{0xe0}
	grid.Horizontal.Color, grid.Vertical.Color = light, light
	p.Add(grid)
	c.Plots = append(c.Plots, []*plot.Plot{p})
	c.height += height
	return p
}

// TextStyle is the style of text that hangs from a point.
func TextStyle(size vg.Length) draw.TextStyle {
	font := plot.DefaultFont
	font.Variant = "Sans"
	font.Size = size
	return draw.TextStyle{Color: color.Black, Font: font, YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
}

// Draw draws the chart into the file.
func (c *Chart) Draw(path string) error {
	head := headHeight + c.Legend.Rectangle(draw.Canvas{}).Size().Y
	height := head + c.height + 3*Margin
	var canvas vg.CanvasWriterTo = vgsvg.New(Width, height)
	png := strings.EqualFold(filepath.Ext(path), ".png")
	if png {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(Width, height), vgimg.UseDPI(150))}
	}
	dc := draw.New(canvas)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	dc = draw.Crop(dc, Margin, -Margin, Margin, -Margin)
	dc.FillText(TextStyle(15), vg.Point{X: dc.Min.X, Y: dc.Max.Y}, c.title)
	dc.FillText(TextStyle(10), vg.Point{X: dc.Min.X, Y: dc.Max.Y - vg.Points(20)}, c.subtitle)
	c.Legend.Draw(draw.Crop(dc, 0, 0, 0, -headHeight))
	tiles := draw.Tiles{Rows: len(c.Plots), Cols: 1, PadY: vg.Points(8)}
	for i, tile := range plot.Align(c.Plots, tiles, draw.Crop(dc, 0, 0, 0, -head-Margin)) {
		c.Plots[i][0].Draw(tile[0])
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
	file, err := findOutput(path)
	if err == nil {
		err = file.write(content)
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// Check returns an error if the picture is one of the logs, is where the report goes, or cannot be
// written, before a long replay. It leaves the file as it was. An empty path is no picture.
func Check(path string, logs []logs.Source, s cli.Streams) error {
	if path == "" {
		return nil
	}
	file, err := findOutput(path)
	if err != nil {
		return cli.Usagef("--out: %w; name a file in a folder that you can write to", err)
	}
	for _, log := range logs {
		if os.SameFile(log.Info, file.info) {
			return cli.Usagef("--out %s is the log itself, and the chart would overwrite it; name another file", path)
		}
	}
	for _, stream := range []io.Writer{s.Out, s.Err} {
		if w, ok := stream.(*cli.FirstError); ok {
			stream = w.Writer
		}
		if f, ok := stream.(*os.File); ok && !file.isDevice() {
			if info, err := f.Stat(); err == nil && os.SameFile(info, file.info) {
				return cli.Usagef("--out %s is the file that standard output or standard error goes to, and the chart would overwrite it; name another file", path)
			}
		}
	}
	if err := file.check(); err != nil {
		return cli.Usagef("--out: %w; name a file in a folder that you can write to", err)
	}
	return nil
}
