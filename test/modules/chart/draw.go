// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

const (
	width, height = 12 * vg.Inch, 5 * vg.Inch
	// barWidth is in units of the axis, on which works are 1 apart: it leaves room between them.
	barWidth = 0.13
)

// colors are told apart by all eyes, in print too; those of direct peers of ours are the darker ones.
var colors = []color.Color{
	color.RGBA{R: 0xbb, G: 0xbb, B: 0xbb, A: 0xff}, color.RGBA{R: 0xdd, G: 0xaa, B: 0x33, A: 0xff}, color.RGBA{R: 0x00, G: 0x44, B: 0x88, A: 0xff},
	color.RGBA{R: 0x66, G: 0x99, B: 0xcc, A: 0xff}, color.RGBA{R: 0x99, G: 0x44, B: 0x55, A: 0xff}, color.RGBA{R: 0xee, G: 0x99, B: 0xaa, A: 0xff},
}

// draw returns the chart as SVG: a group of bars for each work, on an axis on which twice as high is always as far.
func draw(works []bars) (io.WriterTo, error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.Title.Text = "CPU of an operation: how many times less than a CRD on kube-apiserver"
	p.Y.Label.Text = "times less CPU (server, host and etcd together)"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, doublings{}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size, p.Legend.Padding = vg.Points(9), vg.Points(2)
	names := make([]string, len(works))
	for i, work := range works {
		names[i] = strings.ReplaceAll(work.Work, ", ", ",\n")
	}
	p.NominalX(names...)
	p.Add(plotter.NewGrid())
	highest := 2.0
	for i, peer := range shown {
		figures, found := of(works, peer)
		if !found {
			continue
		}
		group := &group{figures: figures, shift: (float64(i) - float64(len(shown)-1)/2) * barWidth, color: colors[i]}
		p.Add(group)
		p.Legend.Add(peer, group)
		for _, figure := range figures {
			highest = max(highest, figure.Times.Max, figure.Goal)
		}
	}
	p.Legend.Add("goal", goalMark{})
	p.X.Min, p.X.Max = -0.6, float64(len(works))-0.4
	p.Y.Min, p.Y.Max = lowest, highest*1.2
	drawn, err := p.WriterTo(width, height, "svg")
	if err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	return drawn, nil
}

// lowest is where the axis begins, and bars with it.
const lowest = 0.25

// doublings are the marks of the axis.
type doublings struct{}

// Ticks implements plot.Ticker.
func (doublings) Ticks(least, most float64) (out []plot.Tick) {
	for power := math.Ceil(math.Log2(least)); math.Pow(2, power) <= most; power++ {
		value := math.Pow(2, power)
		out = append(out, plot.Tick{Value: value, Label: fmt.Sprintf("%g×", value)})
	}
	return out
}

// group are the bars of one peer, with a line from the least to the most and a mark at the goal.
type group struct {
	figures []bar
	shift   float64
	color   color.Color
}

// Plot implements plot.Plotter.
func (g *group) Plot(canvas vgdraw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	line := func(style vgdraw.LineStyle, x1, y1, x2, y2 float64) {
		canvas.StrokeLine2(style, x(x1), y(y1), x(x2), y(y2))
	}
	for i, figure := range g.figures {
		if figure.Times.Median <= 0 {
			continue
		}
		middle := float64(i) + g.shift
		left, right := middle-barWidth*0.45, middle+barWidth*0.45
		top := max(figure.Times.Median, lowest)
		canvas.FillPolygon(g.color, []vg.Point{
			{X: x(left), Y: y(lowest)}, {X: x(left), Y: y(top)}, {X: x(right), Y: y(top)}, {X: x(right), Y: y(lowest)},
		})
		line(thin, middle, max(figure.Times.Min, lowest), middle, max(figure.Times.Max, lowest))
		if figure.Goal > 0 {
			line(thick, left-barWidth*0.05, figure.Goal, right+barWidth*0.05, figure.Goal)
		}
	}
}

// Thumbnail implements plot.Thumbnailer.
func (g *group) Thumbnail(canvas *vgdraw.Canvas) {
	canvas.FillPolygon(g.color, []vg.Point{
		{X: canvas.Min.X, Y: canvas.Min.Y}, {X: canvas.Min.X, Y: canvas.Max.Y}, {X: canvas.Max.X, Y: canvas.Max.Y}, {X: canvas.Max.X, Y: canvas.Min.Y},
	})
}

var (
	thin  = vgdraw.LineStyle{Color: color.Black, Width: vg.Points(0.5)}
	thick = vgdraw.LineStyle{Color: color.RGBA{R: 0xcc, A: 0xff}, Width: vg.Points(2)}
)

// goalMark explains the marks in the legend.
type goalMark struct{}

// Thumbnail implements plot.Thumbnailer.
func (goalMark) Thumbnail(canvas *vgdraw.Canvas) {
	middle := (canvas.Min.Y + canvas.Max.Y) / 2
	canvas.StrokeLine2(thick, canvas.Min.X, middle, canvas.Max.X, middle)
}
