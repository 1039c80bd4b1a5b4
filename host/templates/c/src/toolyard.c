#include "toolyard.h"

#include <string.h>
#include <strings.h>

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
  text = text_utf8(text);
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

struct block {
  uint8_t tag;  // as the bindings have it
  struct text bytes;  // or JSON
  const char *media_type;
};

static toolyard_plugin_types_content_t content(const struct block *block) {
  toolyard_plugin_types_content_t content = {.tag = block->tag};
  if (block->tag == TOOLYARD_PLUGIN_TYPES_CONTENT_IMAGE || block->tag == TOOLYARD_PLUGIN_TYPES_CONTENT_AUDIO) {
    uint8_t *bytes = allocate(block->bytes.len, 1);
    if (block->bytes.len) memcpy(bytes, block->bytes.ptr, block->bytes.len);
    content.val.image.data = (tools_wasi_plugin_list_u8_t){bytes, block->bytes.len};
    content.val.image.mime_type = owned_literal(block->media_type);
  } else {
    content.val.other = owned(block->bytes);
  }
  return content;
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
  toolyard_plugin_types_content_t *blocks = allocate(came.block_count + 1, sizeof *blocks);
  blocks->tag = TOOLYARD_PLUGIN_TYPES_CONTENT_TEXT;
  blocks->val.text.text = owned(came.text);
  for (size_t i = 0; i < came.block_count; i++) blocks[i + 1] = content(&came.blocks[i]);
  *result = (toolyard_plugin_types_tool_result_t){
    .content = {blocks, came.block_count + 1},
    .structured_content = optional(came.json),
    .is_error = came.kind == RESULT_FAILURE,
  };
  return true;
}

struct result reply(struct text text, struct text structured) {
  return (struct result){.kind = RESULT_REPLY, .text = text, .json = structured};
}

struct result failure(struct text text) { return (struct result){.kind = RESULT_FAILURE, .text = text}; }

struct result rpc_error(int code, struct text message, struct text data) {
  return (struct result){.kind = RESULT_RPC_ERROR, .text = message, .json = data, .code = code};
}

static void add(struct result *result, struct block block) {
  struct block *blocks = allocate(result->block_count + 1, sizeof *blocks);
  if (result->block_count) memcpy(blocks, result->blocks, result->block_count * sizeof *blocks);
  blocks[result->block_count++] = block;
  result->blocks = blocks;
}

void add_image(struct result *result, struct text bytes, const char *media_type) {
  add(result, (struct block){TOOLYARD_PLUGIN_TYPES_CONTENT_IMAGE, bytes, media_type});
}

void add_audio(struct result *result, struct text bytes, const char *media_type) {
  add(result, (struct block){TOOLYARD_PLUGIN_TYPES_CONTENT_AUDIO, bytes, media_type});
}

static void put_base64(struct buffer *buffer, struct text bytes) {
  static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes.len; i += 3) {
    size_t left = bytes.len - i;
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; k++) bits = bits << 8 | (k < left ? (uint8_t)bytes.ptr[i + k] : 0);
    char four[4];
    for (size_t k = 0; k < 4; k++) four[k] = k <= left ? DIGITS[bits >> (18 - 6 * k) & 63] : '=';
    put(buffer, (struct text){four, 4});
  }
}

static void put_literal(struct buffer *buffer, const char *key, const char *literal) {
  put_format(buffer, "\"%s\":", key);
  put_json(buffer, (struct text){literal, strlen(literal)});
}

void add_file(struct result *result, const char *uri, struct text bytes, const char *media_type) {
  struct buffer json = {0};
  put(&json, TEXT("{\"resource\":{"));
  put_literal(&json, "uri", uri);
  put(&json, TEXT(","));
  put_literal(&json, "mimeType", media_type);
  if (text_utf8(bytes).ptr == bytes.ptr) {
    put(&json, TEXT(",\"text\":"));
    put_json(&json, bytes);
  } else {
    put(&json, TEXT(",\"blob\":\""));
    put_base64(&json, bytes);
    put(&json, TEXT("\""));
  }
  put(&json, TEXT("}}"));
  add(result, (struct block){TOOLYARD_PLUGIN_TYPES_CONTENT_EMBEDDED_RESOURCE, buffer_text(&json), NULL});
}

