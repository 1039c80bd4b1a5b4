// Package toolyard is a library for Toolyard plugins in Go: tools as typed functions, results and
// errors as values, and the host's functions as methods of a call.
//
// It implements the canonical ABI of the contract in wit/ itself (abi.go and host.go), so it needs
// only the standard library.
package toolyard

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
)

// InvalidParams is the JSON-RPC code for arguments that fit the schema, but are invalid.
const InvalidParams = -32602

// TaskSupport says whether a call of a tool may become a task. The default is the zero value,
// TaskOptional; with TaskForbidden every call is a plain call.
type TaskSupport uint8

// The values differ from the contract's numbers; declare maps them.
const (
	TaskOptional TaskSupport = iota
	TaskForbidden
	TaskRequired
)

// Tool is one tool as clients see it.
type Tool struct {
	Name, Title, Description string
	// Annotations are the hints of MCP, such as "readOnlyHint".
	Annotations map[string]bool
	Task        TaskSupport
	// Call is a function wrapped by Typed.
	Call Handler
}

// Handler is a function with the schemas of its arguments and its result.
type Handler struct {
	input, output Schema
	run           func(call *Call, arguments []byte) (text string, structured any, err error)
}

// Reply is a result with both a text for the model and structured content for programs.
type Reply[T any] struct {
	Text       string
	Structured T
}

func (reply Reply[T]) parts() (string, any) { return reply.Text, reply.Structured }

func (Reply[T]) schema() Schema { return SchemaOf[T]() }

// RPCError is a request error: the client gets it as a JSON-RPC error. Any other error becomes a
// result that the model reads and may correct.
type RPCError struct {
	Code    int32
	Message string
	Data    any
}

func (e *RPCError) Error() string { return e.Message }

// Typed makes a handler from a function. The arguments A are a struct. The result R is a string, a
// struct that becomes structured content, or a Reply with both.
func Typed[A, R any](function func(call *Call, arguments A) (R, error)) Handler {
	handler := Handler{input: SchemaOf[A]()}
	var zero R
	switch result := any(zero).(type) {
	case string:
	case interface{ schema() Schema }:
		handler.output = result.schema()
	default:
		handler.output = SchemaOf[R]()
	}
	handler.run = func(call *Call, given []byte) (string, any, error) {
		var arguments A
		if err := json.Unmarshal(given, &arguments); err != nil {
			return "", nil, err
		}
		result, err := function(call, arguments)
		if err != nil {
			return "", nil, err
		}
		switch result := any(result).(type) {
		case string:
			return result, nil, nil
		case interface{ parts() (string, any) }:
			text, structured := result.parts()
			return text, structured, nil
		}
		text, err := marshal(result)
		return text, result, err
	}
	return handler
}

var tools []Tool

// Register adds tools to the plugin. Call it in an init function: main does not run.
func Register(more ...Tool) { tools = append(tools, more...) }

// outcome is the outcome of a call.
type outcome struct {
	text, structured string // structured is "" for none
	isError          bool
	rpc              *RPCError
}

func call(name string, arguments []byte) (came outcome) {
	// A panic is a bug in the plugin: the model gets an error, and the log has the place.
	defer func() {
		if cause := recover(); cause != nil {
			(&Call{}).Log("error", string(debug.Stack()))
			came = outcome{text: fmt.Sprint("The tool panicked: ", cause), isError: true}
		}
	}()
	for _, tool := range tools {
		if tool.Name == name {
			return finish(tool.Call.run(&Call{}, arguments))
		}
	}
	panic("the host calls only what is registered")
}

func finish(text string, structured any, err error) outcome {
	came := outcome{text: text}
	if err == nil && structured != nil {
		came.structured, err = marshal(structured)
	}
	if err != nil {
		came = outcome{text: err.Error(), isError: true}
		errors.As(err, &came.rpc)
	}
	return came
}
