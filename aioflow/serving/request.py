"""A request and a response of HTTP as plain values, so that the protocols know no web framework."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"
EVENTS: Final = "text/event-stream"
WEBSOCKET: Final = "WEBSOCKET"
"""The method of a request for a websocket, whose body is the first message."""
JOINED: Final = 256 * 1024
"""The most bytes of a body whose parts are copied into one: a copy of more takes longer than a send."""
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


class Request(NamedTuple):
    """A request, whose body may not have arrived yet.

    Attributes:
        method: such as `GET`, or `WEBSOCKET`.
        path: the decoded path below the place where the models are mounted, such as `/v2/models/digits`.
        headers: the values by name, which are looked up in lower case.
        body: the body; if it was not there when the request began, as it arrives. It is read at most once.
        client: the address of the client, without a port.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | AsyncIterator[bytes]
    client: str = ""


class Response(NamedTuple):
    """A response, whose body is whole, or comes piece by piece.

    Attributes:
        status: the status of HTTP.
        headers: the values by name, without the length.
        body: the parts of the body, one after another; of a stream, its first messages.
        stream: the messages that follow them, as they are made. Its owner closes it.
    """

    status: int = 200
    headers: Mapping[str, str] = {}
    body: Sequence[bytes | memoryview] = ()
    stream: AsyncGenerator[bytes, None] | None = None

    @property
    def size(self) -> int:
        """The bytes of the body, of a stream those of its first messages."""
        return sum(map(len, self.body))

    @property
    def pieces(self) -> Sequence[bytes | memoryview]:
        """The body in the pieces that are sent: one, unless it is so large that a copy takes longer than a send."""
        return self.body if self.size > JOINED else [b"".join(self.body)]

    def with_headers(self, headers: Mapping[str, str]) -> "Response":
        """Return the response with further headers."""
        return self._replace(headers={**self.headers, **headers})

    async def write_to(self, write: Callable[[bytes | memoryview], Awaitable[None]]) -> None:
        """Write the body as HTTP carries it, piece by piece. The messages of a stream are events."""
        if self.stream is None:
            for piece in self.pieces:
                await write(piece)
            return
        for message in self.body:
            await write(_event(message))
        async for message in self.stream:
            await write(_event(message))


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a value as JSON. NaN and infinity become the tokens of Python and TensorFlow Serving."""
    return Response(status, {"content-type": JSON, **(headers or {})}, [to_json(value)])


def _event(message: bytes | memoryview) -> bytes:
    return b"".join((b"data: ", message, b"\n\n"))


def to_json(value: Any) -> bytes:
    """Return a value as JSON without spaces."""
    return _ENCODER.encode(value).encode(errors="replace")
