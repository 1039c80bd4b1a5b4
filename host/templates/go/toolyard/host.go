package toolyard

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

// Call gives a running call access to the host's functions.
type Call struct{}

// The host's functions, flattened by the canonical ABI: an option is its case and its value, a
// string is a pointer and a length, and a result of more than one number is written to the memory
// that the last parameter points to.

//go:wasmimport toolyard:plugin/host@0.1.0 progress
func hostProgress(progress float64, hasTotal uint32, total float64, hasMessage, messagePtr, messageLen uint32)

//go:wasmimport toolyard:plugin/host@0.1.0 status
func hostStatus(messagePtr, messageLen uint32)

//go:wasmimport toolyard:plugin/host@0.1.0 log
func hostLog(level, hasLogger, loggerPtr, loggerLen, dataPtr, dataLen uint32)

//go:wasmimport toolyard:plugin/host@0.1.0 cancelled
func hostCancelled() uint32

//go:wasmimport toolyard:plugin/host@0.1.0 sleep
func hostSleep(milliseconds uint64)

//go:wasmimport toolyard:plugin/host@0.1.0 ask
func hostAsk(questionsPtr, questionsLen uint32, asked unsafe.Pointer)

//go:wasmimport toolyard:plugin/host@0.1.0 elicitation-complete
func hostElicitationComplete(keyPtr, keyLen uint32)

//go:wasmimport toolyard:plugin/host@0.1.0 begin-task
func hostBeginTask(begun unsafe.Pointer)

//go:wasmimport toolyard:plugin/host@0.1.0 effects
func hostEffects(asked unsafe.Pointer)

//go:wasmimport toolyard:plugin/host@0.1.0 call-info
func hostCallInfo(info unsafe.Pointer)

//go:wasmimport toolyard:plugin/host@0.1.0 changed
func hostChanged(what, uriPtr, uriLen uint32)

//go:wasmimport toolyard:plugin/host@0.1.0 release-stream
func hostReleaseStream(retry uint64)

//go:wasmimport toolyard:plugin/host@0.1.0 continue-with
func hostContinueWith(statePtr, stateLen uint32, continued unsafe.Pointer)

// Progress reports progress to the caller; done must increase. A total of 0 means that the total is
// unknown, and a message of "" that there is none.
func (*Call) Progress(done, total float64, message string) {
	var a arena
	said := a.option(message)
	hasTotal := uint32(0)
	if total != 0 {
		hasTotal = 1
	}
	hostProgress(done, hasTotal, total, uint32(said.some), said.value.ptr, said.value.len)
	runtime.KeepAlive(&a)
}

// Status sets the status message of the task.
func (*Call) Status(message string) {
	var a arena
	said := a.string(message)
	hostStatus(said.ptr, said.len)
	runtime.KeepAlive(&a)
}

// The levels of RFC 5424, in the order of the contract.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Log logs a message for the client; level is a name from RFC 5424. Other names mean "info".
func (*Call) Log(level string, data any) {
	number := uint32(1)
	for i, name := range levels {
		if name == level {
			number = uint32(i)
		}
	}
	text, err := marshal(data)
	if err != nil {
		text = mustMarshal(err.Error())
	}
	var a arena
	written := a.string(text)
	hostLog(number, 0, 0, 0, written.ptr, written.len)
	runtime.KeepAlive(&a)
}

// Cancelled reports whether the call is being cancelled, so that it can clean up. The host stops it
// in any case.
func (*Call) Cancelled() bool { return hostCancelled() != 0 }

// Sleep suspends the call. Like time.Sleep, it uses no thread of the host, but no other goroutine
// runs meanwhile.
func (*Call) Sleep(duration time.Duration) { hostSleep(uint64(duration.Milliseconds())) }

// BeginTask makes the call a task, which is stored before this returns.
func (*Call) BeginTask() error {
	begun := new(abiBegun)
	hostBeginTask(unsafe.Pointer(begun))
	if begun.isErr == 0 {
		return nil
	}
	why := begun.err.text.lift()
	if begun.err.tag == 0 {
		return fmt.Errorf("no task, the host is busy: %s", why)
	}
	return fmt.Errorf("no task: %s", why)
}

// ContinueWith ends this run of a task that resumes (durability = "resume" in the manifest). The call
// begins again in a fresh instance, with the same arguments, and Restored returns the state, which
// has at most 256 KiB as JSON. The host drops the journal of the task so far. ContinueWith returns
// only if that fails, and then the run can go on by itself. Do not call it while a request is under
// way.
func (*Call) ContinueWith(state any) error {
	text, err := marshal(state)
	if err != nil {
		return fmt.Errorf("cannot continue with the state: %w", err)
	}
	var a arena
	lowered := a.string(text)
	continued := new(abiBegun)
	hostContinueWith(lowered.ptr, lowered.len, unsafe.Pointer(continued))
	runtime.KeepAlive(&a)
	return fmt.Errorf("cannot continue with the state: %s", continued.err.text.lift())
}

// Restored stores the state that an earlier run of the task gave to ContinueWith in the value that
// state points to. It returns false in the first run, and in a plain call.
func (call *Call) Restored(state any) (bool, error) {
	info, err := call.Info()
	if err != nil || info.State == nil {
		return false, err
	}
	if err := json.Unmarshal(info.State, state); err != nil {
		return false, fmt.Errorf("cannot read the state of an earlier run: %w", err)
	}
	return true, nil
}

