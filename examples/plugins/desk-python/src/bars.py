"""A bar chart as a PNG, with nothing but the standard library."""

import struct
import zlib

WIDTH, HEIGHT, MARGIN = 320, 200, 10
PAPER, INK = b"\xff\xff\xff", b"\x2b\x6c\xb0"


def draw(title: str, values: list[float]) -> bytes:
    """The PNG, with a bar for each value from left to right; the largest is as high as the picture allows."""
    largest = max(values) or 1
    column = (WIDTH - 2 * MARGIN) // len(values)
    tops = [HEIGHT - MARGIN - round(value / largest * (HEIGHT - 2 * MARGIN)) for value in values]
    rows = []
    for y in range(HEIGHT):
        row = bytearray(PAPER * WIDTH)
        for number, top in enumerate(tops):
            if top <= y < HEIGHT - MARGIN:
                left = MARGIN + number * column
                row[3 * left : 3 * (left + column - 2)] = INK * (column - 2)
        rows.append(b"\0" + row)  # 0: the row is not filtered
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)),  # 8 bits each of red, green and blue
        (b"iTXt", b"Title\0\0\0\0\0" + title.encode()),
        (b"IDAT", zlib.compress(b"".join(rows))),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
