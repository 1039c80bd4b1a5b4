#include "toolyard.h"

static struct result greet(const struct json *arguments) {
  struct text name = json_text(json_get(arguments, "name"), TEXT(""));
  if (name.len == 0) {
    struct answer answer =
      ask("name", TEXT("Whom shall I greet?"), "{\"name\": {\"type\": \"string\", \"title\": \"Name\"}}");
    if (answer.kind == ANSWER_IMPOSSIBLE) return failure(answer.why);
    if (answer.kind == ANSWER_DECLINED) return failure(TEXT("There is no name to greet: the user gave none."));
    name = json_text(json_get(answer.content, "name"), TEXT(""));
  }
  for (int step = 1; step <= 3; step++) {
    sleep_for(20);  // the real work goes here
    progress(step, 3, TEXT("thinking of something nice"));
  }
  struct buffer greeting = {0}, structured = {0};
  put(&greeting, TEXT("Hello, "));
  put(&greeting, name);
  put(&greeting, TEXT("!"));
  put(&structured, TEXT("{\"greeting\":"));
  put_json(&structured, buffer_text(&greeting));
  put(&structured, TEXT("}"));
  return reply(buffer_text(&greeting), buffer_text(&structured));
}

const struct tool TOOLS[] = {
  {
    .name = "{{name}}",
    .title = "Greet",
    .description = "Greets a person; asks the user for the name if it is absent.",
    .input = "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
             "\"name\": {\"type\": \"string\", \"minLength\": 1, \"description\": \"The name to greet.\"}}}",
    .output = "{\"type\": \"object\", \"properties\": {\"greeting\": {\"type\": \"string\"}},"
              "\"required\": [\"greeting\"]}",
    .annotations = "{\"readOnlyHint\": true}",
    .call = greet,
  },
};

const size_t TOOL_COUNT = sizeof TOOLS / sizeof *TOOLS;