// Effects declares that the call has effects from here on, and must not run again.
func (*Call) Effects() error {
	asked := new(abiAsked)
	hostEffects(unsafe.Pointer(asked))
	if asked.isErr == 0 {
		return nil
	}
	return payload[abiAskError](&asked.payload).lift()
}

// Info describes a call.
type Info struct {
	TaskID             string         `json:"taskId"`
	Attempt            int            `json:"attempt"`
	Deadline           time.Time      `json:"deadline"`
	Tool               string         `json:"tool"`
	ClientCapabilities map[string]any `json:"clientCapabilities"`
	Subject            string         `json:"subject"`
	Traceparent        string         `json:"traceparent"`
	Tracestate         string         `json:"tracestate"`
	// State is the argument of ContinueWith in an earlier run of the task; Restored reads it.
	State json.RawMessage `json:"state"`
}

// Info returns information about this call.
func (*Call) Info() (Info, error) {
	text := new(abiString)
	hostCallInfo(unsafe.Pointer(text))
	var info Info
	err := json.Unmarshal([]byte(text.lift()), &info)
	return info, err
}

// ToolsChanged announces that the plugin's tools have changed.
func (*Call) ToolsChanged() { hostChanged(0, 0, 0) }

// ReleaseStream closes the call's connection for now; the client reconnects after retry.
func (*Call) ReleaseStream(retry time.Duration) { hostReleaseStream(uint64(retry.Milliseconds())) }

// Question is a request to the client: elicitation/create, sampling/createMessage or roots/list.
type Question struct {
	Key, Method string
	Params      any
}

// Answer is the result of a question, or a *NoAnswer.
type Answer struct {
	Result json.RawMessage
	Err    error
}

// NoAnswer is the reason why there is no answer; Reason is the case of ask-error in the contract.
type NoAnswer struct {
	Reason string
	text   string
}

func (e *NoAnswer) Error() string { return e.text }

// ErrDeclined means that the user declined, or closed the form.
var ErrDeclined = errors.New("the user gave no answer")

// AskAll asks several questions at once, and waits. The answers have the same order. An error means
// that no question was asked.
func (*Call) AskAll(questions ...Question) ([]Answer, error) {
	var a arena
	lowered := make([]abiQuestion, len(questions))
	for i, question := range questions {
		params, err := marshal(question.Params)
		if err != nil {
			return nil, err
		}
		lowered[i] = abiQuestion{a.string(question.Key), a.string(question.Method), a.string(params)}
	}
	passed := list(&a, lowered)
	asked := new(abiAsked)
	hostAsk(passed.ptr, passed.len, unsafe.Pointer(asked))
	runtime.KeepAlive(&a)
	if asked.isErr != 0 {
		return nil, payload[abiAskError](&asked.payload).lift()
	}
	came := map[string]Answer{}
	for _, answer := range liftList[abiAnswer](*payload[abiList](&asked.payload)) {
		came[answer.key.lift()] = answer.lift()
	}
	answers := make([]Answer, len(questions))
	for i, question := range questions {
		answers[i] = came[question.Key]
	}
	return answers, nil
}

// Ask asks the user with a form, and waits. key names the question in recorded answers. form points
// to a struct for the filled-in values; its fields, described as for SchemaOf, are the form's
// fields. If they are known only now, form points to a map whose keys are the names of the fields.
// A type that implements Enum makes a list to choose from.
func (call *Call) Ask(key, message string, form any) error {
	schema := formSchema(form)
	params := map[string]any{"message": message, "requestedSchema": schema}
	answers, err := call.AskAll(Question{key, "elicitation/create", params})
	if err != nil {
		return err
	}
	if answers[0].Err != nil {
		return answers[0].Err
	}
	var elicited struct {
		Action  string
		Content json.RawMessage
	}
	if err := json.Unmarshal(answers[0].Result, &elicited); err != nil {
		return err
	}
	if elicited.Action != "accept" {
		return ErrDeclined
	}
	return json.Unmarshal(elicited.Content, form)
}

func (answer *abiAnswer) lift() Answer {
	if answer.isErr != 0 {
		return Answer{Err: payload[abiAskError](&answer.payload).lift()}
	}
	return Answer{Result: json.RawMessage(payload[abiString](&answer.payload).lift())}
}

func (e *abiAskError) lift() error {
	text := func() string { return payload[abiString](&e.payload).lift() }
	switch e.tag {
	case 0:
		return &NoAnswer{"unsupported", "this client cannot be asked: " + text()}
	case 1:
		return &NoAnswer{"timed-out", "no answer came in time"}
	case 2:
		refused := payload[abiRPCError](&e.payload)
		return &NoAnswer{"refused", fmt.Sprintf("the client refused to answer: %s (%d)", refused.message.lift(), refused.code)}
	case 3:
		return &NoAnswer{"invalid", "the question is not valid: " + text()}
	case 4:
		return &NoAnswer{"too-late", "the call has had effects, so it is too late to ask"}
	}
	return &NoAnswer{"cancelled", "the call is being stopped"}
}
