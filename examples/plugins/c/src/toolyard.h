// What a Toolyard plugin is written with in C: tools as a table, results and errors as values.
//
// It is a thin layer over the bindings in gen/, which are made of the contract in wit/; a plugin
// may use those beside it.
#pragma once

#include "json.h"

// JSON-RPC: the arguments fit the schema, but they make no sense.
#define INVALID_PARAMS (-32602)

// What a call comes to; made by the functions below.
struct result {
  enum { RESULT_REPLY, RESULT_FAILURE, RESULT_RPC_ERROR } kind;
  struct text text;  // what the model reads, or the message of the error
  struct text json;  // structured content, or the data of the error; {0} for none
  int code;
};

// A text, and a JSON object for programs where the tool has an output schema; else {0}.
struct result reply(struct text text, struct text structured);
// A failure that the model should read and may mend.
struct result failure(struct text text);
// An error of the request, which the client gets as a JSON-RPC error. `data` is JSON, or {0}.
struct result rpc_error(int code, struct text message, struct text data);

enum task_support { TASK_FORBIDDEN, TASK_OPTIONAL, TASK_REQUIRED };

struct tool {
  const char *name, *title, *description;
  const char *input;        // a JSON Schema
  const char *output;       // a JSON Schema of the structured content, or NULL
  const char *annotations;  // a JSON object of hints, or NULL
  enum task_support task;
  struct result (*call)(const struct json *arguments);
};

// The plugin defines these.
extern const struct tool TOOLS[];
extern const size_t TOOL_COUNT;

// Tells the caller how far the work is; `done` must rise. `message` may be {0}.
void progress(double done, double total, struct text message);
// Sets the sentence that a task shows while it works.
void status(struct text message);
// Writes a log message, at the level "info".
void log_info(struct text message);
// Suspends the call; costs the host no thread.
void sleep_for(unsigned milliseconds);
// Whether the call is being stopped: a chance to tidy up. The host stops it in any case.
bool is_cancelled(void);
// About this call: `taskId`, `attempt`, `deadline`, `tool`, `clientCapabilities`.
const struct json *call_info(void);

// What became of a question.
struct answer {
  enum { ANSWER_ACCEPTED, ANSWER_DECLINED, ANSWER_IMPOSSIBLE } kind;
  const struct json *content;  // what was filled in, if it was accepted
  struct text why;             // why nobody could be asked, if so
};

// Asks the user by a form, and waits. `key` is the question's name in recorded answers;
// `properties` is a JSON object, the fields with the schema of each; all of them are required.
struct answer ask(const char *key, struct text message, const char *properties);
