// JSON: values are parsed into a tree, and text is written piece by piece.
//
// Memory is never freed: each call of a tool has a fresh instance, whose memory is released as a
// whole when the call ends. This works like an arena, and needs no code.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// UTF-8 text with its length: it may contain any character, including NUL. The functions of this
// library put a NUL after the texts that they make, so `ptr` is also a C string, for example for fopen.
struct text {
  const char *ptr;
  size_t len;
};

// The text of a string literal.
#define TEXT(literal) ((struct text){literal, sizeof(literal) - 1})

enum json_kind { JSON_NULL, JSON_BOOLEAN, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
  enum json_kind kind;
  union {
    bool boolean;
    double number;
    struct text string;
    struct {
      struct json *items;
      size_t count;
    } array;
    struct {
      struct json_member *members;
      size_t count;
    } object;
  };
};

struct json_member {
  struct text key;
  struct json value;
};

// Parses one value. Returns NULL if the text is not JSON, or nests deeper than the contract allows.
const struct json *json_read(struct text text);

// The member of an object, or NULL; also if `json` is NULL or not an object. So lookups can be
// chained.
const struct json *json_get(const struct json *json, const char *key);

// The value, or `otherwise` if it is absent or of another type.
struct text json_text(const struct json *json, struct text otherwise);
double json_number(const struct json *json, double otherwise);

// Text under construction. Begin with {0}.
struct buffer {
  char *ptr;
  size_t len, capacity;
};

void put(struct buffer *buffer, struct text text);
void put_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Writes the text as a JSON string, quoted and escaped.
void put_json(struct buffer *buffer, struct text text);
struct text buffer_text(const struct buffer *buffer);

// Formats a text like printf.
struct text text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool text_equal(struct text a, struct text b);
// The text without white space at its ends.
struct text text_trim(struct text text);
// The text if it is UTF-8, else a copy in which U+FFFD replaces each byte that does not fit. The
// host accepts only UTF-8, so `put_json` and results apply this.
struct text text_utf8(struct text text);

// Memory for `count` elements, zeroed. Traps if there is none left: the host then reports which
// limit the call has reached, better than this code could.
void *allocate(size_t count, size_t size);
