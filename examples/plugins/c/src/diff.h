// The shortest way from one list of lines to another, by the algorithm of E. Myers ("An O(ND)
// difference algorithm and its variations", 1986) in its variant with linear space.
#pragma once

#include "json.h"

// A text as lines, each with its line feed; the last may have none.
struct lines {
  struct text *items;
  size_t count;
  // Of each line: whether the comparison has found that the other text has no such line there.
  bool *changed;
};

struct lines split_lines(struct text text);

// Marks what changed. `done` is told after each part how many lines of both texts are settled.
// False if more than `most` lines changed, which is noticed before they are all found.
bool compare_lines(struct lines *before, struct lines *after, size_t most, void (*done)(size_t lines));
