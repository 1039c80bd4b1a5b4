#include "toolyard.h"

#include <string.h>

#include "tools_wasi_plugin.h"

// --- Conversion between our texts and those of the bindings --------------------------------------

static tools_wasi_plugin_string_t lower(struct text text) {
  return (tools_wasi_plugin_string_t){(uint8_t *)text.ptr, text.len};
}

static struct text lift(tools_wasi_plugin_string_t string) {
  return (struct text){(const char *)string.ptr, string.len};
}

// The bindings free the values that a function returns, so a literal must be copied.
static tools_wasi_plugin_string_t owned(struct text text) {
  tools_wasi_plugin_string_t string = {allocate(text.len, 1), text.len};
  if (text.len) memcpy(string.ptr, text.ptr, text.len);
  return string;
}

static tools_wasi_plugin_string_t owned_literal(const char *literal) {
  return owned((struct text){literal, strlen(literal)});
}

static toolyard_plugin_types_option_json_t optional(struct text json) {
  return (toolyard_plugin_types_option_json_t){json.ptr != NULL, json.ptr ? owned(json) : (tools_wasi_plugin_string_t){0}};
}

static tools_wasi_plugin_option_string_t optional_literal(const char *literal) {
  if (!literal) return (tools_wasi_plugin_option_string_t){0};
  return (tools_wasi_plugin_option_string_t){true, owned_literal(literal)};
}

static const toolyard_plugin_types_task_support_t TASK_SUPPORTS[] = {
  [TASK_OPTIONAL] = TOOLYARD_PLUGIN_TYPES_TASK_SUPPORT_OPTIONAL,
  [TASK_FORBIDDEN] = TOOLYARD_PLUGIN_TYPES_TASK_SUPPORT_FORBIDDEN,
  [TASK_REQUIRED] = TOOLYARD_PLUGIN_TYPES_TASK_SUPPORT_REQUIRED,
};

// --- Exports ---------------------------------------------------------------------------------

void exports_toolyard_plugin_tools_list_tools(exports_toolyard_plugin_tools_list_tool_t *list) {
  list->len = TOOL_COUNT;
  list->ptr = allocate(TOOL_COUNT, sizeof *list->ptr);
  for (size_t i = 0; i < TOOL_COUNT; i++) {
    const struct tool *tool = &TOOLS[i];
    tools_wasi_plugin_option_string_t output = optional_literal(tool->output);
    list->ptr[i] = (toolyard_plugin_types_tool_t){
      .name = owned_literal(tool->name),
      .title = optional_literal(tool->title),
      .description = optional_literal(tool->description),
      .icons = owned_literal("[]"),
      .input_schema = owned_literal(tool->input),
      .output_schema = {output.is_some, output.val},
      .annotations = owned_literal(tool->annotations ? tool->annotations : "{}"),
      .task_support = TASK_SUPPORTS[tool->task],
    };
  }
}

static const struct tool *find(struct text name) {
  for (size_t i = 0; i < TOOL_COUNT; i++)
    if (text_equal(name, (struct text){TOOLS[i].name, strlen(TOOLS[i].name)})) return &TOOLS[i];
  // The host calls only tools in the list.
  __builtin_trap();
}

bool exports_toolyard_plugin_tools_call(tools_wasi_plugin_string_t *name, tools_wasi_plugin_string_t *arguments,
                                        toolyard_plugin_types_tool_result_t *result,
                                        toolyard_plugin_types_call_error_t *error) {
  const struct json *given = json_read(lift(*arguments));
  struct result came = find(lift(*name))->call(given);
  if (came.kind == RESULT_RPC_ERROR) {
    error->tag = TOOLYARD_PLUGIN_TYPES_CALL_ERROR_RPC;
    error->val.rpc = (toolyard_plugin_types_rpc_error_t){came.code, owned(came.text), optional(came.json)};
    return false;
  }
  toolyard_plugin_types_content_t *block = allocate(1, sizeof *block);
  block->tag = TOOLYARD_PLUGIN_TYPES_CONTENT_TEXT;
  block->val.text.text = owned(came.text);
  *result = (toolyard_plugin_types_tool_result_t){
    .content = {block, 1},
    .structured_content = optional(came.json),
    .is_error = came.kind == RESULT_FAILURE,
  };
  return true;
}

struct result reply(struct text text, struct text structured) {
  return (struct result){RESULT_REPLY, text, structured, 0};
}

struct result failure(struct text text) { return (struct result){RESULT_FAILURE, text, {0}, 0}; }

