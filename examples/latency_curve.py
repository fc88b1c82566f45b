"""A picture of latencies: one line for half of the requests, one for 99 % of them, over the number of clients.

Both axes are logarithmic. The numbers at the axes are handwritten, by the people whose digits the nets read.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from train_digits import load_digits

import aioflow as af

HEIGHT, WIDTH = 400, 600
LEFT, RIGHT, TOP, BOTTOM = 80, 580, 20, 350
GREY, BLUE, RED = (215, 215, 215), (40, 90, 200), (210, 50, 40)
SIDE = 8


class Point(NamedTuple):
    """What so many clients at a time have measured: the requests a second, and latencies in seconds."""

    clients: int
    rate: float
    p50: float
    p99: float


async def write_picture(points: Sequence[Point], path: Path) -> None:
    """Write the curves of the points as a PNG file."""
    graph = af.Graph()
    with graph.as_default():
        picture = af.placeholder(af.uint8, [HEIGHT, WIDTH, 3], name="picture")
        write = af.write_file(str(path), af.image.encode_png(picture))
    async with af.Session(graph=graph) as session:
        await session.run(write, {picture: draw(points)})


def draw(points: Sequence[Point]) -> Any:
    """Return the picture, uint8 [HEIGHT, WIDTH, 3]: clients to the right, microseconds upwards."""
    picture = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    clients = np.array([point.clients for point in points])
    curves = {color: 1e6 * np.array([getattr(point, name) for point in points]) for name, color in COLORS.items()}
    decades = decades_of(np.concatenate(list(curves.values())))
    columns = scale(clients, min(clients), max(max(clients), 2 * min(clients)), LEFT, RIGHT - 2 * SIDE)
    for decade in decades:
        row = scale(decade, decades[0], decades[-1], BOTTOM, TOP)
        line(picture, [LEFT, RIGHT], [row, row], GREY)
        write_number(picture, int(decade), int(row), LEFT - SIDE * (len(str(int(decade))) + 1))
    for column, count in zip(columns, clients, strict=True):
        write_number(picture, int(count), BOTTOM + 2 * SIDE, int(column) - SIDE * len(str(count)) // 2)
    for color, latencies in curves.items():
        line(picture, columns, scale(latencies, decades[0], decades[-1], BOTTOM, TOP), color)
    return picture


COLORS = {"p50": BLUE, "p99": RED}


def decades_of(values: Any) -> Any:
    """Return the powers of ten from the one below all values to the one above."""
    low, high = math.floor(np.log10(min(values))), math.ceil(np.log10(max(values)))
    return 10.0 ** np.arange(max(low, 0), max(high, low + 1, 1) + 1)


def scale(values: Any, low: float, high: float, start: float, end: float) -> Any:
    """Return the pixels of values on a logarithmic axis that has `low` at `start` and `high` at `end`."""
    return start + (end - start) * np.log(np.maximum(values, low) / low) / np.log(high / low)


def line(picture: Any, columns: Any, rows: Any, color: tuple[int, int, int]) -> None:
    """Draw a line through all points, 2 pixels thick."""
    ends = np.stack([columns, rows], 1)
    for start, end in itertools.pairwise(ends):
        steps = int(max(abs(end - start))) + 1
        for column, row in np.linspace(start, end, steps + 1).round().astype(int):
            picture[row - 1 : row + 1, column - 1 : column + 1] = color


def write_number(picture: Any, number: int, row: int, column: int) -> None:
    """Write a number whose middle is in that row, and whose left end in that column."""
    for place, digit in enumerate(str(number)):
        left = column + place * SIDE
        picture[row - SIDE // 2 : row + SIDE // 2, left : left + SIDE] = glyphs()[int(digit)][..., np.newaxis]


@functools.cache
def glyphs() -> list[Any]:
    """Return an image of each digit, uint8 [8, 8], black on white."""
    digits, _ = load_digits()
    first = [digits.images[np.argmax(digits.labels == digit)] for digit in range(10)]
    return [(255 * (1 - image)).astype(np.uint8).reshape(SIDE, SIDE) for image in first]
