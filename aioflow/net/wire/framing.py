"""Messages on their way out, cut into the frames of a channel, a burst at a time. Back again goes `assembler`.

Between two bursts of a large message those of others may come: so a small one does not wait for a large one, and a
sender that no longer wants to send can say so.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from aioflow import errors
from aioflow.net.wire.codec import Envelope, fields_of, head_of
from aioflow.net.wire.control_verbs import Part
from aioflow.net.wire.encode_values import Buffer, describe
from aioflow.net.wire.limits import INLINE, Limits
from aioflow.net.wire.schema import Answer

Frame = bytes | memoryview
Burst = list[Frame]
StreamKey = tuple[int, bool]
"""Which message the bytes of a stream are of: its number, and whether it is an answer."""

BURST: Final = 1 << 20
"""Bytes of raw frames in a burst, at most; there is at least one frame."""
_SMALL: Final = 4096


class Outgoing:
    """A message on its way out.

    Attributes:
        nbytes: the bytes of its values that come after the first frame.
        key: whose stream these are.
    """

    def __init__(self, message: Envelope, limits: Limits) -> None:
        """InvalidArgumentError if the message cannot be sent, ResourceExhaustedError if it is too large."""
        try:
            self._fields, values = fields_of(message.message)
        except ValueError as error:
            raise errors.InvalidArgumentError(str(error)) from None
        sent = [describe(value) for value in values]
        total = sum([one.nbytes for one in sent])
        if total > limits.tensor or total > limits.message:
            _check_sizes(max([one.nbytes for one in sent]), total, limits)
        self._message: Final = message
        self._descriptors: Final = [one.descriptor for one in sent]
        self._buffers: Final = [buffer for one in sent for buffer in one.buffers if len(buffer)]
        self._limits: Final = limits
        self.key: Final[StreamKey] = message.number, isinstance(message.message, Answer)
        self.nbytes: Final = total if total > INLINE else 0

    def bursts(self, left: float | None = None) -> Iterator[Burst]:
        """The frames, a burst at a time; `left` is how many seconds there are for the answer."""
        if not self.nbytes:
            yield [self.frame(left)]
            return
        bursts = _bursts(self._buffers, self._limits.chunk)
        first = next(bursts)
        yield [self._head(left, _size(first)), *first]
        number, answer = self.key
        for burst in bursts:
            yield [head_of(Envelope(number, Part(answer)), [], {"answer": answer}, _size(burst), self._limits), *burst]

    def frame(self, left: float | None = None) -> bytes:
        """The only frame, if no bytes come after it."""
        return b"".join([self._head(left, 0), *self._buffers])

    def _head(self, left: float | None, follows: int) -> bytes:
        message = self._message if left is None else self._message._replace(left=left)
        try:
            return head_of(message, self._descriptors, self._fields, follows, self._limits)
        except ValueError as error:
            raise errors.ResourceExhaustedError(str(error)) from None


def _check_sizes(largest: int, total: int, limits: Limits) -> None:
    if largest > limits.tensor:
        raise errors.ResourceExhaustedError(
            f"a value of {largest} bytes is more than the {limits.tensor} that were agreed on with the peer"
        )
    if total > limits.message:
        raise errors.ResourceExhaustedError(
            f"values of {total} bytes are more than the {limits.message} of a message that were agreed on with the peer"
        )


def frame_of(message: Envelope, limits: Limits) -> bytes:
    """The frame of a message that carries no values."""
    return Outgoing(message, limits).frame()


def _size(burst: Iterable[Frame]) -> int:
    return sum(map(len, burst))


def _bursts(buffers: Sequence[Buffer], chunk: int) -> Iterator[Burst]:
    burst: Burst = []
    for frame in _chunks(buffers, chunk):
        burst.append(frame)
        if len(burst) * chunk >= BURST:
            yield burst
            burst = []
    if burst:
        yield burst


def _chunks(buffers: Sequence[Buffer], chunk: int) -> Iterator[Frame]:
    """The bytes in frames: views of the large buffers, and the small ones joined."""
    few: list[Buffer] = []
    for buffer in buffers:
        if len(buffer) <= _SMALL and _size(few) + len(buffer) <= chunk:
            few.append(buffer)
            continue
        if few:
            yield b"".join(few)
            few = []
        for start in range(0, len(buffer), chunk):
            yield buffer[start : start + chunk]
    if few:
        yield b"".join(few)
