#include "png.h"

// The most bytes of a stored block in a deflate stream.
#define MOST_STORED 65535

static void put_byte(struct buffer *buffer, uint8_t byte) { put(buffer, (struct text){(const char *)&byte, 1}); }

static void put_u32(struct buffer *buffer, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) put_byte(buffer, (uint8_t)(number >> shift));
}

static void put_u16_low_first(struct buffer *buffer, size_t number) {
  put_byte(buffer, (uint8_t)number);
  put_byte(buffer, (uint8_t)(number >> 8));
}

static uint32_t crc32(struct text bytes) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < bytes.len; i++) {
    crc ^= (uint8_t)bytes.ptr[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

static uint32_t adler32(struct text bytes) {
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < bytes.len; i++) {
    a = (a + (uint8_t)bytes.ptr[i]) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

static void put_chunk(struct buffer *image, const char *type, struct text data) {
  struct buffer chunk = {0};
  put(&chunk, (struct text){type, 4});
  put(&chunk, data);
  put_u32(image, (uint32_t)data.len);
  put(image, buffer_text(&chunk));
  put_u32(image, crc32(buffer_text(&chunk)));
}

// A zlib stream that stores its bytes.
static struct text stored(struct text bytes) {
  struct buffer stream = {0};
  put(&stream, TEXT("\x78\x01"));
  uint32_t sum = adler32(bytes);
  do {
    size_t len = bytes.len < MOST_STORED ? bytes.len : MOST_STORED;
    put_byte(&stream, len == bytes.len);  // whether it is the last block
    put_u16_low_first(&stream, len);
    put_u16_low_first(&stream, ~len);
    put(&stream, (struct text){bytes.ptr, len});
    bytes = (struct text){bytes.ptr + len, bytes.len - len};
  } while (bytes.len);
  put_u32(&stream, sum);
  return buffer_text(&stream);
}

struct text png(struct text title, const uint8_t *pixels, uint32_t width, uint32_t height, const uint8_t *palette,
                size_t palette_len) {
  struct buffer image = {0}, header = {0}, caption = {0}, rows = {0};
  put(&image, TEXT("\x89PNG\r\n\x1A\n"));
  put_u32(&header, width);
  put_u32(&header, height);
  put(&header, TEXT("\x08\x03\0\0\0"));  // 8 bits each, with a palette
  put_chunk(&image, "IHDR", buffer_text(&header));
  put(&caption, TEXT("Title\0\0\0\0\0"));
  put(&caption, title);
  put_chunk(&image, "iTXt", buffer_text(&caption));
  put_chunk(&image, "PLTE", (struct text){(const char *)palette, palette_len});
  for (uint32_t y = 0; y < height; y++) {
    put_byte(&rows, 0);  // no filter
    put(&rows, (struct text){(const char *)pixels + y * width, width});
  }
  put_chunk(&image, "IDAT", stored(buffer_text(&rows)));
  put_chunk(&image, "IEND", TEXT(""));
  return buffer_text(&image);
}
