// The shortest edit script from one list of lines to another, by the linear-space variant of E.
// Myers' algorithm ("An O(ND) difference algorithm and its variations", 1986).
#pragma once

#include "json.h"

// A text as lines, each with its line feed, which the last line may lack.
struct lines {
  struct text *items;
  size_t count;
  // For each line: whether the other text has no matching line.
  bool *changed;
};

struct lines split_lines(struct text text);

// Marks the changed lines. Calls `done` after each part with the number of lines of both texts that
// are compared. Returns false as soon as it is clear that more than `most` lines changed.
bool compare_lines(struct lines *before, struct lines *after, size_t most, void (*done)(size_t lines));
