// Tools for a desk: the weather from a REST API, in one city or two, a chart as an image, sorting
// files with a form, and work that continues from a stored state.
package main

import "desk/toolyard"

func init() {
	toolyard.Register(
		toolyard.Tool{
			Name:        "weather",
			Title:       "Weather",
			Description: "Says how warm it is in a city, and what the sky is like.",
			Annotations: map[string]bool{"readOnlyHint": true, "openWorldHint": true},
			Call:        toolyard.Typed(weather),
		},
		toolyard.Tool{
			Name:        "compare",
			Title:       "Compare",
			Description: "Says which of two cities is the warmer one.",
			Annotations: map[string]bool{"readOnlyHint": true, "openWorldHint": true},
			Call:        toolyard.Typed(compare),
		},
		toolyard.Tool{
			Name:        "chart",
			Title:       "Chart",
			Description: "Draws a bar chart as a PNG image.",
			Annotations: map[string]bool{"readOnlyHint": true, "openWorldHint": false},
			Call:        toolyard.Typed(chart),
		},
		toolyard.Tool{
			Name:        "triage",
			Title:       "Sort the inbox",
			Description: "Asks what to do with each text file of the inbox, and moves it into the folder of that choice.",
			Annotations: map[string]bool{"destructiveHint": false, "openWorldHint": false},
			Call:        toolyard.Typed(triage),
		},
		toolyard.Tool{
			Name:        "steps",
			Title:       "Work in parts",
			Description: "Does a number of parts, and continues in a fresh run after every two of them.",
			Annotations: map[string]bool{"readOnlyHint": true, "openWorldHint": false},
			Call:        toolyard.Typed(steps),
		},
	)
}

// A component is a library: its init functions run, and main does not.
func main() {}
