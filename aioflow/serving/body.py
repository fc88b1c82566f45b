"""Reads the body of a request within limits, unpacks it, and places it so that NumPy can use it where it lies."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import numpy as np

from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.limits import Limits
from aioflow.serving.request import Request
from aioflow.tensors.dtypes import Array

_FIRST: Final = 64 * 1024
_PIECE: Final = 512 * 1024
"""Bytes that are unpacked between two looks at the event loop."""
_ALIGNED: Final = 64
_GZIP_OR_ZLIB: Final = 47
_PACKED: Final = ("gzip", "x-gzip", "deflate")


def whole_body(request: Request, limits: Limits) -> memoryview | None:
    """Return the body if it is there already, and neither packed nor too large."""
    body = request.body
    if not isinstance(body, bytes) or len(body) > limits.body or "content-encoding" in request.headers:
        return None
    return memoryview(body)


async def read_body(request: Request, limits: Limits, json_size: int | None = None) -> memoryview:
    """Return the whole body. If it has to arrive, bytes behind the first `json_size` begin at an aligned address.

    Raises:
        RequestRefusedError: it is too large, too slow, or packed in a way that is unknown or damaged.
    """
    whole = whole_body(request, limits)
    if whole is not None:
        return whole
    length = content_length(request, limits)
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if packing not in (*_PACKED, "identity"):
        raise RequestRefusedError(415, f"content-encoding {packing!r} is none of gzip, deflate, identity")
    plain, body = packing == "identity", request.body
    if isinstance(body, bytes):
        body = _once(body)
    buffer = _Buffer(length if plain and length is not None else _FIRST, -(json_size or 0) % _ALIGNED, limits)
    try:
        async with asyncio.timeout(limits.body_seconds):
            if plain:
                async for chunk in body:
                    buffer.add(chunk)
            else:
                await _unpack(body, buffer)
    except TimeoutError:
        text = f"the body did not arrive within {limits.body_seconds:g} s"
        raise RequestRefusedError(408, text, {"connection": "close"}) from None
    return buffer.content()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def content_length(request: Request, limits: Limits) -> int | None:
    """Return the length of the body if the headers say it. RequestRefusedError if that is too large."""
    text = request.headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise RequestRefusedError(400, f"content-length {text!r} is not a number")
    length = int(text[:20])
    if length > limits.body:
        raise _too_large(length, limits)
    return length


class _Buffer:
    """Bytes that grow up to the limit, behind an offset."""

    def __init__(self, capacity: int, offset: int, limits: Limits) -> None:
        self._offset: Final = offset
        self._limits: Final = limits
        self._memory: Array = _aligned(offset + capacity)
        self._end = offset

    def add(self, chunk: bytes) -> None:
        """Append bytes. RequestRefusedError if there are too many."""
        end = self._end + len(chunk)
        if end - self._offset > self._limits.body:
            raise _too_large(end - self._offset, self._limits)
        if end > len(self._memory):
            grown = _aligned(max(end, min(2 * len(self._memory), self._offset + self._limits.body)))
            grown[: self._end] = self._memory[: self._end]
            self._memory = grown
        self._memory[self._end : end] = np.frombuffer(chunk, np.uint8)
        self._end = end

    def content(self) -> memoryview:
        return memoryview(self._memory)[self._offset : self._end]


def _aligned(size: int) -> Array:
    """Return memory whose address is a multiple of a cache line."""
    whole = np.empty(size + _ALIGNED, np.uint8)
    start = -whole.__array_interface__["data"][0] % _ALIGNED
    return whole[start : start + size]


async def _unpack(chunks: AsyncIterator[bytes], buffer: _Buffer) -> None:
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        async for chunk in chunks:
            rest = chunk if unpacker.eof else b""
            for piece in _pieces(unpacker, chunk):
                buffer.add(piece)
                await asyncio.sleep(0)
            if rest or unpacker.unused_data:
                raise RequestRefusedError(400, "the packed body goes on behind its end")
    except zlib.error as error:
        raise RequestRefusedError(400, f"the body is damaged: it cannot be unpacked, {error}") from None
    if not unpacker.eof:
        raise RequestRefusedError(400, "the packed body ends too early")


def _pieces(unpacker: Any, chunk: bytes) -> Iterator[bytes]:
    """Unpack a chunk, in pieces of a bounded size."""
    while chunk and not unpacker.eof:
        yield unpacker.decompress(chunk, _PIECE)
        chunk = unpacker.unconsumed_tail


def _too_large(size: int, limits: Limits) -> RequestRefusedError:
    return RequestRefusedError(
        413, f"the body has {size} bytes or more; at most {limits.body} are taken", {"connection": "close"}
    )
