"""The heads of plain requests, and of responses, as HTTP/1.1 writes them.

A client sends the same head again and again, so that the heads of the last requests are remembered with what they say.
A head that is not plain is left to aiohttp, which also refuses what is wrong.
"""

import functools
import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, NamedTuple

LONGEST: Final = 8192
"""The most bytes of a plain head."""
LARGEST: Final = 256 * 1024
"""The most bytes of the body of a plain request."""
_REMEMBERED: Final = 256
_FIRST_LINE: Final = re.compile(rb"(GET|HEAD|POST) (/[A-Za-z0-9_.~:/-]*) HTTP/1\.1")
_FIELD: Final = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_|~-]+):[ \t]*+([\x20-\x7e]*)")
"""No two neighbours take the same bytes back and forth: each line is read once, for hostile heads, too."""
_NOT_PLAIN: Final = frozenset({"content-encoding", "expect", "te", "trailer", "transfer-encoding", "upgrade"})
"""The fields that ask for more than one answer to a body of a known length."""


class PlainHead(NamedTuple):
    """What a plain head says.

    Attributes:
        method: GET, HEAD or POST.
        path: the path, which has no query and no escaped characters.
        headers: the values by name in lower case. Nobody may change them, for other requests may have the same.
        length: the bytes of the body.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    length: int


@functools.lru_cache(_REMEMBERED)
def read_head(text: bytes) -> PlainHead | None:
    """Return what a head says, from its first line to the empty one; None if it is not plain."""
    first, *lines = text[:-4].split(b"\r\n")
    start = _FIRST_LINE.fullmatch(first)
    fields = [_FIELD.fullmatch(line) for line in lines]
    if start is None or None in fields:
        return None
    pairs = [(field[1].decode().lower(), field[2].decode().rstrip()) for field in fields if field is not None]
    headers = dict(pairs)
    length = headers.get("content-length", "0")
    if len(headers) < len(pairs) or "host" not in headers or not headers.keys().isdisjoint(_NOT_PLAIN):
        return None
    if headers.get("connection", "keep-alive").lower() != "keep-alive" or not _is_small(length):
        return None
    return PlainHead(start[1].decode(), start[2].decode(), headers, int(length))


def _is_small(length: str) -> bool:
    return length.isdigit() and len(length) <= len(str(LARGEST)) and int(length) <= LARGEST


def response_head(status: int, headers: Mapping[str, str], size: int | None) -> bytes:
    """Return the head of a response.

    Args:
        status: the status of HTTP.
        headers: the values by name.
        size: the bytes of the body; None if it comes in chunks.
    """
    first = _first_lines(status, tuple(headers.items()))
    date = _date(int(time.time()))
    if size is None:
        return b"%bdate: %b\r\ntransfer-encoding: chunked\r\n\r\n" % (first, date)
    return b"%bdate: %b\r\ncontent-length: %d\r\n\r\n" % (first, date, size)


@functools.lru_cache(_REMEMBERED)
def _first_lines(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *[f"{name}: {value}" for name, value in headers]]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header of a response has a line break")
    return "".join([f"{line}\r\n" for line in lines]).encode("latin-1")


@functools.lru_cache(1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
