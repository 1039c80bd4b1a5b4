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
  struct block *blocks;  // images and the like, after the text
  size_t block_count;
};

// A text, and a JSON object if the tool has an output schema; else {0}.
struct result reply(struct text text, struct text structured);
// A tool error, which the model reads and may correct.
struct result failure(struct text text);
// A request error, which the client gets as a JSON-RPC error. `data` is JSON, or {0}.
struct result rpc_error(int code, struct text message, struct text data);

// Add a block to a result: an image or audio of a media type such as "image/png", an embedded file
// (as text if it is UTF-8), or a link to a resource.
void add_image(struct result *result, struct text bytes, const char *media_type);
void add_audio(struct result *result, struct text bytes, const char *media_type);
void add_file(struct result *result, const char *uri, struct text bytes, const char *media_type);
void add_link(struct result *result, const char *uri, const char *name);

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
// Makes the call a task, which outlives its connection, if it can become one. False if the host has no
// room for more tasks.
bool begin_task(void);
// Declares that the call has effects from here on: the host does not run it again by itself. Call this
// before you change anything, and after the last question. False if the call must not have effects
// any more, because it is being cancelled.
bool effects(void);
// Information about this call: `taskId`, `attempt`, `deadline`, `tool`, `clientCapabilities`, `state`.
const struct json *call_info(void);
// Ends this run of a task that resumes (`durability = "resume"` in the manifest). The call begins again
// in a fresh instance, with the same arguments, and `restored` returns the state: a JSON text of at
// most 256 KiB. The host drops the journal of the task so far. Returns only if that fails, with the
// reason, and then the run can go on by itself. Do not call it while a request is under way.
struct text continue_with(struct text state);
// The state that an earlier run of the task gave to `continue_with`. NULL in the first run, and in a
// plain call.
const struct json *restored(void);

// The outcome of a question.
struct answer {
  enum { ANSWER_ACCEPTED, ANSWER_DECLINED, ANSWER_IMPOSSIBLE } kind;
  const struct json *content;  // the fields that the user filled in, if accepted
  struct text why;             // the reason, if impossible
};

// Asks the user with a form, and waits. `key` names the question in recorded answers. `properties`
// is a JSON object with the schema of each field; all fields are required.
struct answer ask(const char *key, struct text message, const char *properties);

// An HTTP request. The host sends it: it checks it against `[http] allow` of the manifest, does TLS,
// and adds the headers of `[http.inject]`, which the plugin never has.
struct http_request {
  struct text url;
  const char *method;               // "GET" if not set
  const struct http_header *headers;
  size_t header_count;
  struct text body;
  unsigned timeout;                 // in milliseconds, to the end of the response; 30 seconds if not set
};

struct http_header {
  const char *name;
  struct text value;
};

// The reason why there is no response.
enum http_error {
  HTTP_OK,
  HTTP_INVALID,     // the URL or a header cannot be sent
  HTTP_DENIED,      // the manifest does not grant the request
  HTTP_PRIVATE,     // the address is not public, and the manifest does not name it
  HTTP_NO_ADDRESS,  // the name has no address
  HTTP_REFUSED,     // no server accepts connections
  HTTP_INSECURE,    // there is no secure connection
  HTTP_TIMED_OUT,
  HTTP_TOO_LARGE,   // the request or the response is larger than the manifest allows
  HTTP_FAILED,      // another reason
};

struct http_response {
  enum http_error error;
  struct text why;  // a sentence for `failure`, if there is an error
  int status;       // such as 200; a status such as 404 is no error, and neither is a redirect
  struct http_header *headers;
  size_t header_count;
  struct text body;
};

// Sends a request, and waits for the whole response.
struct http_response http(struct http_request request);
// The value of the first header of this name, in any letter case; empty if there is none.
struct text http_header(const struct http_response *response, const char *name);
// Percent-encodes a text for any part of a URL, such as a value of its query.
struct text url_encode(struct text text);
