"""A bar chart as a PNG."""

import io

import png

WIDTH, HEIGHT, MARGIN = 320, 200, 10
PALETTE = [(0xFF, 0xFF, 0xFF), (0x2B, 0x6C, 0xB0)]  # paper and ink


def draw(title: str, values: list[float]) -> bytes:
    """The PNG, with a bar for each value from left to right; the largest is as high as the picture allows."""
    largest = max(values) or 1
    column = (WIDTH - 2 * MARGIN) // len(values)
    tops = [HEIGHT - MARGIN - round(value / largest * (HEIGHT - 2 * MARGIN)) for value in values]
    rows = []
    for y in range(HEIGHT):
        row = bytearray(WIDTH)
        for number, top in enumerate(tops):
            if top <= y < HEIGHT - MARGIN:
                left = MARGIN + number * column
                row[left : left + column - 2] = b"\1" * (column - 2)
        rows.append(row)
    image = io.BytesIO()
    png.Writer(WIDTH, HEIGHT, palette=PALETTE).write(image, rows)
    header, *rest = png.Reader(bytes=image.getvalue()).chunks()
    titled = io.BytesIO()
    png.write_chunks(titled, [header, (b"iTXt", b"Title\0\0\0\0\0" + title.encode()), *rest])
    return titled.getvalue()
