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
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
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
	mistake       string // in the types; "" for none
	run           func(call *Call, arguments []byte) (content []Content, structured any, err error)
}

// Reply is a result with both content for the model and structured content for programs. Without
// Text and Content, the model gets the structured content as JSON.
type Reply[T any] struct {
	Text       string
	Content    []Content // after the text
	Structured T
}

func (reply Reply[T]) parts() ([]Content, any) {
	if reply.Text == "" {
		return reply.Content, reply.Structured
	}
	return append([]Content{Text(reply.Text)}, reply.Content...), reply.Structured
}

func (Reply[T]) schema() Schema { return resultSchema(reflect.TypeFor[T]()) }

// RPCError is a request error: the client gets it as a JSON-RPC error. Any other error becomes a
// result that the model reads and may correct.
type RPCError struct {
	Code    int32
	Message string
	Data    any
}

func (e *RPCError) Error() string { return e.Message }

// Typed makes a handler from a function. The arguments A are a struct. The result R is a string, a
// Content, a []Content, a struct that becomes structured content, or a Reply with both.
func Typed[A, R any](function func(call *Call, arguments A) (R, error)) (handler Handler) {
	defer func() {
		if cause := recover(); cause != nil {
			handler.mistake = fmt.Sprint(cause)
		}
	}()
	handler.input = SchemaOf[A]()
	var zero R
	switch result := any(zero).(type) {
	case string, Content, []Content:
	case interface{ schema() Schema }:
		handler.output = result.schema()
	default:
		handler.output = resultSchema(reflect.TypeFor[R]())
	}
	handler.run = func(call *Call, given []byte) ([]Content, any, error) {
		var arguments A
		if err := json.Unmarshal(given, &arguments); err != nil {
			return nil, nil, err
		}
		result, err := function(call, arguments)
		if err != nil {
			return nil, nil, err
		}
		switch result := any(result).(type) {
		case string:
			return []Content{Text(result)}, nil, nil
		case Content:
			return []Content{result}, nil, nil
		case []Content:
			return result, nil, nil
		case interface{ parts() ([]Content, any) }:
			content, structured := result.parts()
			return content, structured, nil
		}
		return nil, result, nil
	}
	return handler
}

var tools []Tool

// Register adds tools to the plugin. Call it in an init function: main does not run.
func Register(more ...Tool) { tools = append(tools, more...) }

// outcome is the outcome of a call.
type outcome struct {
	content    []Content
	structured string // "" for none
	isError    bool
	rpc        *RPCError
}

func call(name string, arguments []byte) (came outcome) {
	// A panic is a bug in the plugin: the model gets an error with the place, and the log the stack.
	defer func() {
		if cause := recover(); cause != nil {
			(&Call{}).Log("error", string(debug.Stack()))
			came = failure(fmt.Sprintf("the tool panicked%s: %v", place(), cause))
		}
	}()
	for _, tool := range tools {
		if tool.Name == name {
			content, structured, err := tool.Call.run(&Call{}, arguments)
			return finish(tool.Call, content, structured, err)
		}
	}
	panic("the host calls only what is registered")
}

// place returns where the code of the author panicked, as " at module/main.go:7". It serves a
// deferred function.
func place() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	own := reflect.TypeFor[Call]().PkgPath() // module/toolyard
	module := strings.TrimSuffix(own, "toolyard")
	for {
		frame, more := frames.Next()
		isAuthors := strings.HasPrefix(frame.Function, "main.") || strings.HasPrefix(frame.Function, module)
		if isAuthors && !strings.HasPrefix(frame.Function, own+".") {
			return fmt.Sprintf(" at %s:%d", frame.File, frame.Line)
		}
		if !more {
			return ""
		}
	}
}

func failure(text string) outcome { return outcome{content: []Content{Text(text)}, isError: true} }

func finish(handler Handler, content []Content, structured any, err error) outcome {
	came := outcome{content: content}
	if err == nil && handler.output != nil {
		came.structured, err = marshalResult(structured)
		if len(content) == 0 {
			came.content = []Content{Text(came.structured)}
		}
	}
	if err != nil {
		came = failure(err.Error())
		errors.As(err, &came.rpc)
	}
	return came
}

// marshalResult writes structured content, as resultSchema describes it.
func marshalResult(structured any) (string, error) {
	text, err := marshal(withLists(structured))
	if err == nil && !strings.HasPrefix(text, "{") {
		text = `{"result":` + text + "}"
	}
	return text, err
}
