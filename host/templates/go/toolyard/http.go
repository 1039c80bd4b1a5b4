//go:build !nohttp

package toolyard

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// Transport sends the requests of net/http over wasi:http. The manifest grants the servers
// ([http] allow), and the host does DNS and TLS. Importing this package makes it the default, so
// http.Get and http.DefaultClient work as usual.
//
// A request ends at the deadline of its context, or at http.Client.Timeout. The host bounds each
// request in any case: http-time in [limits] of the manifest.
type Transport struct {
	// ConnectTimeout bounds the DNS lookup, the connection and the TLS handshake, FirstByteTimeout
	// the wait for the response, and BetweenBytesTimeout each pause in its body. Zero means that
	// only the other limits apply.
	ConnectTimeout, FirstByteTimeout, BetweenBytesTimeout time.Duration
}

func init() { http.DefaultTransport = &Transport{} }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		defer request.Body.Close()
	}
	if err := request.Context().Err(); err != nil {
		return nil, contextError(request, err)
	}
	outgoing, err := newRequest(request)
	if err != nil {
		return nil, err
	}
	made := new(abiHandle)
	outgoingRequestBody(outgoing, unsafe.Pointer(made))
	body := made.handle
	handled := new(abiHandled)
	some, options := t.options()
	handleRequest(outgoing, some, options, unsafe.Pointer(handled)) // takes both handles
	if handled.tag != 0 {
		dropOutgoingBody(body)
		return nil, payload[abiErrorCode](&handled.payload).lift(request)
	}
	future := *payload[uint32](&handled.payload)
	defer dropFutureResponse(future)
	if err := sendBody(request, body); err != nil {
		return nil, err
	}
	return receive(request, future)
}

// options makes request-options, as an option. There are none without timeouts, because some hosts
// keep each until the call ends.
func (t *Transport) options() (some, options uint32) {
	if t.ConnectTimeout <= 0 && t.FirstByteTimeout <= 0 && t.BetweenBytesTimeout <= 0 {
		return 0, 0
	}
	options = newRequestOptions()
	set := func(set func(uint32, uint32, uint64) uint32, timeout time.Duration) {
		if timeout > 0 {
			set(options, 1, uint64(timeout))
		}
	}
	set(setConnectTimeout, t.ConnectTimeout)
	set(setFirstByteTimeout, t.FirstByteTimeout)
	set(setBetweenBytesTimeout, t.BetweenBytesTimeout)
	return 1, options
}

// methods has the cases of method before `other`, in the order of the contract.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

func methodOf(request *http.Request) string { return cmp.Or(request.Method, http.MethodGet) }

// newRequest makes an outgoing-request.
func newRequest(request *http.Request) (uint32, error) {
	if request.URL.Scheme != "http" && request.URL.Scheme != "https" {
		return 0, fmt.Errorf("the URL %q does not begin with https:// or http://", request.URL)
	}
	if request.Host != "" && request.Host != request.URL.Host {
		return 0, fmt.Errorf("the request has the Host %q, but goes to %q: the host of the URL is always sent", request.Host, request.URL.Host)
	}
	fields, err := newHeaders(request)
	if err != nil {
		return 0, err
	}
	var a arena
	outgoing := newOutgoingRequest(fields)
	other := abiString{}
	name := methodOf(request)
	method := slices.Index(methods, name)
	if method < 0 {
		method, other = len(methods), a.string(name)
	}
	scheme := uint32(0)
	if request.URL.Scheme == "https" {
		scheme = 1
	}
	authority, path := a.string(request.URL.Host), a.string(request.URL.RequestURI())
	failed := setMethod(outgoing, uint32(method), other.ptr, other.len) +
		setScheme(outgoing, 1, scheme, 0, 0) +
		setAuthority(outgoing, 1, authority.ptr, authority.len) +
		setPathWithQuery(outgoing, 1, path.ptr, path.len)
	runtime.KeepAlive(&a)
	if failed != 0 {
		dropOutgoingRequest(outgoing)
		return 0, fmt.Errorf("the request %s %q is not valid", name, request.URL)
	}
	return outgoing, nil
}

