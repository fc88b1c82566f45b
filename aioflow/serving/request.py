"""A request and a response of HTTP as plain values, so that the protocols know no web framework."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"
EVENTS: Final = "text/event-stream"
_JOINED: Final = 256 * 1024
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


class Request(NamedTuple):
    """A request, whose body may not have arrived yet.

    Attributes:
        method: such as `GET`.
        path: the decoded path below the place where the models are mounted, such as `/v2/models/digits`.
        headers: the values by name, which are looked up in lower case.
        body: the body; if it was not there when the request began, as it arrives. It is read at most once.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | AsyncIterator[bytes]


class Response(NamedTuple):
    """A response, whose body is whole, or comes piece by piece.

    Attributes:
        status: the status of HTTP.
        headers: the values by name, without the length.
        body: the parts of the body, one after another.
        stream: what follows them, as it is made. Its owner closes it.
    """

    status: int = 200
    headers: Mapping[str, str] = {}
    body: Sequence[bytes | memoryview] = ()
    stream: AsyncGenerator[bytes, None] | None = None

    @property
    def size(self) -> int:
        """The bytes of the body, without the stream."""
        return sum(map(len, self.body))

    @property
    def pieces(self) -> Sequence[bytes | memoryview]:
        """The body in the pieces that are sent: one, unless it is so large that a copy takes longer than a send."""
        return self.body if self.size > _JOINED else [b"".join(self.body)]


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a value as JSON. NaN and infinity become the tokens of Python and TensorFlow Serving."""
    return Response(status, {"content-type": JSON, **(headers or {})}, [to_json(value)])


def to_json(value: Any) -> bytes:
    """Return a value as JSON without spaces."""
    return _ENCODER.encode(value).encode(errors="replace")
