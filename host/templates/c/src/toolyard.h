// A library for Toolyard plugins in C: tools as a table, results and errors as values.
//
// It is a thin layer over the bindings in gen/, which are generated from the contract in wit/. A
// plugin may also use those directly.
#pragma once

#include "json.h"

// JSON-RPC: the arguments fit the schema, but are invalid.
#define INVALID_PARAMS (-32602)

// The outcome of a call; the functions below make it.
struct result {
  enum { RESULT_REPLY, RESULT_FAILURE, RESULT_RPC_ERROR } kind;
  struct text text;  // for the model, or the message of the error
  struct text json;  // structured content, or the data of the error; {0} if none
  int code;
};

// A text, and a JSON object if the tool has an output schema; else {0}.
struct result reply(struct text text, struct text structured);
// A tool error, which the model reads and may correct.
struct result failure(struct text text);
// A request error, which the client gets as a JSON-RPC error. `data` is JSON, or {0}.
struct result rpc_error(int code, struct text message, struct text data);

// Whether a call of a tool may become a task. The default is the zero value, TASK_OPTIONAL; with
// TASK_FORBIDDEN every call is a plain call.
enum task_support { TASK_OPTIONAL, TASK_FORBIDDEN, TASK_REQUIRED };

struct tool {
  const char *name, *title, *description;
  const char *input;        // a JSON Schema
  const char *output;       // a JSON Schema of the structured content, or NULL
  const char *annotations;  // a JSON object of hints, or NULL
  enum task_support task;   // TASK_OPTIONAL if not set
  struct result (*call)(const struct json *arguments);
};

// The plugin defines these.
extern const struct tool TOOLS[];
extern const size_t TOOL_COUNT;

// Reports progress to the caller; `done` must increase. `message` may be {0}.
void progress(double done, double total, struct text message);
// Sets the status message of the task.
void status(struct text message);
// Logs a message at level "info".
void log_info(struct text message);
// Suspends the call; this uses no thread of the host.
void sleep_for(unsigned milliseconds);
// Whether the call is being cancelled, so that it can clean up. The host stops it in any case.
bool is_cancelled(void);
// Information about this call: `taskId`, `attempt`, `deadline`, `tool`, `clientCapabilities`.
const struct json *call_info(void);

// The outcome of a question.
struct answer {
  enum { ANSWER_ACCEPTED, ANSWER_DECLINED, ANSWER_IMPOSSIBLE } kind;
  const struct json *content;  // the fields that the user filled in, if accepted
  struct text why;             // the reason, if impossible
};

// Asks the user with a form, and waits. `key` names the question in recorded answers. `properties`
// is a JSON object with the schema of each field; all fields are required.
struct answer ask(const char *key, struct text message, const char *properties);
