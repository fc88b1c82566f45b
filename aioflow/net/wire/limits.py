"""What one task accepts of another: sizes that are checked before anything is allocated."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Final

from aioflow import errors
from aioflow.net.wire.schema import Integer

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
FRAME_SLICE: Final = 0.0005
"""Seconds after which whoever sends or receives much lets others run."""
INLINE: Final = 16 * KIB
"""So many bytes of values are sent in the frame of the header; what is no more needs no other frame, and no credit."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Bounds, in bytes where nothing else is said. Both ends keep to the smaller of what they offered.

    Attributes:
        chunk: of a frame of raw bytes.
        header: of a header.
        tensor: of one value.
        message: of all values of one message.
        window: of values that are on their way, in one direction of a channel; see `charge`.
        held: of values that came with requests which are not answered yet, of one peer.
        requests: how many requests of one peer may be unanswered.
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
        """What both accept."""
        names = [field.name for field in dataclasses.fields(self)]
        return Limits(**{name: min(getattr(self, name), getattr(other, name)) for name in names})

    def charge(self, nbytes: int) -> int:
        """What values of so many bytes take of the window: at most half, so that others can overtake a huge one."""
        return min(nbytes, self.window // 2)


def check_sizes(named: Mapping[str, Any], limits: Limits) -> None:
    """ResourceExhaustedError that names the largest of these values if they cannot be sent within the limits."""
    sizes = {name: getattr(value, "nbytes", 0) for name, value in named.items()}
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


STANDARD: Final = Limits()
"""Where nothing else is said."""
