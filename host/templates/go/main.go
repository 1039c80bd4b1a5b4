package main

import (
	"errors"
	"time"

	"{{name}}/toolyard"
)

// Arguments are the arguments of the tool.
type Arguments struct {
	Name string `json:"name,omitempty" description:"The name to greet." min:"1"`
}

// Greeting is the structured result.
type Greeting struct {
	Greeting string `json:"greeting"`
}

func init() {
	toolyard.Register(toolyard.Tool{
		Name:        "{{name}}",
		Title:       "Greet",
		Description: "Greets a person; asks the user for the name if it is absent.",
		Annotations: map[string]bool{"readOnlyHint": true},
		Call:        toolyard.Typed(greet),
	})
}

func greet(call *toolyard.Call, arguments Arguments) (toolyard.Reply[Greeting], error) {
	var reply toolyard.Reply[Greeting]
	name := arguments.Name
	if name == "" {
		var answer struct {
			Name string `json:"name" title:"Name"`
		}
		err := call.Ask("name", "Whom shall I greet?", &answer)
		if errors.Is(err, toolyard.ErrDeclined) {
			// An error is also a result, which the model reads.
			return reply, errors.New("There is no name to greet: the user gave none.")
		}
		if err != nil {
			return reply, err
		}
		name = answer.Name
	}
	for step := 1; step <= 3; step++ {
		call.Sleep(20 * time.Millisecond) // the real work goes here
		call.Progress(float64(step), 3, "thinking of something nice")
	}
	reply.Text = "Hello, " + name + "!"
	reply.Structured.Greeting = reply.Text
	return reply, nil
}

// A component is a library: its init functions run, and main does not.
func main() {}
