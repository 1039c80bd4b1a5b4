// A tool that renders text from data with a template: letters, configuration, reports. The
// templates are those of Go's text/template, with loops, conditions and pipelines. A template may
// also ask the user for values that the data lacks.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"render-template/toolyard"
)

// Arguments are the arguments of the tool.
type Arguments struct {
	Template string          `json:"template" description:"A text/template of Go, such as \"Dear {{.name}},\"."`
	Data     json.RawMessage `json:"data,omitempty" description:"Any JSON value; the template uses it as the dot."`
	Lines    bool            `json:"lines,omitempty" description:"Whether the result also has a list of its lines."`
}

// Rendered is the structured result.
type Rendered struct {
	Text  string   `json:"text"`
	Bytes int      `json:"bytes" description:"The length of the text in UTF-8."`
	Asked int      `json:"asked" description:"The number of questions to the user."`
	Lines []string `json:"lines,omitempty"`
}

func init() {
	toolyard.Register(toolyard.Tool{
		Name:  "render_template",
		Title: "Render a template",
		Description: "Renders text from JSON data with a template of Go's text/template. Besides the built-in functions " +
			"there are `join list separator`, `json value`, `lower`, `upper`, `trim`, `progress done total`, and " +
			"`ask question`, which asks the user and returns the answer. A key that the data lacks is an error.",
		Annotations: map[string]bool{"readOnlyHint": true, "openWorldHint": false},
		Call:        toolyard.Typed(render),
	})
}

func render(call *toolyard.Call, arguments Arguments) (toolyard.Reply[Rendered], error) {
	var reply toolyard.Reply[Rendered]
	if strings.TrimSpace(arguments.Template) == "" {
		return reply, &toolyard.RPCError{
			Code:    toolyard.InvalidParams,
			Message: "the template is blank",
			Data:    map[string]string{"argument": "template"},
		}
	}
	data, err := decode(arguments.Data)
	if err != nil {
		return reply, err
	}
	rendering := rendering{call: call}
	parsed, err := template.New("template").Option("missingkey=error").Funcs(rendering.functions()).Parse(arguments.Template)
	if err != nil {
		return reply, err // it names the line
	}
	if err := parsed.Execute(&rendering.text, data); err != nil {
		return reply, plain(err)
	}
	reply.Text = rendering.text.String()
	reply.Structured = Rendered{Text: reply.Text, Bytes: len(reply.Text), Asked: rendering.asked}
	if arguments.Lines {
		reply.Structured.Lines = strings.Split(strings.TrimSuffix(reply.Text, "\n"), "\n")
	}
	return reply, nil
}

// decode keeps numbers as they are written: 10 must not become 1e+01.
func decode(data json.RawMessage) (any, error) {
	if data == nil {
		return nil, nil
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err := decoder.Decode(&value)
	return value, err
}

// plain returns the part of an error that helps the author of a template.
func plain(err error) error {
	if errors.Is(err, toolyard.ErrDeclined) {
		return errors.New("The template asked a question, and the user gave no answer.")
	}
	return err
}

// rendering is a text that is being rendered, with the functions for its template.
type rendering struct {
	call  *toolyard.Call
	text  bytes.Buffer
	asked int
}

func (r *rendering) functions() template.FuncMap {
	return template.FuncMap{
		"ask":      r.ask,
		"progress": r.progress,
		"join":     join,
		"json":     func(value any) (string, error) { text, err := json.Marshal(value); return string(text), err },
		"lower":    strings.ToLower,
		"trim":     strings.TrimSpace,
		"upper":    strings.ToUpper,
	}
}

// ask numbers its keys, because the host may run a call again with the answers that it already has.
func (r *rendering) ask(question string) (string, error) {
	r.asked++
	var form struct {
		Answer string `json:"answer" title:"Answer"`
	}
	err := r.call.Ask(fmt.Sprintf("answer-%d", r.asked), question, &form)
	return form.Answer, err
}

// progress reports progress from a template, and adds nothing to the text.
func (r *rendering) progress(done, total any) (string, error) {
	// Numbers in templates and in data have different types, but the same text.
	var numbers [2]float64
	if _, err := fmt.Sscan(fmt.Sprint(done, " ", total), &numbers[0], &numbers[1]); err != nil {
		return "", fmt.Errorf("progress takes two numbers: %w", err)
	}
	r.call.Progress(numbers[0], numbers[1], fmt.Sprintf("%d bytes", r.text.Len()))
	return "", nil
}

func join(list []any, separator string) string {
	parts := make([]string, len(list))
	for i, item := range list {
		parts[i] = fmt.Sprint(item)
	}
	return strings.Join(parts, separator)
}

// A component is a library: its init functions run, and main does not.
func main() {}
