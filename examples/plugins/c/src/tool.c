// A tool that compares two texts line by line, and shows the difference as a unified diff for the
// model and as hunks for programs.
#include <stdint.h>
#include <string.h>

#include "diff.h"
#include "toolyard.h"

static size_t total_lines;

static void tell(size_t done) { progress((double)done, (double)total_lines + 1, TEXT("comparing")); }

static void put_line(struct buffer *buffer, char mark, struct text line) {
  bool is_ended = line.len && line.ptr[line.len - 1] == '\n';
  put_format(buffer, "%c", mark);
  put(buffer, line);
  if (!is_ended) put(buffer, TEXT("\n\\ No newline at end of file\n"));
}

static void put_json_line(struct buffer *json, char mark, struct text line) {
  struct buffer marked = {0};
  put_format(&marked, "%c", mark);
  if (line.len && line.ptr[line.len - 1] == '\n') line.len--;
  put(&marked, line);
  if (json->ptr[json->len - 1] != '[') put(json, TEXT(","));
  put_json(json, buffer_text(&marked));
}

// The current position in both texts.
struct place {
  size_t before, after;
};

static bool is_changed(const struct lines *before, const struct lines *after, struct place at) {
  return (at.before < before->count && before->changed[at.before]) ||
         (at.after < after->count && after->changed[at.after]);
}

// Writes one hunk. It starts `context` lines before the change at `*at`, and ends as many lines
// after the last change that is no further away than two contexts. Moves `*at` after the changes.
static void put_hunk(struct buffer *unified, struct buffer *json, const struct lines *before,
                     const struct lines *after, size_t context, struct place *at) {
  size_t lead = at->before < context ? at->before : context;
  if (lead > at->after) lead = at->after;
  struct place from = {at->before - lead, at->after - lead}, to = *at;
  struct buffer body = {0}, lines = {0};
  put(&lines, TEXT("["));
  for (size_t i = from.before; i < at->before; i++) {
    put_line(&body, ' ', before->items[i]);
    put_json_line(&lines, ' ', before->items[i]);
  }
  for (;;) {
    for (; to.before < before->count && before->changed[to.before]; to.before++) {
      put_line(&body, '-', before->items[to.before]);
      put_json_line(&lines, '-', before->items[to.before]);
    }
    for (; to.after < after->count && after->changed[to.after]; to.after++) {
      put_line(&body, '+', after->items[to.after]);
      put_json_line(&lines, '+', after->items[to.after]);
    }
    // Equal lines that follow: up to the next change if it is near, else the context.
    size_t equal = 0;
    while (to.before + equal < before->count && equal <= 2 * context &&
           !is_changed(before, after, (struct place){to.before + equal, to.after + equal}))
      equal++;
    bool goes_on = equal <= 2 * context && is_changed(before, after, (struct place){to.before + equal, to.after + equal});
    size_t shown = goes_on || equal < context ? equal : context;
    for (size_t i = 0; i < shown; i++) {
      put_line(&body, ' ', before->items[to.before + i]);
      put_json_line(&lines, ' ', before->items[to.before + i]);
    }
    to = (struct place){to.before + shown, to.after + shown};
    if (!goes_on) break;
  }
  size_t removed = to.before - from.before, added = to.after - from.after;
  // The format counts lines from 1, but gives the line before an empty range.
  size_t first_before = from.before + (removed > 0), first_after = from.after + (added > 0);
  put_format(unified, "@@ -%zu,%zu +%zu,%zu @@\n", first_before, removed, first_after, added);
  put(unified, buffer_text(&body));
  if (json->ptr[json->len - 1] != '[') put(json, TEXT(","));
  put_format(json, "{\"before\":%zu,\"beforeLines\":%zu,\"after\":%zu,\"afterLines\":%zu,\"lines\":", first_before,
             removed, first_after, added);
  put(json, buffer_text(&lines));
  put(json, TEXT("]}"));
  *at = to;
}

static size_t count_changed(const struct lines *lines) {
  size_t changed = 0;
  for (size_t i = 0; i < lines->count; i++) changed += lines->changed[i];
  return changed;
}

static struct result diff(const struct json *arguments) {
  // The host has checked the arguments: required ones are present, and all have their types.
  struct lines before = split_lines(json_text(json_get(arguments, "before"), TEXT("")));
  struct lines after = split_lines(json_text(json_get(arguments, "after"), TEXT("")));
  size_t context = (size_t)json_number(json_get(arguments, "context"), 3);
  double most = json_number(json_get(arguments, "mostChanges"), 1e9);
  double ask_above = json_number(json_get(arguments, "askAbove"), 1e9);
  if (ask_above < 1e9 && ask_above >= most)
    return rpc_error(INVALID_PARAMS, TEXT("`askAbove` must be below `mostChanges`, or the tool would never ask"),
                     TEXT("{\"argument\":\"askAbove\"}"));

