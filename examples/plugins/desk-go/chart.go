package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"

	"desk/toolyard"
)

// Series is the arguments of the tool chart.
type Series struct {
	Title  string `json:"title" description:"The title of the chart."`
	Values []Bar  `json:"values" description:"The bars, from left to right." min:"1" max:"24"`
}

// Bar is one bar of a chart.
type Bar struct {
	Label string  `json:"label"`
	Value float64 `json:"value" min:"0"`
}

func chart(call *toolyard.Call, series Series) ([]toolyard.Content, error) {
	largest := series.Values[0]
	for _, bar := range series.Values {
		if bar.Value > largest.Value {
			largest = bar
		}
	}
	var file bytes.Buffer
	if err := png.Encode(&file, drawBars(series.Values, largest.Value)); err != nil {
		return nil, err
	}
	bars := fmt.Sprintf("%d bars", len(series.Values))
	if len(series.Values) == 1 {
		bars = "1 bar"
	}
	return []toolyard.Content{
		toolyard.Image(file.Bytes(), "image/png"),
		toolyard.Text(fmt.Sprintf("%s, the largest is %q with %g", bars, largest.Label, largest.Value)),
	}, nil
}

const width, height, margin = 320, 200, 10

func drawBars(bars []Bar, largest float64) image.Image {
	blue := color.RGBA{0x2b, 0x6c, 0xb0, 0xff}
	chart := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.White, color.Black, blue})
	fill := func(left, top, right, bottom int, colour color.Color) {
		draw.Draw(chart, image.Rect(left, top, right, bottom), image.NewUniform(colour), image.Point{}, draw.Src)
	}
	step := (width - 2*margin) / len(bars)
	floor := height - margin
	for i, bar := range bars {
		tall := 0
		if largest > 0 {
			tall = int(bar.Value / largest * (height - 2*margin))
		}
		left := margin + i*step
		fill(left+step/8, floor-tall, left+step-step/8, floor, blue)
	}
	fill(margin, floor, width-margin, floor+1, color.Black)
	return chart
}
