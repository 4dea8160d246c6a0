package main

import (
	"bytes"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours that people who see few colours can still tell apart (Okabe and Ito).
var (
	barColor   = color.NRGBA{0x56, 0xb4, 0xe9, 0xff}
	exactColor = color.NRGBA{0x99, 0x99, 0x99, 0xff}
	markColor  = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	gridColor  = color.NRGBA{0xe0, 0xe0, 0xe0, 0xff}
)

const (
	pictureWidth = 10 * vg.Inch
	headHeight   = 0.65 * vg.Inch
	margin       = 0.15 * vg.Inch
)

// picture is a title above a grid of plots, whose axes are in line.
type picture struct {
	file          string
	title, legend string
	height        vg.Length
	indent        vg.Length // of the plots, from the left
	plots         [][]*plot.Plot
}

func pictures(sections []section) []picture {
	ps := []picture{arrivals(sections)}
	for _, m := range measures() {
		ps = append(ps, m.picture(sections))
	}
	return ps
}

func (p *picture) svg() ([]byte, error) {
	canvas := vgsvg.New(pictureWidth, p.height)
	p.draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	// For viewers that lack the font: others in which text is as wide.
	const font = "font-family:Liberation Sans"
	return bytes.ReplaceAll(b.Bytes(), []byte(font), []byte(font+",Arial,Helvetica,sans-serif")), nil
}

func (p *picture) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	top := vg.Point{X: c.Min.X + margin, Y: c.Max.Y - margin}
	c.FillText(style(14, draw.XLeft, draw.YTop), top, p.title)
	c.FillText(style(9, draw.XLeft, draw.YTop), top.Sub(vg.Point{Y: vg.Points(19)}), p.legend)

	tiles := draw.Tiles{Rows: len(p.plots), Cols: len(p.plots[0]), PadX: vg.Points(6), PadY: vg.Points(6)}
	cells := plot.Align(p.plots, tiles, draw.Crop(c, margin+p.indent, -margin, margin, -headHeight))
	for i, row := range p.plots {
		for j, plot := range row {
			plot.Draw(cells[i][j])
		}
	}
}

// newPlot is an empty plot with small letters.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle = style(10, draw.XCenter, draw.YTop)
	p.Title.Padding = vg.Points(3)
	p.X.Label.TextStyle.Font = style(8, draw.XCenter, draw.YTop).Font
	p.X.Tick.Label.Font = p.X.Label.TextStyle.Font
	p.Y.Label.TextStyle.Font = p.X.Label.TextStyle.Font
	p.Y.Tick.Label.Font = p.X.Label.TextStyle.Font
	return p
}

func style(size vg.Length, x draw.XAlignment, y draw.YAlignment) draw.TextStyle {
	font := plot.DefaultFont
	font.Variant = "Sans"
	font.Size = size
	return draw.TextStyle{Color: color.Black, Font: font, XAlign: x, YAlign: y,
		Handler: text.Plain{Fonts: plot.DefaultTextHandler.Cache()}}
}

func fill(c draw.Canvas, with color.Color, left, right, bottom, top vg.Length) {
	if right > left && top > bottom {
		c.SetColor(with)
		c.Fill(vg.Rectangle{Min: vg.Point{X: left, Y: bottom}, Max: vg.Point{X: right, Y: top}}.Path())
	}
}
