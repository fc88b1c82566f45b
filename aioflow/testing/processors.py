"""The processors of simulated hosts: what a host does takes time, one thing after the other.

A virtual clock stands still while Python computes. So without costs the time of a simulated step grows only with the
messages that wait for each other, however many messages one host handles. With `Costs` each host has one serial
processor. It is busy for a while with each frame that it sends or receives and with each node that it runs; later work
of the host waits until the processor is free.
"""

import dataclasses
from typing import Final

from aioflow.net.transport.in_memory import Path
from aioflow.net.wire.framing import Frame


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """The processor time of the work of a task, in seconds.

    `python -m benchmarks cluster_growth` measures them with processes. The defaults are rounded figures of an Intel
    Xeon of two cores, Python 3.11, websockets over the loopback interface.

    Attributes:
        message: to send or to receive a frame, with all that the task does because of it.
        byte: to send or to receive a byte.
        node: to run a node of a step, besides the work of its kernel.
    """

    message: float = 25e-6
    byte: float = 0.3e-9
    node: float = 0.2e-6

    def of(self, frame: Frame) -> float:
        """The cost of a frame, on either side."""
        return self.message + len(frame) * self.byte


class Processor:
    """The processor of one host."""

    def __init__(self, costs: Costs) -> None:
        self._costs: Final = costs
        self._free = 0.0
        self.worked: float = 0.0
        """Seconds for which it was busy."""
        self.sent: int = 0
        """Frames that its host has sent."""

    def work(self, seconds: float, now: float) -> float:
        """Be busy for so long, as soon as it is free. Returns the time at which that is done."""
        self.worked += seconds
        self._free = max(self._free, now) + seconds
        return self._free

    def run_nodes(self, count: int, now: float) -> None:
        """Run nodes."""
        self.work(count * self._costs.node, now)

    def send(self, frame: Frame, now: float) -> float:
        """Send a frame. Returns the time at which that is done."""
        self.sent += 1
        return self.handle(frame, now)

    def handle(self, frame: Frame, now: float) -> float:
        """Send or receive a frame. Returns the time at which that is done."""
        return self.work(self._costs.of(frame), now)


class Processors:
    """The processors of all hosts."""

    def __init__(self, costs: Costs) -> None:
        self._costs: Final = costs
        self._found: Final[dict[str, Processor]] = {}

    def of(self, host: str) -> Processor:
        """The processor of the host of that name."""
        found = self._found.get(host)
        if found is None:
            found = self._found[host] = Processor(self._costs)
        return found

    @property
    def sent(self) -> int:
        """Frames that all hosts have sent."""
        return sum([processor.sent for processor in self._found.values()])

    def prepare(self, source: str, target: str, path: Path) -> None:
        """Let frames on that path take the time of both hosts."""
        path.departure, path.handling = self.of(source).send, self.of(target).handle