  total_lines = before.count + after.count;
  tell(0);
  if (!compare_lines(&before, &after, (size_t)most, tell))
    return failure(text_format("More than %.0f lines changed. Compare smaller parts, or raise `mostChanges`.", most));
  size_t removed = count_changed(&before), added = count_changed(&after);

  bool in_full = true;
  if ((double)(removed + added) > ask_above) {
    struct answer answer =
      ask("show", text_format("%zu lines changed. Shall the model get all of them?", removed + added),
          "{\"show\": {\"type\": \"string\", \"title\": \"Show\", \"enum\": [\"all\", \"counts\"]}}");
    if (answer.kind == ANSWER_IMPOSSIBLE) return failure(answer.why);
    if (answer.kind == ANSWER_DECLINED) return failure(TEXT("The user did not want the difference to be shown."));
    in_full = text_equal(json_text(json_get(answer.content, "show"), TEXT("")), TEXT("all"));
  }

  struct buffer unified = {0}, hunks = {0};
  put(&hunks, TEXT("["));
  for (struct place at = {0}; in_full && (at.before < before.count || at.after < after.count);) {
    if (is_changed(&before, &after, at)) {
      if (!unified.len) put(&unified, TEXT("--- before\n+++ after\n"));
      put_hunk(&unified, &hunks, &before, &after, context, &at);
    } else {
      at.before++;
      at.after++;
    }
  }
  put(&hunks, TEXT("]"));
  progress((double)total_lines + 1, (double)total_lines + 1, TEXT("written"));

  struct buffer structured = {0};
  put_format(&structured, "{\"removed\":%zu,\"added\":%zu,\"complete\":%s,\"hunks\":", removed, added,
             in_full ? "true" : "false");
  put(&structured, buffer_text(&hunks));
  put(&structured, TEXT("}"));
  struct text text = buffer_text(&unified);
  if (!in_full) text = text_format("%zu lines removed, %zu added.", removed, added);
  else if (!unified.len) text = TEXT("The texts are the same.");
  return reply(text, buffer_text(&structured));
}

static const char INPUT[] =
  "{\"type\": \"object\", \"required\": [\"before\", \"after\"], \"additionalProperties\": false, \"properties\": {"
  "\"before\": {\"type\": \"string\"},"
  "\"after\": {\"type\": \"string\"},"
  "\"context\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 1000,"
  " \"description\": \"The number of equal lines to show around changes; 3 by default.\"},"
  "\"mostChanges\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 1000000000,"
  " \"description\": \"Give up when more lines than this changed.\"},"
  "\"askAbove\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 1000000000,"
  " \"description\": \"Ask the user whether to show all changes when more lines than this changed.\"}}}";

static const char OUTPUT[] =
  "{\"type\": \"object\", \"required\": [\"removed\", \"added\", \"complete\", \"hunks\"], \"properties\": {"
  "\"removed\": {\"type\": \"integer\"}, \"added\": {\"type\": \"integer\"},"
  "\"complete\": {\"type\": \"boolean\", \"description\": \"Whether the hunks are there.\"},"
  "\"hunks\": {\"type\": \"array\", \"items\": {\"type\": \"object\","
  " \"required\": [\"before\", \"beforeLines\", \"after\", \"afterLines\", \"lines\"], \"properties\": {"
  "\"before\": {\"type\": \"integer\", \"description\": \"Its first line in the text before, from 1.\"},"
  "\"beforeLines\": {\"type\": \"integer\"}, \"after\": {\"type\": \"integer\"}, \"afterLines\": {\"type\": \"integer\"},"
  "\"lines\": {\"type\": \"array\", \"items\": {\"type\": \"string\"},"
  " \"description\": \"Each begins with a space, - or +.\"}}}}}}";

const struct tool TOOLS[] = {
  {
    .name = "diff_lines",
    .title = "Compare texts",
    .description = "Compares two texts line by line, and returns the difference as a unified diff.",
    .input = INPUT,
    .output = OUTPUT,
    .annotations = "{\"readOnlyHint\": true, \"openWorldHint\": false}",
    .call = diff,
  },
};

const size_t TOOL_COUNT = sizeof TOOLS / sizeof *TOOLS;
