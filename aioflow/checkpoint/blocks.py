"""Writes and reads bytes block by block, with the checksums of the blocks."""

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aioflow import errors
from aioflow.checkpoint.checksums import BLOCK, checksums
from aioflow.checkpoint.records import Entry
from aioflow.checkpoint.storage import Source

_WRITTEN: Final = 4 * BLOCK
"""Bytes passed on at a time. A thread may wait for the interpreter between two writes, so they are few and large."""


class Written:
    """Passes bytes on to a file and collects the checksums of their blocks."""

    def __init__(self) -> None:
        self.checksums: Final[list[tuple[int, ...]]] = []

    def passing(self, parts: Iterable[memoryview]) -> Iterator[memoryview]:
        """Yield the same bytes, some blocks at a time. Afterwards `checksums` has those of each part's blocks."""
        for part in parts:
            found: list[int] = []
            for begin in range(0, len(part), _WRITTEN):
                blocks = part[begin : begin + _WRITTEN]
                found += checksums(blocks)
                yield blocks
            self.checksums.append(tuple(found))


def read_range(source: Source, entry: Entry, begin: int, buffer: memoryview, lanes: int) -> None:
    """Fill the buffer with the bytes of the piece from `begin` on, and check every block that it touches.

    Reads with up to `lanes` threads, which have ended when it returns. DataLossError if a checksum does not match.
    """
    end = begin + len(buffer)
    bounds = [begin, *range((begin // BLOCK + 1) * BLOCK, end, BLOCK), end]
    spans = [(low, high) for low, high in itertools.pairwise(bounds) if low < high]

    def read(span: tuple[int, int]) -> None:
        low, high = span
        _read_in_block(source, entry, low, buffer[low - begin : high - begin])

    if len(spans) < 2 or lanes < 2:
        for span in spans:
            read(span)
        return
    with ThreadPoolExecutor(min(lanes, len(spans)), "aioflow-restore") as helpers:
        for _ in helpers.map(read, spans):
            pass


def _read_in_block(source: Source, entry: Entry, low: int, into: memoryview) -> None:
    """Fill `into` with bytes of one block. Reads the whole block, since its checksum needs all its bytes."""
    if not entry.checksums:
        source.read_into(entry.offset + low, into)
        return
    begin = low - low % BLOCK
    size = min(BLOCK, entry.size - begin)
    block = into if len(into) == size else memoryview(bytearray(size))
    source.read_into(entry.offset + begin, block)
    if checksums(block) != [entry.checksums[begin // BLOCK]]:
        raise errors.DataLossError(
            f"{entry.name!r} is damaged: the checksum of {size} bytes from {entry.offset + begin} on of its file "
            "does not match; restore another checkpoint"
        )
    if block is not into:
        into[:] = block[low - begin : low - begin + len(into)]
