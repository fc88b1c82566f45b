"""The sizes that one task accepts from another. They are checked before anything is allocated."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Final

from aioflow import errors
from aioflow.net.wire.schema import Integer
from aioflow.tensors.tensor_list import TensorList

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
FRAME_SLICE: Final = 0.0005
"""Seconds after which a send or receive of many bytes lets other tasks run."""
INLINE: Final = 16 * KIB
"""Values of at most this many bytes are sent in the frame of the header. They need no other frame and no credit."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Bounds, in bytes unless another unit is given. Both ends keep to the smaller of their limits.

    Attributes:
        chunk: a frame of raw bytes.
        header: a header.
        tensor: one value.
        message: all values of one message.
        window: the values in flight in one direction of a channel; see `charge`.
        held: the values of all unanswered requests of one peer.
        requests: the number of unanswered requests of one peer.
    """

    chunk: Annotated[int, Integer(KIB, 16 * MIB)] = MIB
    header: Annotated[int, Integer(64 * KIB, MIB)] = MIB
    tensor: Annotated[int, Integer(KIB)] = 2 * GIB
    message: Annotated[int, Integer(KIB)] = 4 * GIB
    window: Annotated[int, Integer(64 * KIB)] = 64 * MIB
    held: Annotated[int, Integer(KIB)] = 8 * GIB
    requests: Annotated[int, Integer(1, 1 << 20)] = 10_000

    @property
    def frame(self) -> int:
        """The longest frame there can be."""
        return self.chunk + self.header + INLINE

    def agreed(self, other: "Limits") -> "Limits":
        """Return the smaller limits of both."""
        names = [field.name for field in dataclasses.fields(self)]
        return Limits(**{name: min(getattr(self, name), getattr(other, name)) for name in names})

    def charge(self, nbytes: int) -> int:
        """Return the bytes of the window that values take: at most half, so that others can overtake a huge value."""
        return min(nbytes, self.window // 2)


def check_sizes(named: Mapping[str, Any], limits: Limits) -> None:
    """ResourceExhaustedError that names the largest of these values if they cannot be sent within the limits."""
    sizes = {name: _bytes_of(value) for name, value in named.items()}
    total = sum(sizes.values())
    if total <= limits.tensor and total <= limits.message:
        return
    name = max(sizes, key=sizes.__getitem__)
    if sizes[name] > limits.tensor:
        text = f"{name!r} has a value of {sizes[name]} bytes, more than the {limits.tensor}"
        raise errors.ResourceExhaustedError(f"{text} that were agreed on with the peer")
    if total > limits.message:
        text = f"{len(sizes)} values of {total} bytes, of which {name!r} has {sizes[name]}, are more than the"
        raise errors.ResourceExhaustedError(f"{text} {limits.message} of a message that were agreed on with the peer")


def _bytes_of(value: Any) -> int:
    return value.count_bytes() if isinstance(value, TensorList) else getattr(value, "nbytes", 0)


STANDARD: Final = Limits()
"""Where nothing else is said."""
