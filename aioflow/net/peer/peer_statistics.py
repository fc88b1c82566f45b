"""The figures of one connected task."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class PeerStatistics:
    """The state of a peer at one moment.

    Attributes:
        asked: this task's unanswered requests to the peer.
        serving: the peer's unanswered requests to this task.
        held: the bytes of values of the peer's requests.
        arriving: unfinished incoming messages.
        credit: bytes of values that may be sent, on each channel.
        late: answers that came after the request was cancelled.
        round_trip: seconds from the last ping to its pong; None before the first.
        clock_offset: seconds by which its clock was ahead of this one then.
    """

    asked: int
    serving: int
    held: int
    arriving: int
    credit: tuple[int, ...]
    late: int
    round_trip: float | None
    clock_offset: float
