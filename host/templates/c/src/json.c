#include "json.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *allocate(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size ? size : 1);
  if (!memory) __builtin_trap();
  return memory;
}

// --- Reading ---------------------------------------------------------------------------------

// The deepest nesting that the contract allows; it also bounds the recursion.
#define DEEPEST 128

struct reader {
  const char *at, *end;
};

static bool read_value(struct reader *reader, struct json *value, int depth);

static void skip_space(struct reader *reader) {
  while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at) reader->at++;
}

static bool take(struct reader *reader, char expected) {
  skip_space(reader);
  if (reader->at == reader->end || *reader->at != expected) return false;
  reader->at++;
  return true;
}

static bool take_word(struct reader *reader, struct text word) {
  if ((size_t)(reader->end - reader->at) < word.len || memcmp(reader->at, word.ptr, word.len)) return false;
  reader->at += word.len;
  return true;
}

// Returns the four hexadecimal digits of an escape, or -1.
static int32_t read_unit(struct reader *reader) {
  int32_t unit = 0;
  if (reader->end - reader->at < 4) return -1;
  for (int i = 0; i < 4; i++) {
    char c = *reader->at++;
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

// Writes a character as UTF-8; returns the end.
static char *encode(char *to, uint32_t c) {
  if (c < 0x80) {
    *to++ = (char)c;
  } else if (c < 0x800) {
    *to++ = (char)(0xC0 | c >> 6);
    *to++ = (char)(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    *to++ = (char)(0xE0 | c >> 12);
    *to++ = (char)(0x80 | (c >> 6 & 0x3F));
    *to++ = (char)(0x80 | (c & 0x3F));
  } else {
    *to++ = (char)(0xF0 | c >> 18);
    *to++ = (char)(0x80 | (c >> 12 & 0x3F));
    *to++ = (char)(0x80 | (c >> 6 & 0x3F));
    *to++ = (char)(0x80 | (c & 0x3F));
  }
  return to;
}

// The character of `\u….`: a surrogate pair is one character. A lone surrogate has no UTF-8
// encoding, so it is replaced.
static bool read_escaped(struct reader *reader, uint32_t *c) {
  int32_t unit = read_unit(reader);
  if (unit < 0) return false;
  *c = (uint32_t)unit;
  if (unit >= 0xD800 && unit < 0xDC00) {
    struct reader ahead = *reader;
    int32_t low = take_word(&ahead, TEXT("\\u")) ? read_unit(&ahead) : -1;
    if (low >= 0xDC00 && low < 0xE000) {
      *c = 0x10000 + (((uint32_t)unit - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
      *reader = ahead;
      return true;
    }
  }
  if (unit >= 0xD800 && unit < 0xE000) *c = 0xFFFD;
  return true;
}

static bool read_string(struct reader *reader, struct text *string) {
  if (!take(reader, '"')) return false;
  const char *end = reader->at;
  while (end < reader->end && *end != '"') end += *end == '\\' ? 2 : 1;
  if (end >= reader->end) return false;
  // An escape is never shorter than the character that it encodes. The memory is zeroed.
  char *start = allocate((size_t)(end - reader->at) + 1, 1), *to = start;
  while (*reader->at != '"') {
    char c = *reader->at++;
    if ((unsigned char)c < 0x20) return false;
    if (c != '\\') {
      *to++ = c;
      continue;
    }
    static const char NAMES[] = "\"\\/bfnrt", VALUES[] = "\"\\/\b\f\n\r\t";
    c = *reader->at++;
    const char *name = c ? strchr(NAMES, c) : NULL;
    uint32_t character;
    if (name) {
      *to++ = VALUES[name - NAMES];
    } else if (c == 'u' && read_escaped(reader, &character)) {
      to = encode(to, character);
    } else {
      return false;
    }
  }
  reader->at++;
  *string = (struct text){start, (size_t)(to - start)};
  return true;
}

static bool read_number(struct reader *reader, double *number) {
  const char *start = reader->at;
  while (reader->at < reader->end && *reader->at && strchr("+-.eE0123456789", *reader->at)) reader->at++;
  // strtod needs a terminating NUL, which a part of a text does not have.
  char digits[64], *end;
  size_t len = (size_t)(reader->at - start);
  char *copy = len < sizeof digits ? digits : allocate(len + 1, 1);
  memcpy(copy, start, len);
  copy[len] = 0;
  *number = strtod(copy, &end);
  return len > 0 && end == copy + len;
}

// Makes room for one more element; the capacity is the smallest power of two that fits `count`.
static void *grow(void *items, size_t count, size_t size) {
  if (count & (count - 1)) return items;
  void *larger = allocate(count ? count * 2 : 1, size);
  if (count) memcpy(larger, items, count * size);
  return larger;
}

static bool read_array(struct reader *reader, struct json *value, int depth) {
  value->kind = JSON_ARRAY;
  if (take(reader, ']')) return true;
  do {
    value->array.items = grow(value->array.items, value->array.count, sizeof(struct json));
    if (!read_value(reader, &value->array.items[value->array.count++], depth + 1)) return false;
  } while (take(reader, ','));
  return take(reader, ']');
}

static bool read_object(struct reader *reader, struct json *value, int depth) {
  value->kind = JSON_OBJECT;
  if (take(reader, '}')) return true;
  do {
    value->object.members = grow(value->object.members, value->object.count, sizeof(struct json_member));
    struct json_member *member = &value->object.members[value->object.count++];
    if (!read_string(reader, &member->key) || !take(reader, ':')) return false;
    if (!read_value(reader, &member->value, depth + 1)) return false;
  } while (take(reader, ','));
  return take(reader, '}');
}

static bool read_value(struct reader *reader, struct json *value, int depth) {
  *value = (struct json){0};
  skip_space(reader);
  if (depth > DEEPEST || reader->at == reader->end) return false;
  switch (*reader->at) {
    case '{':
      reader->at++;
      return read_object(reader, value, depth);
    case '[':
      reader->at++;
      return read_array(reader, value, depth);
    case '"':
      value->kind = JSON_STRING;
      return read_string(reader, &value->string);
    case 'n':
      return take_word(reader, TEXT("null"));
    case 't':
    case 'f':
      value->kind = JSON_BOOLEAN;
      value->boolean = *reader->at == 't';
      return take_word(reader, value->boolean ? TEXT("true") : TEXT("false"));
    default:
      value->kind = JSON_NUMBER;
      return read_number(reader, &value->number);
  }
}

const struct json *json_read(struct text text) {
  struct reader reader = {text.ptr, text.ptr + text.len};
  struct json *value = allocate(1, sizeof *value);
  if (!read_value(&reader, value, 0)) return NULL;
  skip_space(&reader);
  return reader.at == reader.end ? value : NULL;
}

const struct json *json_get(const struct json *json, const char *key) {
  if (!json || json->kind != JSON_OBJECT) return NULL;
  struct text wanted = {key, strlen(key)};
  for (size_t i = 0; i < json->object.count; i++)
    if (text_equal(json->object.members[i].key, wanted)) return &json->object.members[i].value;
  return NULL;
}

struct text json_text(const struct json *json, struct text otherwise) {
  return json && json->kind == JSON_STRING ? json->string : otherwise;
}

double json_number(const struct json *json, double otherwise) {
  return json && json->kind == JSON_NUMBER ? json->number : otherwise;
}

// --- Writing ---------------------------------------------------------------------------------

// Makes room for `more` characters and a NUL.
static char *reserve(struct buffer *buffer, size_t more) {
  if (buffer->capacity - buffer->len <= more) {
    size_t capacity = (buffer->len + more + 1) * 2;
    char *larger = realloc(buffer->ptr, capacity);
    if (!larger) __builtin_trap();
    buffer->ptr = larger;
    buffer->capacity = capacity;
  }
  return buffer->ptr + buffer->len;
}

void put(struct buffer *buffer, struct text text) {
  if (!text.len) return;
  memcpy(reserve(buffer, text.len), text.ptr, text.len);
  buffer->len += text.len;
  buffer->ptr[buffer->len] = 0;
}

static void put_arguments(struct buffer *buffer, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int len = vsnprintf(NULL, 0, format, arguments);
  if (len > 0) {
    vsnprintf(reserve(buffer, (size_t)len), (size_t)len + 1, format, again);
    buffer->len += (size_t)len;
  }
  va_end(again);
}

void put_format(struct buffer *buffer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  put_arguments(buffer, format, arguments);
  va_end(arguments);
}

void put_json(struct buffer *buffer, struct text text) {
  text = text_utf8(text);
  put(buffer, TEXT("\""));
  size_t plain = 0;
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    put(buffer, (struct text){text.ptr + plain, i - plain});
    if (c == '"' || c == '\\') {
      put_format(buffer, "\\%c", c);
    } else if (c == '\n') {
      put(buffer, TEXT("\\n"));
    } else {
      put_format(buffer, "\\u%04x", c);
    }
    plain = i + 1;
  }
  put(buffer, (struct text){text.ptr + plain, text.len - plain});
  put(buffer, TEXT("\""));
}

struct text buffer_text(const struct buffer *buffer) {
  return (struct text){buffer->ptr ? buffer->ptr : "", buffer->len};
}

struct text text_format(const char *format, ...) {
  struct buffer buffer = {0};
  va_list arguments;
  va_start(arguments, format);
  put_arguments(&buffer, format, arguments);
  va_end(arguments);
  return buffer_text(&buffer);
}

bool text_equal(struct text a, struct text b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

struct text text_trim(struct text text) {
  while (text.len && strchr(" \t\r\n", text.ptr[text.len - 1])) text.len--;
  for (; text.len && strchr(" \t\r\n", *text.ptr); text.len--) text.ptr++;
  return text_format("%.*s", (int)text.len, text.ptr);
}

// The number of bytes of the character at `at`; 0 if it is not UTF-8.
static size_t character(const unsigned char *at, size_t len) {
  unsigned char lead = *at;
  size_t size = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (size > len) return 0;
  for (size_t i = 1; i < size; i++)
    if ((at[i] & 0xC0) != 0x80) return 0;
  // Longer forms of a character, surrogates, and numbers above U+10FFFF.
  if ((lead == 0xE0 && at[1] < 0xA0) || (lead == 0xED && at[1] > 0x9F)) return 0;
  if ((lead == 0xF0 && at[1] < 0x90) || (lead == 0xF4 && at[1] > 0x8F)) return 0;
  return size;
}

struct text text_utf8(struct text text) {
  const unsigned char *bytes = (const unsigned char *)text.ptr;
  struct buffer copy = {0};
  size_t fits = 0;  // the beginning of the part that is not copied yet
  for (size_t i = 0; i < text.len;) {
    size_t size = character(bytes + i, text.len - i);
    i += size ? size : 1;
    if (size) continue;
    put(&copy, (struct text){text.ptr + fits, i - 1 - fits});
    put(&copy, TEXT("\xEF\xBF\xBD"));
    fits = i;
  }
  if (!fits) return text;
  put(&copy, (struct text){text.ptr + fits, text.len - fits});
  return buffer_text(&copy);
}
