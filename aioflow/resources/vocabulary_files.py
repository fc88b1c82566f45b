"""Reads keys and values of lookup tables from lines of text files. Blocks: called on threads."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.files.filesystem import Files
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import FLOAT, INTEGER, DType, string

WHOLE_LINE: Final = -2
LINE_NUMBER: Final = -1


def read_columns(
    files: Files, path: str, columns: Sequence[tuple[int, DType]], count: int, delimiter: bytes, offset: int
) -> list[AnyArray]:
    """Return one array for each column: a number of a part of the line, WHOLE_LINE, or LINE_NUMBER from `offset` on.

    Reads the first `count` lines, all if it is -1.

    Raises:
        InvalidArgumentError: the file has fewer lines, or a line is empty, has too few parts, or no number.
        NotFoundError: there is no such file.
    """
    lines = _lines(files, path, count)
    if count >= 0 and len(lines) != count:
        raise errors.InvalidArgumentError(f"{path!r} has {len(lines)} lines, and vocab_size is {count}")
    return [_column(path, lines, column, dtype, delimiter, offset) for column, dtype in columns]


def _lines(files: Files, path: str, count: int) -> list[bytes]:
    with files.open(path) as file:
        wanted: Iterator[bytes] = iter(file) if count < 0 else itertools.islice(file, count)
        lines = [line.rstrip(b"\n").removesuffix(b"\r") for line in wanted]
    if b"" in lines:
        raise errors.InvalidArgumentError(f"line {lines.index(b'') + 1} of {path!r} is empty")
    return lines


def _column(path: str, lines: list[bytes], column: int, dtype: DType, delimiter: bytes, offset: int) -> AnyArray:
    if column == LINE_NUMBER:
        return np.arange(offset, offset + len(lines), dtype=dtype.np)
    parts = lines if column == WHOLE_LINE else _parts(path, lines, column, delimiter)
    found = np.empty(len(parts), dtype.np)
    parse = _parser(dtype)
    for place, part in enumerate(parts):
        try:
            found[place] = parse(part)
        except (ValueError, OverflowError):
            raise errors.InvalidArgumentError(f"line {place + 1} of {path!r} has {part!r}, no {dtype.name}") from None
    return found


def _parts(path: str, lines: list[bytes], column: int, delimiter: bytes) -> list[bytes]:
    found = []
    for place, line in enumerate(lines):
        parts = line.split(delimiter)
        if column >= len(parts):
            raise errors.InvalidArgumentError(
                f"line {place + 1} of {path!r} has {len(parts)} columns, divided by {delimiter!r}, and no column "
                f"{column} (the first is 0): {line[:80]!r}"
            )
        found.append(parts[column])
    return found


def _parser(dtype: DType) -> Callable[[bytes], Any]:
    if dtype is string:
        return lambda part: part
    if dtype in INTEGER:
        return int
    if dtype in FLOAT:
        return float
    raise errors.InvalidArgumentError(f"a text file has strings, integers and floats, no {dtype.name}")