func newHeaders(request *http.Request) (uint32, error) {
	fields := newFields()
	add := func(name, value string) bool {
		var a arena
		appended := new(abiAppended)
		lowered, of := a.string(name), a.string(value)
		appendField(fields, lowered.ptr, lowered.len, of.ptr, of.len, unsafe.Pointer(appended))
		runtime.KeepAlive(&a)
		return appended.isErr == 0
	}
	headers := request.Header.Clone()
	if headers == nil {
		headers = http.Header{}
	}
	// As http.Transport does. Some servers refuse requests without a user agent.
	if _, given := headers["User-Agent"]; !given {
		headers.Set("User-Agent", "Go-http-client/1.1")
	}
	if request.ContentLength > 0 {
		headers.Set("Content-Length", strconv.FormatInt(request.ContentLength, 10))
	}
	for name, values := range headers {
		for _, value := range values {
			if !add(strings.ToLower(name), value) {
				dropFields(fields)
				return 0, fmt.Errorf("the header %q cannot be sent: its value is not valid, or the host sets it itself", name)
			}
		}
	}
	return fields, nil
}

// sendBody writes the body, and finishes or drops its handle. If the server does not read it all,
// there is no error: its response or the error of the response says why.
func sendBody(request *http.Request, body uint32) error {
	if request.Body != nil && request.Body != http.NoBody {
		made := new(abiHandle)
		outgoingBodyWrite(body, unsafe.Pointer(made))
		out := &output{request: request, stream: made.handle}
		_, err := io.Copy(out, limited(request))
		if err == nil {
			err = out.flush()
		}
		dropOutput(out.stream)
		if err != nil {
			dropOutgoingBody(body)
			if out.failed {
				return nil
			}
			return err
		}
	}
	finished := new(abiHandled)
	finishOutgoingBody(body, 0, 0, unsafe.Pointer(finished))
	if finished.tag != 0 {
		return wrongLength(request)
	}
	return nil
}

// limited returns the body of a request, with an error if it is longer than its ContentLength.
func limited(request *http.Request) io.Reader {
	if request.ContentLength <= 0 {
		return request.Body
	}
	return io.MultiReader(io.LimitReader(request.Body, request.ContentLength), end{request})
}

// end expects the end of a body.
type end struct{ request *http.Request }

func (e end) Read(data []byte) (int, error) {
	n, err := e.request.Body.Read(data)
	if n > 0 {
		return 0, wrongLength(e.request)
	}
	return 0, err
}

func wrongLength(request *http.Request) error {
	return fmt.Errorf("the body of the request does not have %d bytes, as its ContentLength says", request.ContentLength)
}

// output is an output-stream.
type output struct {
	request *http.Request
	stream  uint32
	failed  bool // the stream itself failed
}

func (out *output) Write(data []byte) (int, error) {
	done := 0
	for done < len(data) {
		room, err := out.room()
		if err != nil {
			return done, err
		}
		piece := data[done:min(len(data), done+room)]
		written := new(abiWritten)
		writeStream(out.stream, address(unsafe.Pointer(&piece[0])), uint32(len(piece)), unsafe.Pointer(written))
		runtime.KeepAlive(piece)
		if written.isErr != 0 {
			return done, out.fail(&written.err)
		}
		done += len(piece)
	}
	return done, nil
}

// room waits until the stream takes bytes, and returns how many.
func (out *output) room() (int, error) {
	for {
		checked := new(abiChecked)
		checkWrite(out.stream, unsafe.Pointer(checked))
		if checked.isErr != 0 {
			return 0, out.fail(payload[abiStreamError](&checked.payload))
		}
		if checked.payload > 0 {
			return int(min(checked.payload, 1<<20)), nil
		}
		pollable := subscribeOutput(out.stream)
		err := wait(out.request, pollable)
		dropPollable(pollable)
		if err != nil {
			return 0, err
		}
	}
}

// flush waits until the host has taken everything.
func (out *output) flush() error {
	flushed := new(abiWritten)
	flushStream(out.stream, unsafe.Pointer(flushed))
	if flushed.isErr != 0 {
		return out.fail(&flushed.err)
	}
	_, err := out.room()
	return err
}

func (out *output) fail(err *abiStreamError) error {
	out.failed = true
	return err.lift(out.request)
}

