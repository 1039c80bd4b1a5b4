// A PNG image of few colours, without compression. A project with larger images should link zlib.
#pragma once

#include <stdint.h>

#include "json.h"

// `pixels` has one byte for each pixel, the number of a colour in `palette`, which has three bytes for
// each colour.
struct text png(struct text title, const uint8_t *pixels, uint32_t width, uint32_t height, const uint8_t *palette,
                size_t palette_len);
