//go:build !nohttp

package toolyard

import "unsafe"

// The functions of WASI 0.2 for HTTP, flattened as in host.go. A handle is a number. A child handle
// must be dropped before its parent: a pollable before what it waits for, a stream before its body,
// headers before their response.

//go:wasmimport wasi:http/types@0.2.12 [constructor]fields
func newFields() uint32

//go:wasmimport wasi:http/types@0.2.12 [method]fields.append
func appendField(fields, namePtr, nameLen, valuePtr, valueLen uint32, result unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [method]fields.entries
func fieldEntries(fields uint32, result unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]fields
func dropFields(fields uint32)

//go:wasmimport wasi:http/types@0.2.12 [constructor]outgoing-request
func newOutgoingRequest(fields uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.set-method
func setMethod(request, tag, otherPtr, otherLen uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.set-scheme
func setScheme(request, some, tag, otherPtr, otherLen uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.set-authority
func setAuthority(request, some, ptr, len uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.set-path-with-query
func setPathWithQuery(request, some, ptr, len uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.body
func outgoingRequestBody(request uint32, result unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]outgoing-request
func dropOutgoingRequest(request uint32)

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-body.write
func outgoingBodyWrite(body uint32, result unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [static]outgoing-body.finish
func finishOutgoingBody(body, some, trailers uint32, result unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]outgoing-body
func dropOutgoingBody(body uint32)

//go:wasmimport wasi:http/types@0.2.12 [constructor]request-options
func newRequestOptions() uint32

//go:wasmimport wasi:http/types@0.2.12 [method]request-options.set-connect-timeout
func setConnectTimeout(options, some uint32, nanoseconds uint64) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]request-options.set-first-byte-timeout
func setFirstByteTimeout(options, some uint32, nanoseconds uint64) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]request-options.set-between-bytes-timeout
func setBetweenBytesTimeout(options, some uint32, nanoseconds uint64) uint32

//go:wasmimport wasi:http/outgoing-handler@0.2.12 handle
func handleRequest(request, some, options uint32, result unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [method]future-incoming-response.subscribe
func subscribeResponse(future uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]future-incoming-response.get
func getResponse(future uint32, result unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]future-incoming-response
func dropFutureResponse(future uint32)

//go:wasmimport wasi:http/types@0.2.12 [method]incoming-response.status
func responseStatus(response uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]incoming-response.headers
func responseHeaders(response uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]incoming-response.consume
func consumeResponse(response uint32, result unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]incoming-response
func dropResponse(response uint32)

//go:wasmimport wasi:http/types@0.2.12 [method]incoming-body.stream
func incomingBodyStream(body uint32, result unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]incoming-body
func dropIncomingBody(body uint32)

//go:wasmimport wasi:http/types@0.2.12 http-error-code
func httpErrorCode(err uint32, result unsafe.Pointer)

//go:wasmimport wasi:io/error@0.2.12 [method]error.to-debug-string
func errorString(err uint32, result unsafe.Pointer)

//go:wasmimport wasi:io/error@0.2.12 [resource-drop]error
func dropError(err uint32)

//go:wasmimport wasi:io/streams@0.2.12 [method]input-stream.read
func readStream(stream uint32, most uint64, result unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]input-stream.subscribe
func subscribeInput(stream uint32) uint32

//go:wasmimport wasi:io/streams@0.2.12 [resource-drop]input-stream
func dropInput(stream uint32)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.check-write
func checkWrite(stream uint32, result unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.write
func writeStream(stream, ptr, len uint32, result unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.flush
func flushStream(stream uint32, result unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.subscribe
func subscribeOutput(stream uint32) uint32

//go:wasmimport wasi:io/streams@0.2.12 [resource-drop]output-stream
func dropOutput(stream uint32)

//go:wasmimport wasi:io/poll@0.2.12 poll
func pollAll(ptr, len uint32, result unsafe.Pointer)

//go:wasmimport wasi:io/poll@0.2.12 [method]pollable.ready
func isReady(pollable uint32) uint32

//go:wasmimport wasi:io/poll@0.2.12 [resource-drop]pollable
func dropPollable(pollable uint32)

//go:wasmimport wasi:clocks/monotonic-clock@0.2.12 subscribe-duration
func subscribeDuration(nanoseconds uint64) uint32

type abiField struct{ name, value abiString } // tuple<field-name, field-value>

type abiHandle struct { // result<own<…>>, and result<own<…>, …> of functions without other errors
	isErr  uint8
	handle uint32
}

type abiAppended struct{ isErr, cause uint8 } // result<_, header-error>

type abiErrorCode struct { // variant error-code; its largest case takes 24 bytes, and some hold a u64
	tag     uint8
	payload [3]uint64
}

type abiHandled struct { // result<own<…>, error-code>, result<_, error-code> and option<error-code>
	tag     uint8
	payload [4]uint64 // a handle or abiErrorCode
}

type abiArrived struct { // option<result<result<own<incoming-response>, error-code>>>
	some   uint8
	taken  uint64 // only its first byte has a meaning
	answer abiHandled
}

type abiRead struct { // result<list<u8>, stream-error>
	isErr   uint8
	payload [2]uint32 // abiList or abiStreamError
}

type abiStreamError struct { // variant stream-error
	closed uint8
	err    uint32
}

type abiChecked struct { // result<u64, stream-error>
	isErr   uint8
	payload uint64 // the number or abiStreamError
}

type abiWritten struct { // result<_, stream-error>
	isErr uint8
	err   abiStreamError
}

// The sizes in the canonical ABI; a different one does not compile.
var (
	_ [16]byte = [unsafe.Sizeof(abiField{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(abiHandle{})]byte{}
	_ [2]byte  = [unsafe.Sizeof(abiAppended{})]byte{}
	_ [32]byte = [unsafe.Sizeof(abiErrorCode{})]byte{}
	_ [40]byte = [unsafe.Sizeof(abiHandled{})]byte{}
	_ [56]byte = [unsafe.Sizeof(abiArrived{})]byte{}
	_ [12]byte = [unsafe.Sizeof(abiRead{})]byte{}
	_ [16]byte = [unsafe.Sizeof(abiChecked{})]byte{}
	_ [12]byte = [unsafe.Sizeof(abiWritten{})]byte{}
)
