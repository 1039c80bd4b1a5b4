package toolyard

import "unsafe"

// The contract's types in the canonical ABI of the component model. Linear memory has 32-bit
// pointers, but Go's pointers take 64 bits, so these structs contain numbers instead, and other
// variables must keep the data alive. Go lays out fields of up to 32 bits like the canonical ABI;
// the sizes are checked below.

type abiString struct{ ptr, len uint32 }

type abiOption struct { // option<string>
	some  uint8
	value abiString
}

type abiList struct{ ptr, len uint32 }

type abiTool struct { // record tool
	name               abiString
	title, description abiOption
	icons, inputSchema abiString
	outputSchema       abiOption
	annotations        abiString
	taskSupport        uint8
	meta               abiOption
}

type abiTextBlock struct { // record text-block
	text              abiString
	annotations, meta abiOption
}

type abiMedia struct { // record media
	data              abiList
	mimeType          abiString
	annotations, meta abiOption
}

type abiContent struct { // variant content; its largest case is media, of 40 bytes
	tag     uint8
	payload [10]uint32 // abiTextBlock, abiMedia or abiString
}

type abiToolResult struct { // record tool-result
	content    abiList
	structured abiOption
	isError    uint8
	meta       abiOption
}

type abiRPCError struct { // record rpc-error
	code    int32
	message abiString
	data    abiOption
}

type abiCallError struct { // variant call-error; its largest case is rpc-error, of 24 bytes
	tag uint8
	rpc abiRPCError
}

type abiCalled struct { // result<tool-result, call-error>
	isErr   uint8
	payload [9]uint32 // abiToolResult or abiCallError
}

type abiQuestion struct{ key, method, params abiString } // record question

type abiAskError struct { // variant ask-error; its largest case is rpc-error, of 24 bytes
	tag     uint8
	payload [6]uint32 // abiString or abiRPCError
}

type abiAnswer struct { // record answer, whose outcome is a result<json, ask-error>
	key     abiString
	isErr   uint8
	payload [7]uint32 // abiString or abiAskError
}

type abiAsked struct { // result<list<answer>, ask-error>, and result<_, ask-error>
	isErr   uint8
	payload [7]uint32 // abiList or abiAskError
}

type abiTaskError struct { // variant task-error
	tag  uint8
	text abiString
}

type abiBegun struct { // result<_, task-error>
	isErr uint8
	err   abiTaskError
}

// The sizes in the canonical ABI; a different one does not compile.
var (
	_ [12]byte = [unsafe.Sizeof(abiOption{})]byte{}
	_ [84]byte = [unsafe.Sizeof(abiTool{})]byte{}
	_ [40]byte = [unsafe.Sizeof(abiMedia{})]byte{}
	_ [44]byte = [unsafe.Sizeof(abiContent{})]byte{}
	_ [36]byte = [unsafe.Sizeof(abiToolResult{})]byte{}
	_ [24]byte = [unsafe.Sizeof(abiRPCError{})]byte{}
	_ [28]byte = [unsafe.Sizeof(abiCallError{})]byte{}
	_ [40]byte = [unsafe.Sizeof(abiCalled{})]byte{}
	_ [24]byte = [unsafe.Sizeof(abiQuestion{})]byte{}
	_ [28]byte = [unsafe.Sizeof(abiAskError{})]byte{}
	_ [40]byte = [unsafe.Sizeof(abiAnswer{})]byte{}
	_ [32]byte = [unsafe.Sizeof(abiAsked{})]byte{}
	_ [16]byte = [unsafe.Sizeof(abiBegun{})]byte{}
)

// --- From Go to the host ---------------------------------------------------------------------

// arena keeps lowered values alive until the host has read them.
type arena struct{ kept []any }

func (a *arena) string(text string) abiString {
	if text == "" {
		return abiString{}
	}
	a.kept = append(a.kept, text)
	return abiString{address(unsafe.Pointer(unsafe.StringData(text))), uint32(len(text))}
}

// option lowers "" as none.
func (a *arena) option(text string) abiOption {
	if text == "" {
		return abiOption{}
	}
	return abiOption{1, a.string(text)}
}

func list[T any](a *arena, items []T) abiList {
	if len(items) == 0 {
		return abiList{}
	}
	a.kept = append(a.kept, items)
	return abiList{address(unsafe.Pointer(&items[0])), uint32(len(items))}
}

// address returns the address of a pointer in linear memory. Go's heap does not move.
func address(pointer unsafe.Pointer) uint32 { return uint32(uintptr(pointer)) }

// payload returns the payload of a result or variant as the type of the current case.
func payload[T any, P any](memory *P) *T { return (*T)(unsafe.Pointer(memory)) }

// --- From the host to Go ---------------------------------------------------------------------

// Data from the host is in memory that cabiRealloc returned and that is never freed, so strings
// made from it are not copied.

func (s abiString) lift() string {
	return unsafe.String((*byte)(at(s.ptr)), s.len)
}

func (o abiOption) lift() string {
	if o.some == 0 {
		return ""
	}
	return o.value.lift()
}

func liftList[T any](l abiList) []T { return unsafe.Slice((*T)(at(l.ptr)), l.len) }

// at returns the memory at an address.
func at(address uint32) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(nil), uintptr(address)) }

// sbrk is the runtime's own function to get more memory.
//
//go:linkname sbrk runtime.sbrk
func sbrk(size uintptr) unsafe.Pointer

// space is the memory that cabiRealloc hands out. It starts with static memory, which exists before
// the runtime has started: during that start the preview1 adapter allocates its stack and its
// state, a page each.
var (
	early [192 << 10]byte
	space struct{ next, end uintptr }
)

// landing is memory for the next value from the host, in place of memory that is never freed.
var landing struct{ start, size uintptr }

// step is the least memory to request from the runtime at once: a page.
const step = 64 << 10

// cabiRealloc is how the host and the adapter allocate memory in the guest. It does not use Go's
// heap: an allocation there may start a collection, which reads the clock, and while the host
// passes a value the guest may not call anything. Memory is never freed, because each call has an
// instance of its own; what may be large or frequent has a landing. This function must not grow the stack either: during the runtime's start
// there is none to grow.
//
//go:wasmexport cabi_realloc
//go:nosplit
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	if space.end == 0 {
		space.next = uintptr(unsafe.Pointer(&early))
		space.end = space.next + unsafe.Sizeof(early)
	}
	if oldSize == 0 && uintptr(size) <= landing.size {
		landing.size = 0
		return unsafe.Pointer(landing.start)
	}
	mask := uintptr(align) - 1
	if (space.next+mask)&^mask+uintptr(size) > space.end {
		wanted := max(uintptr(size)+mask, step)
		more := sbrk(wanted)
		if more == nil {
			// Beyond all memory, so the host traps and reports which limit was reached.
			return unsafe.Pointer(^uintptr(0) &^ mask)
		}
		space.next = uintptr(more)
		space.end = space.next + wanted
	}
	start := (space.next + mask) &^ mask
	space.next = start + uintptr(size)
	pointer := unsafe.Pointer(start)
	for i := range uintptr(min(oldSize, size)) {
		*(*byte)(unsafe.Add(pointer, i)) = *(*byte)(unsafe.Add(old, i))
	}
	return pointer
}
