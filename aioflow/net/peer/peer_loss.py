"""The kinds of loss of a peer, and their errors."""

import dataclasses
import enum

from aioflow import errors
from aioflow.net.transport.channel import LOST, NORMAL, SILENT, VIOLATION, Reason


class Loss(enum.Enum):
    """The reason for the loss of a peer."""

    LEFT = "it was closed here"
    GOODBYE = "it said goodbye"
    GONE = "its connection was lost"
    ENDED = "its process has ended"
    SILENT = "no message arrived from it"
    VIOLATION = "it broke the protocol"
    REFUSED = "it closed the connection"


_CODES = {
    Loss.LEFT: NORMAL, Loss.GOODBYE: NORMAL, Loss.GONE: LOST, Loss.ENDED: LOST, Loss.SILENT: SILENT,
    Loss.VIOLATION: VIOLATION, Loss.REFUSED: NORMAL,
}  # fmt: skip
_WORDS = {Loss.GOODBYE: "has left", Loss.GONE: "is gone", Loss.ENDED: "is gone", Loss.SILENT: "is silent"}


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """The end of a peer.

    Attributes:
        loss: the kind of loss.
        text: details for people.
        at: the time at which the loss was noticed, on the loop's clock.
    """

    loss: Loss
    text: str
    at: float

    def __str__(self) -> str:
        between = " " if self.loss is Loss.SILENT else ": "
        return self.loss.value + (between + self.text if self.text else "")

    @property
    def reason(self) -> Reason:
        """The reason with which the channel is closed."""
        text = f"no message arrived {self.text}" if self.loss is Loss.SILENT else self.text
        return Reason(_CODES[self.loss], text)

    def error(self, label: str, task: str | None, asked: str = "") -> errors.OpError:
        """Return the error of present and later requests to the peer."""
        what = f", asked for {asked}," if asked else ""
        if self.loss is Loss.LEFT:
            return errors.CancelledError(f"{label}{what} was closed here{self._more}", task=task)
        return errors.UnavailableError(f"{label}{what} {_WORDS.get(self.loss, 'is lost')}: {self}", task=task)

    @property
    def _more(self) -> str:
        return f": {self.text}" if self.text else ""


def end_of(reason: Reason, at: float) -> End:
    """The end of a peer whose channel was closed for that reason, there or on the way."""
    if reason.code in (LOST, SILENT):
        return End(Loss.GONE, reason.text, at)
    return End(Loss.GOODBYE if reason.code == NORMAL else Loss.REFUSED, reason.text, at)