struct result rpc_error(int code, struct text message, struct text data) {
  return (struct result){RESULT_RPC_ERROR, message, data, code};
}

// --- Host functions --------------------------------------------------------------------------

void progress(double done, double total, struct text message) {
  tools_wasi_plugin_string_t said = lower(message);
  toolyard_plugin_host_progress(done, &total, message.ptr ? &said : NULL);
}

void status(struct text message) {
  tools_wasi_plugin_string_t said = lower(message);
  toolyard_plugin_host_status(&said);
}

void log_info(struct text message) {
  struct buffer json = {0};
  put_json(&json, message);
  tools_wasi_plugin_string_t data = lower(buffer_text(&json));
  toolyard_plugin_host_log(TOOLYARD_PLUGIN_TYPES_LOG_LEVEL_INFO, NULL, &data);
}

void sleep_for(unsigned milliseconds) { toolyard_plugin_host_sleep(milliseconds); }

bool is_cancelled(void) { return toolyard_plugin_host_cancelled(); }

const struct json *call_info(void) {
  toolyard_plugin_host_json_t info;
  toolyard_plugin_host_call_info(&info);
  return json_read(lift(info));
}

static struct answer impossible(const toolyard_plugin_types_ask_error_t *error) {
  struct answer answer = {ANSWER_IMPOSSIBLE, NULL, TEXT("the call is being stopped")};
  switch (error->tag) {
    case TOOLYARD_PLUGIN_TYPES_ASK_ERROR_UNSUPPORTED:
      answer.why = text_format("this client cannot be asked: %.*s", (int)error->val.unsupported.len,
                               (const char *)error->val.unsupported.ptr);
      break;
    case TOOLYARD_PLUGIN_TYPES_ASK_ERROR_TIMED_OUT:
      answer.why = TEXT("no answer came in time");
      break;
    case TOOLYARD_PLUGIN_TYPES_ASK_ERROR_REFUSED:
      answer.why =
        text_format("the client refused to answer: %.*s (%d)", (int)error->val.refused.message.len,
                    (const char *)error->val.refused.message.ptr, (int)error->val.refused.code);
      break;
    case TOOLYARD_PLUGIN_TYPES_ASK_ERROR_INVALID:
      answer.why = text_format("the question is not valid: %.*s", (int)error->val.invalid.len,
                               (const char *)error->val.invalid.ptr);
      break;
    case TOOLYARD_PLUGIN_TYPES_ASK_ERROR_TOO_LATE:
      answer.why = TEXT("the call has had effects, so it is too late to ask");
      break;
  }
  return answer;
}

// The names of the fields, as a JSON array for the schema's `required`.
static void put_names(struct buffer *buffer, const struct json *object) {
  put(buffer, TEXT("["));
  for (size_t i = 0; object && i < object->object.count; i++) {
    if (i) put(buffer, TEXT(","));
    put_json(buffer, object->object.members[i].key);
  }
  put(buffer, TEXT("]"));
}

struct answer ask(const char *key, struct text message, const char *properties) {
  struct buffer params = {0};
  put(&params, TEXT("{\"message\":"));
  put_json(&params, message);
  put_format(&params, ",\"requestedSchema\":{\"type\":\"object\",\"properties\":%s,\"required\":", properties);
  put_names(&params, json_read((struct text){properties, strlen(properties)}));
  put(&params, TEXT("}}"));

  toolyard_plugin_types_question_t question = {
    .key = lower((struct text){key, strlen(key)}),
    .method = lower(TEXT("elicitation/create")),
    .params = lower(buffer_text(&params)),
  };
  toolyard_plugin_host_list_question_t questions = {&question, 1};
  toolyard_plugin_host_list_answer_t answers;
  toolyard_plugin_types_ask_error_t error;
  if (!toolyard_plugin_host_ask(&questions, &answers, &error)) return impossible(&error);
  // One question gets one answer.
  toolyard_plugin_types_result_json_ask_error_t *outcome = &answers.ptr[0].outcome;
  if (outcome->is_err) return impossible(&outcome->val.err);
  const struct json *elicited = json_read(lift(outcome->val.ok));
  bool accepted = text_equal(json_text(json_get(elicited, "action"), TEXT("")), TEXT("accept"));
  if (!accepted) return (struct answer){.kind = ANSWER_DECLINED};
  return (struct answer){.kind = ANSWER_ACCEPTED, .content = json_get(elicited, "content")};
}