void add_link(struct result *result, const char *uri, const char *name) {
  struct buffer json = {0};
  put(&json, TEXT("{"));
  put_literal(&json, "uri", uri);
  put(&json, TEXT(","));
  put_literal(&json, "name", name);
  put(&json, TEXT("}"));
  add(result, (struct block){TOOLYARD_PLUGIN_TYPES_CONTENT_RESOURCE_LINK, buffer_text(&json), NULL});
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

bool begin_task(void) {
  toolyard_plugin_types_task_error_t error;
  return toolyard_plugin_host_begin_task(&error);
}

bool effects(void) {
  toolyard_plugin_types_ask_error_t error;
  return toolyard_plugin_host_effects(&error);
}

const struct json *call_info(void) {
  toolyard_plugin_host_json_t info;
  toolyard_plugin_host_call_info(&info);
  return json_read(lift(info));
}

struct text continue_with(struct text state) {
  tools_wasi_plugin_string_t json = lower(state);
  toolyard_plugin_types_task_error_t error;
  // The host ends the run, unless it returns an error. Both cases have a text.
  toolyard_plugin_host_continue_with(&json, &error);
  return text_format("cannot continue with the state: %.*s", (int)error.val.failed.len,
                     (const char *)error.val.failed.ptr);
}

const struct json *restored(void) { return json_get(call_info(), "state"); }

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

// --- HTTP ------------------------------------------------------------------------------------

// The state of one exchange. The host requires that child resources are dropped before their
// parents: a pollable before its stream, and a stream before its body.
struct exchange {
  const struct http_request *request;
  struct text host;
  unsigned timeout;
  wasi_io_poll_own_pollable_t timer;
  struct http_response response;
};

// Returns false, for its callers to return.
static bool fail(struct exchange *exchange, enum http_error error, struct text why) {
  exchange->response = (struct http_response){.error = error, .why = why};
  return false;
}

static bool fail_because(struct exchange *exchange, const char *why) {
  return fail(exchange, HTTP_FAILED, text_format("the request to \"%s\" failed: %s", exchange->host.ptr, why));
}

static bool timed_out(struct exchange *exchange) {
  return fail(exchange, HTTP_TIMED_OUT, text_format("\"%s\" did not answer within %u ms; try again later",
                                                   exchange->host.ptr, exchange->timeout));
}

static bool too_large(struct exchange *exchange, const char *limit) {
  return fail(exchange, HTTP_TOO_LARGE,
              text_format("too many bytes in the exchange with \"%s\"; the operator of the host can raise `%s` in "
                          "`[limits]` of the plugin's manifest", exchange->host.ptr, limit));
}

static bool insecure(struct exchange *exchange, const char *why) {
  return fail(exchange, HTTP_INSECURE,
              text_format("there is no secure connection to \"%s\": %s", exchange->host.ptr, why));
}

// Makes the sentence of an error code of WASI.
static bool fail_with(struct exchange *exchange, const wasi_http_types_error_code_t *code) {
  const char *host = exchange->host.ptr;
  switch (code->tag) {
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_DENIED:
      return fail(exchange, HTTP_DENIED,
                  text_format("this tool is not granted %s requests to \"%s\"; the operator of the host can grant "
                              "them: add it to `[http] allow` of the plugin's manifest", exchange->request->method,
                              host));
    case WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_IP_PROHIBITED:
      return fail(exchange, HTTP_PRIVATE,
                  text_format("\"%s\" is not at a public address; the operator of the host can grant it by name: see "
                              "`[http] allow` of the plugin's manifest", host));
    case WASI_HTTP_TYPES_ERROR_CODE_DNS_ERROR:
    case WASI_HTTP_TYPES_ERROR_CODE_DNS_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_NOT_FOUND:
      return fail(exchange, HTTP_NO_ADDRESS,
                  text_format("\"%s\" has no address; check the name, and the DNS of the host", host));
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_REFUSED:
      return fail(exchange, HTTP_REFUSED,
                  text_format("no server answers at \"%s\"; check the port, and that the server runs", host));
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_CERTIFICATE_ERROR:
      return insecure(exchange, "its certificate is not valid");
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_PROTOCOL_ERROR:
      return insecure(exchange, "the server does not speak TLS as expected");
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_ALERT_RECEIVED:
      return insecure(exchange, "the server ended it");
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_READ_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_WRITE_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_TIMEOUT:
      return timed_out(exchange);
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_TERMINATED:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_INCOMPLETE:
      return fail_because(exchange, "the server closed the connection before the end of its response");
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_BODY_SIZE:
      if (code->val.http_request_body_size.is_some && code->val.http_request_body_size.val == 0)
        return fail_because(exchange, "a request with GET or HEAD has no body");
      return too_large(exchange, "http-request");
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_BODY_SIZE:
      return too_large(exchange, "http-response");
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_METHOD_INVALID:
      return fail_because(exchange, "the host never sends this method");
    case WASI_HTTP_TYPES_ERROR_CODE_INTERNAL_ERROR:
      // The host's own sentence, for example about a limit.
      if (code->val.internal_error.is_some)
        return fail_because(exchange, text_format("%.*s", (int)code->val.internal_error.val.len,
                                                  (const char *)code->val.internal_error.val.ptr).ptr);
      break;
  }
  return fail_because(exchange, text_format("error %d of wasi:http", code->tag).ptr);
}

// Waits for `ready`, but no longer than the timer allows, and drops it.
static bool wait_for(struct exchange *exchange, wasi_io_poll_own_pollable_t ready) {
  wasi_io_poll_borrow_pollable_t both[] = {wasi_io_poll_borrow_pollable(ready),
                                           wasi_io_poll_borrow_pollable(exchange->timer)};
  wasi_io_poll_list_borrow_pollable_t list = {both, 2};
  tools_wasi_plugin_list_u32_t indices;
  wasi_io_poll_poll(&list, &indices);
  // The list has ready pollables in order, so `ready` comes first.
  bool is_ready = indices.ptr[0] == 0;
  wasi_io_poll_pollable_drop_own(ready);
  return is_ready || timed_out(exchange);
}

static bool starts_with(struct text text, const char *start) {
  size_t len = strlen(start);
  return text.len >= len && strncasecmp(text.ptr, start, len) == 0;
}

static bool invalid_url(struct exchange *exchange, const char *why) {
  struct text url = exchange->request->url;
  return fail(exchange, HTTP_INVALID, text_format("cannot request \"%.*s\": %s", (int)url.len, url.ptr, why));
}

// Finds the host and the path in the URL.
static bool read_url(struct exchange *exchange, bool *is_secure, struct text *path) {
  struct text url = exchange->request->url;
  *is_secure = starts_with(url, "https://");
  if (!*is_secure && !starts_with(url, "http://"))
    return invalid_url(exchange, "write a whole URL with http or https");
  size_t start = *is_secure ? 8 : 7, end = start, stop;
  while (end < url.len && !strchr("/?#", url.ptr[end])) end++;
  for (stop = end; stop < url.len && url.ptr[stop] != '#';) stop++;
  for (size_t i = 0; i < stop; i++) {
    unsigned char c = (unsigned char)url.ptr[i];
    if (c <= ' ' || c >= 0x7F)
      return invalid_url(exchange, "it has characters that must be percent-encoded, as url_encode does");
    if (i < end && c == '@') return invalid_url(exchange, "it has a user name or a password in it");
  }
  if (start == end) return invalid_url(exchange, "it has no host");
  exchange->host = text_format("%.*s", (int)(end - start), url.ptr + start);
  const char *slash = end < stop && url.ptr[end] == '/' ? "" : "/";
  *path = text_format("%s%.*s", slash, (int)(stop - end), url.ptr + end);
  return true;
}

static bool add_header(struct exchange *exchange, wasi_http_types_own_fields_t fields, const char *name,
                       struct text value) {
  wasi_http_types_field_name_t key = lower((struct text){name, strlen(name)});
  wasi_http_types_field_value_t bytes = {(uint8_t *)value.ptr, value.len};
  wasi_http_types_header_error_t error;
  if (wasi_http_types_method_fields_append(wasi_http_types_borrow_fields(fields), &key, &bytes, &error)) return true;
  return fail(exchange, HTTP_INVALID, text_format("the header \"%s\" cannot be sent", name));
}

static bool add_headers(struct exchange *exchange, wasi_http_types_own_fields_t fields) {
  const struct http_request *request = exchange->request;
  bool has_agent = false;
  for (size_t i = 0; i < request->header_count; i++) {
    const struct http_header *header = &request->headers[i];
    has_agent |= strcasecmp(header->name, "user-agent") == 0;
    if (!add_header(exchange, fields, header->name, header->value)) return false;
  }
  // Some services refuse requests without this header.
  if (!has_agent && !add_header(exchange, fields, "user-agent", TEXT("toolyard-plugin"))) return false;
  // Without a length, the host sends the body in chunks, which some servers do not read.
  return !request->body.len ||
         add_header(exchange, fields, "content-length", text_format("%zu", request->body.len));
}

static wasi_http_types_method_t method_of(const char *name) {
  static const char *const NAMES[] = {
    [WASI_HTTP_TYPES_METHOD_GET] = "GET",         [WASI_HTTP_TYPES_METHOD_HEAD] = "HEAD",
    [WASI_HTTP_TYPES_METHOD_POST] = "POST",       [WASI_HTTP_TYPES_METHOD_PUT] = "PUT",
    [WASI_HTTP_TYPES_METHOD_DELETE] = "DELETE",   [WASI_HTTP_TYPES_METHOD_CONNECT] = "CONNECT",
    [WASI_HTTP_TYPES_METHOD_OPTIONS] = "OPTIONS", [WASI_HTTP_TYPES_METHOD_TRACE] = "TRACE",
    [WASI_HTTP_TYPES_METHOD_PATCH] = "PATCH",
  };
  for (uint8_t tag = 0; tag < sizeof NAMES / sizeof *NAMES; tag++)
    if (strcmp(NAMES[tag], name) == 0) return (wasi_http_types_method_t){.tag = tag};
  wasi_http_types_method_t other = {.tag = WASI_HTTP_TYPES_METHOD_OTHER};
  other.val.other = lower((struct text){name, strlen(name)});
  return other;
}

static bool make_request(struct exchange *exchange, wasi_http_types_own_outgoing_request_t *outgoing) {
  bool is_secure;
  struct text path;
  if (!read_url(exchange, &is_secure, &path)) return false;
  wasi_http_types_own_fields_t fields = wasi_http_types_constructor_fields();
  if (!add_headers(exchange, fields)) {
    wasi_http_types_fields_drop_own(fields);
    return false;
  }
  *outgoing = wasi_http_types_constructor_outgoing_request(fields);
  wasi_http_types_borrow_outgoing_request_t request = wasi_http_types_borrow_outgoing_request(*outgoing);
  wasi_http_types_method_t method = method_of(exchange->request->method);
  wasi_http_types_scheme_t scheme = {.tag = is_secure ? WASI_HTTP_TYPES_SCHEME_HTTPS : WASI_HTTP_TYPES_SCHEME_HTTP};
  tools_wasi_plugin_string_t host = lower(exchange->host), path_and_query = lower(path);
  if (wasi_http_types_method_outgoing_request_set_method(request, &method) &&
      wasi_http_types_method_outgoing_request_set_scheme(request, &scheme) &&
      wasi_http_types_method_outgoing_request_set_authority(request, &host) &&
      wasi_http_types_method_outgoing_request_set_path_with_query(request, &path_and_query))
    return true;
  wasi_http_types_outgoing_request_drop_own(*outgoing);
  return invalid_url(exchange, "its host, its path or the method cannot be sent");
}

static bool write_bytes(struct exchange *exchange, wasi_io_streams_own_output_stream_t stream) {
  wasi_io_streams_borrow_output_stream_t output = wasi_io_streams_borrow_output_stream(stream);
  struct text rest = exchange->request->body;
  wasi_io_streams_stream_error_t error;
  while (rest.len) {
    if (!wait_for(exchange, wasi_io_streams_method_output_stream_subscribe(output))) return false;
    uint64_t room;
    if (!wasi_io_streams_method_output_stream_check_write(output, &room, &error)) return true;
    tools_wasi_plugin_list_u8_t piece = {(uint8_t *)rest.ptr, rest.len < room ? rest.len : (size_t)room};
    if (!wasi_io_streams_method_output_stream_write(output, &piece, &error)) return true;
    rest = (struct text){rest.ptr + piece.len, rest.len - piece.len};
  }
  // A body must not be finished while the stream still has data.
  return !wasi_io_streams_method_output_stream_flush(output, &error) ||
         wait_for(exchange, wasi_io_streams_method_output_stream_subscribe(output));
}

// Writes the body, and drops it. If the server answers before it has read all of it, or the host
// refuses it, the rest stays unwritten, and the response tells the reason. So the only error here is
// the timeout.
static bool write_body(struct exchange *exchange, wasi_http_types_own_outgoing_body_t body) {
  wasi_io_streams_own_output_stream_t stream;
  bool in_time = true;
  if (exchange->request->body.len &&
      wasi_http_types_method_outgoing_body_write(wasi_http_types_borrow_outgoing_body(body), &stream)) {
    in_time = write_bytes(exchange, stream);
    wasi_io_streams_output_stream_drop_own(stream);
  }
  wasi_http_types_error_code_t error;
  if (in_time) wasi_http_types_static_outgoing_body_finish(body, NULL, &error);
  else wasi_http_types_outgoing_body_drop_own(body);
  return in_time;
}

static bool read_bytes(struct exchange *exchange, wasi_io_streams_own_input_stream_t stream) {
  wasi_io_streams_borrow_input_stream_t input = wasi_io_streams_borrow_input_stream(stream);
  struct buffer bytes = {0};
  for (;;) {
    if (!wait_for(exchange, wasi_io_streams_method_input_stream_subscribe(input))) return false;
    tools_wasi_plugin_list_u8_t piece;
    wasi_io_streams_stream_error_t error;
    if (wasi_io_streams_method_input_stream_read(input, 1 << 16, &piece, &error)) {
      put(&bytes, (struct text){(const char *)piece.ptr, piece.len});
      tools_wasi_plugin_list_u8_free(&piece);
    } else if (error.tag == WASI_IO_STREAMS_STREAM_ERROR_CLOSED) {
      exchange->response.body = buffer_text(&bytes);
      return true;
    } else {
      tools_wasi_plugin_string_t why;
      wasi_io_error_method_error_to_debug_string(wasi_io_error_borrow_error(error.val.last_operation_failed), &why);
      wasi_io_error_error_drop_own(error.val.last_operation_failed);
      return fail_because(exchange, text_format("%.*s", (int)why.len, (const char *)why.ptr).ptr);
    }
  }
}

static bool read_response(struct exchange *exchange, wasi_http_types_borrow_incoming_response_t incoming) {
  struct http_response *response = &exchange->response;
  response->status = wasi_http_types_method_incoming_response_status(incoming);
  wasi_http_types_own_headers_t fields = wasi_http_types_method_incoming_response_headers(incoming);
  wasi_http_types_list_tuple2_field_name_field_value_t entries;
  wasi_http_types_method_fields_entries(wasi_http_types_borrow_fields(fields), &entries);
  wasi_http_types_fields_drop_own(fields);
  response->header_count = entries.len;
  response->headers = allocate(entries.len, sizeof *response->headers);
  for (size_t i = 0; i < entries.len; i++) {
    response->headers[i].name = text_format("%.*s", (int)entries.ptr[i].f0.len, (const char *)entries.ptr[i].f0.ptr).ptr;
    response->headers[i].value = text_format("%.*s", (int)entries.ptr[i].f1.len, (const char *)entries.ptr[i].f1.ptr);
  }
  wasi_http_types_own_incoming_body_t body;
  if (!wasi_http_types_method_incoming_response_consume(incoming, &body))
    return fail_because(exchange, "the response has no body");
  wasi_io_streams_own_input_stream_t stream;
  bool is_read = wasi_http_types_method_incoming_body_stream(wasi_http_types_borrow_incoming_body(body), &stream);
  if (is_read) {
    is_read = read_bytes(exchange, stream);
    wasi_io_streams_input_stream_drop_own(stream);
  } else {
    fail_because(exchange, "the response has no body");
  }
  wasi_http_types_incoming_body_drop_own(body);
  return is_read;
}

// Waits for the head of the response, and reads the rest.
static bool receive(struct exchange *exchange, wasi_http_types_borrow_future_incoming_response_t future) {
  if (!wait_for(exchange, wasi_http_types_method_future_incoming_response_subscribe(future))) return false;
  wasi_http_types_result_result_own_incoming_response_error_code_void_t outcome;
  if (!wasi_http_types_method_future_incoming_response_get(future, &outcome) || outcome.is_err)
    return fail_because(exchange, "the host gave no answer");
  if (outcome.val.ok.is_err) return fail_with(exchange, &outcome.val.ok.val.err);
  wasi_http_types_own_incoming_response_t incoming = outcome.val.ok.val.ok;
  bool is_read = read_response(exchange, wasi_http_types_borrow_incoming_response(incoming));
  wasi_http_types_incoming_response_drop_own(incoming);
  return is_read;
}

static bool send_request(struct exchange *exchange) {
  wasi_http_types_own_outgoing_request_t outgoing;
  if (!make_request(exchange, &outgoing)) return false;
  wasi_http_types_own_outgoing_body_t body;
  if (!wasi_http_types_method_outgoing_request_body(wasi_http_types_borrow_outgoing_request(outgoing), &body)) {
    wasi_http_types_outgoing_request_drop_own(outgoing);
    return fail_because(exchange, "the body cannot be sent");
  }
  wasi_http_types_own_future_incoming_response_t future;
  wasi_http_types_error_code_t error;
  if (!wasi_http_outgoing_handler_handle(outgoing, NULL, &future, &error)) {
    wasi_http_types_outgoing_body_drop_own(body);
    return fail_with(exchange, &error);
  }
  bool is_done = write_body(exchange, body) &&
                 receive(exchange, wasi_http_types_borrow_future_incoming_response(future));
  wasi_http_types_future_incoming_response_drop_own(future);
  return is_done;
}

struct http_response http(struct http_request request) {
  if (!request.method) request.method = "GET";
  struct exchange exchange = {.request = &request, .timeout = request.timeout ? request.timeout : 30000};
  exchange.timer = wasi_clocks_monotonic_clock_subscribe_duration(exchange.timeout * UINT64_C(1000000));
  send_request(&exchange);
  wasi_io_poll_pollable_drop_own(exchange.timer);
  return exchange.response;
}

struct text http_header(const struct http_response *response, const char *name) {
  for (size_t i = 0; i < response->header_count; i++)
    if (strcasecmp(response->headers[i].name, name) == 0) return response->headers[i].value;
  return TEXT("");
}

struct text url_encode(struct text text) {
  static const char PLAIN[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  struct buffer encoded = {0};
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c && strchr(PLAIN, c)) put(&encoded, (struct text){text.ptr + i, 1});
    else put_format(&encoded, "%%%02X", c);
  }
  return buffer_text(&encoded);
}
