package main

import "echo/toolyard"

// Arguments are the arguments of the tool.
type Arguments struct {
	Text string `json:"text"`
}

func init() {
	toolyard.Register(toolyard.Tool{
		Name:        "echo",
		Description: "Returns its text.",
		Call: toolyard.Typed(func(_ *toolyard.Call, arguments Arguments) (string, error) {
			return arguments.Text, nil
		}),
	})
}

// A component is a library: its init functions run, and main does not.
func main() {}
