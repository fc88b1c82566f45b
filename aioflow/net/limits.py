"""What one task accepts of another: sizes that are checked before anything is allocated."""

import dataclasses
from typing import Annotated, Final

from aioflow.net.kinds import Integer

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
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

    chunk: Annotated[int, Integer(KIB, 16 * MIB)] = 64 * KIB
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


STANDARD: Final = Limits()
"""Where nothing else is said."""

__all__ = ["GIB", "INLINE", "KIB", "MIB", "STANDARD", "Limits"]
