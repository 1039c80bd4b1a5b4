package main

import (
	"errors"
	"time"

	"{{name}}/toolyard"
)

// Arguments are what the tool takes.
type Arguments struct {
	Name string `json:"name,omitempty" about:"Whom to greet." schema:"{\"minLength\": 1}"`
}

// Greeting is what it gives.
type Greeting struct {
	Greeting string `json:"greeting"`
}

func init() {
	toolyard.Register(toolyard.Tool{
		Name:        "{{name}}",
		Title:       "Greet",
		Description: "Greets somebody, and asks for the name if none is given.",
		Annotations: map[string]bool{"readOnlyHint": true},
		Call:        toolyard.Typed(greet),
	})
}

func greet(call *toolyard.Call, arguments Arguments) (toolyard.Reply[Greeting], error) {
	var reply toolyard.Reply[Greeting]
	name := arguments.Name
	if name == "" {
		var answer struct {
			Name string `json:"name" schema:"{\"title\": \"Name\"}"`
		}
		err := call.Ask("name", "Whom shall I greet?", &answer)
		if errors.Is(err, toolyard.ErrDeclined) {
			// An error is a result too, which the model reads.
			return reply, errors.New("There is nobody to greet: the user gave no name.")
		}
		if err != nil {
			return reply, err
		}
		name = answer.Name
	}
	for step := 1; step <= 3; step++ {
		call.Sleep(20 * time.Millisecond) // here would be the work
		call.Progress(float64(step), 3, "thinking of something nice")
	}
	reply.Text = "Hello, " + name + "!"
	reply.Structured.Greeting = reply.Text
	return reply, nil
}

// A component is a library: its init functions run, and main does not.
func main() {}
