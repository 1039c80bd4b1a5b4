// Returns an image.
#include <math.h>
#include <stdint.h>

#include "png.h"
#include "tools.h"

enum { WIDTH = 320, HEIGHT = 200, MARGIN = 8 };

struct result chart(const struct json *arguments) {
  const struct json *values = json_get(arguments, "values");
  const struct json *bars = values->array.items;
  size_t count = values->array.count, largest = 0;
  for (size_t i = 1; i < count; i++)
    if (json_number(json_get(&bars[i], "value"), 0) > json_number(json_get(&bars[largest], "value"), 0)) largest = i;
  double most = json_number(json_get(&bars[largest], "value"), 0);

  // One byte for each pixel: 1 in a bar, else 0.
  static uint8_t pixels[WIDTH * HEIGHT];
  size_t column = (WIDTH - 2 * MARGIN) / count;
  for (size_t i = 0; i < count; i++) {
    double share = most > 0 ? json_number(json_get(&bars[i], "value"), 0) / most : 0;
    size_t top = HEIGHT - MARGIN - (size_t)lround(share * (HEIGHT - 2 * MARGIN)), left = MARGIN + i * column;
    for (size_t y = top; y < HEIGHT - MARGIN; y++)
      for (size_t x = left; x < left + column - 2; x++) pixels[y * WIDTH + x] = 1;
  }

  struct text title = json_text(json_get(arguments, "title"), TEXT(""));
  struct text label = json_text(json_get(&bars[largest], "label"), TEXT(""));
  struct result result = reply(text_format("%zu bar%s, the largest is \"%s\" with %.15g", count, count > 1 ? "s" : "",
                                           label.ptr, most), (struct text){0});
  static const uint8_t PALETTE[] = {255, 255, 255, 31, 119, 180};
  add_image(&result, png(title, pixels, WIDTH, HEIGHT, PALETTE, sizeof PALETTE), "image/png");
  return result;
}
