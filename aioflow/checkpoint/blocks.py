"""Bytes written and read block by block, with their checksums."""

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aioflow import errors
from aioflow.checkpoint.checksums import BLOCK, checksums
from aioflow.checkpoint.records import Entry
from aioflow.checkpoint.storage import Source

_WRITTEN: Final = 4 * BLOCK
"""Bytes written at a time: many, for between two writes a thread may have to wait for the interpreter."""


class Written:
    """Passes on what is to be written, and then knows the checksums of each part's blocks."""

    def __init__(self) -> None:
        self.checksums: Final[list[tuple[int, ...]]] = []

    def passing(self, parts: Iterable[memoryview]) -> Iterator[memoryview]:
        """The same bytes, some blocks at a time."""
        for part in parts:
            found: list[int] = []
            for begin in range(0, len(part), _WRITTEN):
                blocks = part[begin : begin + _WRITTEN]
                found += checksums(blocks)
                yield blocks
            self.checksums.append(tuple(found))


def read_range(source: Source, entry: Entry, begin: int, buffer: memoryview, lanes: int) -> None:
    """The buffer holds the piece's bytes from `begin` on, and all blocks they are of agree with their checksums.

    DataLossError if one does not. Reads with so many threads, which are gone when it returns.
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
    """The same for bytes of one block. If they are not all of it, the others are read too, for the checksum's sake."""
    if not entry.checksums:
        source.read_into(entry.offset + low, into)
        return
    begin = low - low % BLOCK
    size = min(BLOCK, entry.size - begin)
    block = into if len(into) == size else memoryview(bytearray(size))
    source.read_into(entry.offset + begin, block)
    if checksums(block) != [entry.checksums[begin // BLOCK]]:
        raise errors.DataLossError(
            f"{entry.name!r} is damaged: {size} bytes from {entry.offset + begin} on of its file do not agree with "
            "their checksum; restore another checkpoint"
        )
    if block is not into:
        into[:] = block[low - begin : low - begin + len(into)]
