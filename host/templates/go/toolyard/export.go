package toolyard

import "unsafe"

// returned keeps the result of an export alive until the host has read it.
var returned struct {
	arena
	tools  abiList
	called abiCalled
}

//go:wasmexport toolyard:plugin/tools@0.1.0#list-tools
func exportListTools() unsafe.Pointer {
	a := &returned.arena
	declared := make([]abiTool, len(tools))
	for i, tool := range tools {
		declared[i] = declare(a, tool)
	}
	returned.tools = list(a, declared)
	return unsafe.Pointer(&returned.tools)
}

func declare(a *arena, tool Tool) abiTool {
	name, output, annotations := tool.Name, "", "{}"
	if tool.Call.mistake != "" {
		// The build shows a name that is not valid to the author, and nothing else of the guest.
		name += ": " + tool.Call.mistake
	}
	if tool.Call.output != nil {
		output = mustMarshal(tool.Call.output)
	}
	if tool.Annotations != nil {
		annotations = mustMarshal(tool.Annotations)
	}
	return abiTool{
		name:         a.string(name),
		title:        a.option(tool.Title),
		description:  a.option(tool.Description),
		icons:        a.string("[]"),
		inputSchema:  a.string(mustMarshal(tool.Call.input)),
		outputSchema: a.option(output),
		annotations:  a.string(annotations),
		// enum task-support { forbidden, optional, required }
		taskSupport: map[TaskSupport]uint8{TaskForbidden: 0, TaskOptional: 1, TaskRequired: 2}[tool.Task],
	}
}

//go:wasmexport cabi_post_toolyard:plugin/tools@0.1.0#list-tools
func postListTools(unsafe.Pointer) { returned.kept = nil }

//go:wasmexport toolyard:plugin/tools@0.1.0#call
func exportCall(namePtr unsafe.Pointer, nameLen uint32, argumentsPtr unsafe.Pointer, argumentsLen uint32) unsafe.Pointer {
	name := unsafe.String((*byte)(namePtr), nameLen)
	arguments := unsafe.Slice((*byte)(argumentsPtr), argumentsLen)
	came := call(name, arguments)
	a, result := &returned.arena, &returned.called
	*result = abiCalled{}
	if came.rpc != nil {
		result.isErr = 1
		data := ""
		if came.rpc.Data != nil {
			data = mustMarshal(came.rpc.Data)
		}
		*payload[abiCallError](&result.payload) = abiCallError{
			rpc: abiRPCError{came.rpc.Code, a.string(came.rpc.Message), a.option(data)},
		}
		return unsafe.Pointer(result)
	}
	ok := payload[abiToolResult](&result.payload)
	content := make([]abiContent, len(came.content))
	for i, block := range came.content {
		content[i] = block.lower(a)
	}
	ok.content = list(a, content)
	ok.structured = a.option(came.structured)
	if came.isError {
		ok.isError = 1
	}
	return unsafe.Pointer(result)
}

//go:wasmexport cabi_post_toolyard:plugin/tools@0.1.0#call
func postCall(unsafe.Pointer) { returned.kept = nil }
