// Works in parts, and continues from a stored state.
#include "tools.h"

// Each run of the task does this many parts.
#define PARTS_PER_RUN 2

// The state between the runs, and the result: the numbers of the parts that are done, and of runs.
static struct text steps_json(size_t done, int runs) {
  struct buffer json = {0};
  put(&json, TEXT("{\"done\":["));
  for (size_t part = 1; part <= done; part++) put_format(&json, part > 1 ? ",%zu" : "%zu", part);
  put_format(&json, "],\"runs\":%d}", runs);
  return buffer_text(&json);
}

struct result steps(const struct json *arguments) {
  size_t parts = (size_t)json_number(json_get(arguments, "parts"), 1);
  const struct json *state = restored(), *list = json_get(state, "done");
  size_t done = list && list->kind == JSON_ARRAY ? list->array.count : 0;
  int runs = (int)json_number(json_get(state, "runs"), 0) + 1;
  struct text refusal = {0};
  while (done < parts) {
    done++;  // the real work goes here
    progress((double)done, (double)parts, (struct text){0});
    // Returns only in a call that does not resume. Then this run does all parts.
    if (!refusal.ptr && done < parts && done % PARTS_PER_RUN == 0) refusal = continue_with(steps_json(done, runs));
  }
  struct text text = text_format("parts: %zu, runs: %d", parts, runs);
  if (refusal.ptr) text = text_format("%s; %s", text.ptr, refusal.ptr);
  return reply(text, steps_json(done, runs));
}
