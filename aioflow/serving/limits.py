"""How much a served model takes of a client."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of requests. A request beyond one is refused with a status that says which.

    Attributes:
        body: the most bytes of a body, also of what a compressed one unpacks to. A length in the headers that is larger
            is refused before the body is read (413).
        json: the most bytes of JSON in a body (413). Python parses JSON in one go, which holds the event loop, also
            from a thread: for about 10 ms a MiB of numbers. Larger tensors come as binary ones. It also bounds the
            parts of a gRPC message that are not raw tensors.
        requests: the most inferences at a time; one more is refused before its body is read (503).
        body_seconds: how long a body may take to arrive (408).
        answer_seconds: how long a client may take to read a response of more than 64 KiB, or small ones that it has
            left unread; then its connection is cut.
        message_seconds: how long a websocket, which has the place of an inference, may wait for the message of its
            client (408).
        client_requests: the most inferences of one client at a time (429). A client is an address; where clients may
            show one of several tokens, it is a token.
        client_rate: the most inferences that one client may begin a second (429). It may begin those of a second at
            once.
        client_rows: the most rows that one client may send a second (429). A request may have more: then the client
            is refused for as long as they take.

    Examples:
        >>> af.serving.Limits(body=1 << 20).body
        1048576
    """

    body: int = 64 * 2**20
    json: int = 4 * 2**20
    requests: int = 1024
    body_seconds: float = 60.0
    answer_seconds: float = 60.0
    message_seconds: float = 10.0
    client_requests: float = math.inf
    client_rate: float = math.inf
    client_rows: float = math.inf

    def __post_init__(self) -> None:
        """ValueError names a bound that is not above 0."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0 or math.isnan(value):
                raise ValueError(f"Limits({field.name}=) must be a number above 0, not {value!r}")
            if field.type is int and not isinstance(value, int):
                raise ValueError(f"Limits({field.name}=) must be a whole number, not {value!r}")