// receive waits for the head of the response.
func receive(request *http.Request, future uint32) (*http.Response, error) {
	pollable := subscribeResponse(future)
	err := wait(request, pollable)
	dropPollable(pollable)
	if err != nil {
		return nil, err
	}
	arrived := new(abiArrived)
	getResponse(future, unsafe.Pointer(arrived))
	if arrived.answer.tag != 0 {
		return nil, payload[abiErrorCode](&arrived.answer.payload).lift(request)
	}
	incoming := *payload[uint32](&arrived.answer.payload)
	defer dropResponse(incoming)
	status := int(responseStatus(incoming))
	response := &http.Response{
		Status:     strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status))),
		StatusCode: status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        liftHeaders(incoming),
		ContentLength: -1,
		Request:       request,
	}
	if length, err := strconv.ParseInt(response.Header.Get("Content-Length"), 10, 64); err == nil {
		response.ContentLength = length
	}
	body, stream := new(abiHandle), new(abiHandle)
	consumeResponse(incoming, unsafe.Pointer(body))
	incomingBodyStream(body.handle, unsafe.Pointer(stream))
	response.Body = &input{request, body.handle, stream.handle, false}
	return response, nil
}

func liftHeaders(incoming uint32) http.Header {
	fields := responseHeaders(incoming)
	defer dropFields(fields)
	entries := new(abiList)
	fieldEntries(fields, unsafe.Pointer(entries))
	headers := http.Header{}
	for _, entry := range liftList[abiField](*entries) {
		headers.Add(entry.name.lift(), entry.value.lift())
	}
	return headers
}

// input is the body of a response.
type input struct {
	request      *http.Request
	body, stream uint32
	closed       bool
}

// maxRead is the most bytes that one read requests: the host makes them ready first.
const maxRead = 64 << 10

func (in *input) Read(data []byte) (int, error) {
	if in.closed {
		return 0, io.EOF
	}
	if len(data) == 0 {
		return 0, nil
	}
	data = data[:min(len(data), maxRead)]
	for {
		read := new(abiRead)
		land(data)
		readStream(in.stream, uint64(len(data)), unsafe.Pointer(read))
		landing.size = 0
		runtime.KeepAlive(data)
		if read.isErr != 0 {
			err := payload[abiStreamError](&read.payload).lift(in.request)
			in.Close()
			if err == errClosed {
				err = io.EOF
			}
			return 0, err
		}
		if length := payload[abiList](&read.payload).len; length > 0 {
			return int(length), nil
		}
		pollable := subscribeInput(in.stream)
		err := wait(in.request, pollable)
		dropPollable(pollable)
		if err != nil {
			return 0, err
		}
	}
}

func (in *input) Close() error {
	if !in.closed {
		in.closed = true
		dropInput(in.stream)
		dropIncomingBody(in.body)
	}
	return nil
}

// waiting has what all goroutines wait for.
var waiting []uint32

// maxPoll bounds one wait in the host, during which no goroutine runs: timers of other goroutines
// fire at most this late.
const maxPoll = 100 * time.Millisecond

// wait waits for a pollable, and no longer than the context of the request allows. All goroutines
// that wait poll for all of them, so their requests make progress at the same time.
func wait(request *http.Request, pollable uint32) error {
	waiting = append(waiting, pollable)
	defer func() { waiting = slices.DeleteFunc(waiting, func(other uint32) bool { return other == pollable }) }()
	for isReady(pollable) == 0 {
		// First the other goroutines continue until they wait, too.
		runtime.Gosched()
		if isReady(pollable) != 0 {
			return nil
		}
		timeout := maxPoll
		if err := request.Context().Err(); err != nil {
			return contextError(request, err)
		}
		if deadline, ok := request.Context().Deadline(); ok {
			timeout = min(timeout, time.Until(deadline))
		}
		if timeout <= 0 {
			return contextError(request, context.DeadlineExceeded)
		}
		timer := subscribeDuration(uint64(timeout))
		polled, ready := append(slices.Clone(waiting), timer), new(abiList)
		numbers := make([]uint32, len(polled))
		land(numbers)
		pollAll(address(unsafe.Pointer(&polled[0])), uint32(len(polled)), unsafe.Pointer(ready))
		landing.size = 0
		runtime.KeepAlive(polled)
		runtime.KeepAlive(numbers)
		dropPollable(timer)
	}
	return nil
}

// land makes the next value from the host land in memory, which must stay alive meanwhile.
func land[T any](memory []T) {
	landing.start, landing.size = uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory))*unsafe.Sizeof(memory[0])
}
