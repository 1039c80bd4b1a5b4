package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"desk/toolyard"
)

// Choice is what a person may do with a file.
type Choice string

// Enum returns the values that the form offers.
func (Choice) Enum() []string { return []string{"keep", "later", "trash"} }

// Sorted is the structured result of the tool triage.
type Sorted struct {
	Moved []Moved `json:"moved"`
}

// Moved is a file, and where it is now.
type Moved struct {
	File string `json:"file"`
	To   Choice `json:"to"`
}

const inbox = "/inbox"

func triage(call *toolyard.Call, _ struct{}) (toolyard.Reply[Sorted], error) {
	var reply toolyard.Reply[Sorted]
	files, err := filepath.Glob(inbox + "/*.txt") // in alphabetical order
	if err != nil {
		return reply, err
	}
	if len(files) == 0 {
		reply.Text = "the inbox is empty"
		return reply, nil
	}
	choices := map[string]Choice{}
	for _, file := range files {
		choices[name(file)] = ""
	}
	err = call.Ask("triage", "What shall happen to these files?", &choices)
	if errors.Is(err, toolyard.ErrDeclined) {
		return reply, errors.New("nothing was sorted: you gave no answer")
	}
	if err != nil {
		return reply, err
	}
	// From here on the host does not run the call again.
	if err := call.Effects(); err != nil {
		return reply, err
	}
	for i, file := range files {
		choice := choices[name(file)]
		target := filepath.Join(inbox, string(choice), filepath.Base(file))
		if _, err := os.Stat(target); err == nil {
			return reply, fmt.Errorf("%s exists already; %s stays in the inbox", target, filepath.Base(file))
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return reply, err
		}
		if err := os.Rename(file, target); err != nil {
			return reply, err
		}
		reply.Structured.Moved = append(reply.Structured.Moved, Moved{filepath.Base(file), choice})
		call.Progress(float64(i+1), float64(len(files)), fmt.Sprintf("%s: %s", name(file), choice))
	}
	reply.Text = fmt.Sprintf("%d files sorted", len(files))
	return reply, nil
}

// name is the name of a file in the form.
func name(file string) string { return strings.TrimSuffix(filepath.Base(file), ".txt") }
