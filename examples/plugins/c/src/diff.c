#include "diff.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

struct lines split_lines(struct text text) {
  struct lines lines = {0};
  for (size_t i = 0; i < text.len; i++) lines.count += text.ptr[i] == '\n' || i + 1 == text.len;
  lines.items = allocate(lines.count, sizeof *lines.items);
  lines.changed = allocate(lines.count, sizeof *lines.changed);
  const char *at = text.ptr, *end = text.ptr + text.len;
  for (size_t i = 0; i < lines.count; i++) {
    const char *feed = memchr(at, '\n', (size_t)(end - at));
    const char *next = feed ? feed + 1 : end;
    lines.items[i] = (struct text){at, (size_t)(next - at)};
    at = next;
  }
  return lines;
}

// Equal lines get equal numbers, so that comparing them costs the same for any length. An
// open-addressing hash table, at most half full; slots hold a line's number plus one.
struct numbering {
  const struct text **slots;
  long *numbers;
  size_t mask;
  long next;
};

static uint64_t hash(struct text text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < text.len; i++) hash = (hash ^ (unsigned char)text.ptr[i]) * 0x100000001b3;
  return hash ^ hash >> 32;
}

static long number(struct numbering *numbering, const struct text *line) {
  size_t slot = hash(*line) & numbering->mask;
  while (numbering->slots[slot] && !text_equal(*numbering->slots[slot], *line)) slot = (slot + 1) & numbering->mask;
  if (!numbering->slots[slot]) {
    numbering->slots[slot] = line;
    numbering->numbers[slot] = numbering->next++;
  }
  return numbering->numbers[slot];
}

static long *number_all(struct numbering *numbering, const struct lines *lines) {
  long *numbers = allocate(lines->count, sizeof *numbers);
  for (size_t i = 0; i < lines->count; i++) numbers[i] = number(numbering, &lines->items[i]);
  return numbers;
}

struct comparison {
  const long *a, *b;    // the lines, by number
  bool *a_changed, *b_changed;
  // How far a path from the start or from the end reaches on each diagonal (x - y). The pointers
  // point to diagonal 0.
  long *forward, *backward;
  long most;
  void (*done)(size_t lines);
};

struct point {
  long x, y;
};

// Finds a point on a shortest path from (x0, y0) to (x1, y1) where paths from both ends meet.
// Returns false if the path has more than `most` changes.
static bool find_middle(const struct comparison *c, long x0, long y0, long x1, long y1, struct point *middle) {
  long lowest = x0 - y1, highest = x1 - y0;  // diagonals beyond these leave the rectangle
  long start = x0 - y0, end = x1 - y1;
  bool is_odd = (start - end) & 1;  // then paths meet while the one from the start grows
  long *forward = c->forward, *backward = c->backward;
  forward[start] = x0;
  backward[end] = x1;
  // The diagonals that paths of the current length can reach.
  long f_low = start, f_high = start, b_low = end, b_high = end;
  for (long length = 1; 2 * length - 1 <= c->most; length++) {
    // There is no path beyond the outermost diagonal, which the sentinels mark.
    if (f_low > lowest) forward[--f_low - 1] = LONG_MIN / 2; else f_low++;
    if (f_high < highest) forward[++f_high + 1] = LONG_MIN / 2; else f_high--;
    for (long k = f_high; k >= f_low; k -= 2) {
      // Removes or adds one more line, whichever reaches further.
      long removed = forward[k - 1] + 1, added = forward[k + 1];
      long x = removed > added ? removed : added;
      while (x < x1 && x - k < y1 && c->a[x] == c->b[x - k]) x++;
      forward[k] = x;
      if (is_odd && b_low <= k && k <= b_high && backward[k] <= x) {
        *middle = (struct point){x, x - k};
        return true;
      }
    }
    if (b_low > lowest) backward[--b_low - 1] = LONG_MAX / 2; else b_low++;
    if (b_high < highest) backward[++b_high + 1] = LONG_MAX / 2; else b_high--;
    for (long k = b_high; k >= b_low; k -= 2) {
      long removed = backward[k + 1] - 1, added = backward[k - 1];
      long x = removed < added ? removed : added;
      while (x > x0 && x - k > y0 && c->a[x - 1] == c->b[x - k - 1]) x--;
      backward[k] = x;
      if (!is_odd && f_low <= k && k <= f_high && x <= forward[k]) {
        *middle = (struct point){x, x - k};
        return true;
      }
    }
  }
  return false;
}

// Divides at a middle point and compares both halves. Each half has half of the changes, so the
// depth of recursion is at most the number of bits of their count.
static bool compare(const struct comparison *c, long x0, long y0, long x1, long y1) {
  while (x0 < x1 && y0 < y1 && c->a[x0] == c->b[y0]) x0++, y0++;
  while (x0 < x1 && y0 < y1 && c->a[x1 - 1] == c->b[y1 - 1]) x1--, y1--;
  if (x0 == x1 || y0 == y1) {
    memset(c->a_changed + x0, true, (size_t)(x1 - x0));
    memset(c->b_changed + y0, true, (size_t)(y1 - y0));
    c->done((size_t)(x1 + y1));
    return true;
  }
  struct point middle;
  return find_middle(c, x0, y0, x1, y1, &middle) && compare(c, x0, y0, middle.x, middle.y) &&
         compare(c, middle.x, middle.y, x1, y1);
}

bool compare_lines(struct lines *before, struct lines *after, size_t most, void (*done)(size_t lines)) {
  size_t total = before->count + after->count, size = 2;
  while (size < 2 * total) size *= 2;
  struct numbering numbering = {allocate(size, sizeof(struct text *)), allocate(size, sizeof(long)), size - 1, 0};
  // Diagonals go from -after to +before, with a sentinel at either end.
  long *paths = allocate(2 * (total + 3), sizeof *paths);
  struct comparison c = {
    .a = number_all(&numbering, before),
    .b = number_all(&numbering, after),
    .a_changed = before->changed,
    .b_changed = after->changed,
    .forward = paths + after->count + 1,
    .backward = paths + total + 3 + after->count + 1,
    .most = most > LONG_MAX / 4 ? LONG_MAX / 4 : (long)most,
    .done = done,
  };
  if (!compare(&c, 0, 0, (long)before->count, (long)after->count)) return false;
  size_t changed = 0;
  for (size_t i = 0; i < before->count; i++) changed += before->changed[i];
  for (size_t i = 0; i < after->count; i++) changed += after->changed[i];
  return changed <= most;
}
