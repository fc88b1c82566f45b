"""Large JSON of requests and responses: threads read and write it, so that the event loop goes on.

Python switches threads between its own instructions, but not inside a call into C. So a response is written in slices.
`json` reads a request in one call, whose time the limit of `Limits.json` bounds.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from aioflow.serving.request import JSON, Response, to_json
from aioflow.tensors.dtypes import Array
from aioflow.tensors.object_arrays import SLICE_ELEMENTS, slices

P = ParamSpec("P")
R = TypeVar("R")
_LARGE: Final = 64 * 1024
"""Bytes of JSON that are read or written in less time than the change to a thread and back is worth."""
_NUMBER: Final = 16
"""Bytes of a number in JSON, about."""


async def beside_loop(size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what the work on that many bytes of JSON returns. A thread does it if they are many."""
    if size <= _LARGE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


async def write_json(size: int, value: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> bytes:
    """Return the value that a function makes, which is about that many bytes of JSON, as JSON."""
    if size <= _LARGE:
        return to_json(value(*args, **kwargs))
    return await asyncio.to_thread(lambda: to_json_in_slices(value(*args, **kwargs)))


async def write_response(size: int, value: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Response:
    """Return a response with that value likewise."""
    return Response(200, {"content-type": JSON}, [await write_json(size, value, *args, **kwargs)])


def json_size(arrays: Iterable[Array]) -> int:
    """Return about how many bytes the elements of arrays have as JSON."""
    return _NUMBER * sum([np.size(array) for array in arrays])


def to_json_in_slices(value: Any) -> bytes:
    """Return the same text as `to_json`. Each call into C writes few elements."""
    return b"".join(_pieces(value))


def _pieces(value: Any) -> Iterator[bytes]:
    if _leaves(value) <= SLICE_ELEMENTS:
        yield to_json(value)
    elif isinstance(value, dict):
        yield b"{"
        for index, (key, item) in enumerate(value.items()):
            yield b"," * (index > 0) + to_json(key) + b":"
            yield from _pieces(item)
        yield b"}"
    else:
        yield b"["
        yield from _items(value)
        yield b"]"


def _items(rows: list[Any]) -> Iterator[bytes]:
    at_once = SLICE_ELEMENTS // _leaves(rows[0])
    for part in slices(len(rows), max(1, at_once)):
        yield b"," * (part.start > 0)
        if at_once:
            yield to_json(rows[part])[1:-1]
        else:
            yield from _pieces(rows[part.start])


def _leaves(value: Any) -> int:
    """Return how many values are inside, if each item of a list has as many as its first."""
    if isinstance(value, dict):
        return max(1, sum(map(_leaves, value.values())))
    return len(value) * _leaves(value[0]) if isinstance(value, list) and value else 1
