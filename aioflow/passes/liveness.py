"""How much memory values take while the nodes of a flow run one after the other, estimated from shapes.

A value belongs to the node that makes it, or shares the memory of what the node reads, as a transposed matrix does. It
takes memory from then on until the last has read it, or to the end if it is fetched. What the caller feeds, what a
variable holds and what is known before any step is not counted. Sizes that are open are taken to be of one size.
"""

import math
from collections.abc import Sequence
from typing import Final

from aioflow.dtypes import DeviceKind, ResourceSpec, Spec
from aioflow.op import Kernel
from aioflow.passes.flow import Flow, Node, Value, is_back_edge
from aioflow.passes.relink import in_place

OURS: Final[frozenset[Value]] = frozenset()
"""The owners of what is not counted."""


GUESS: Final = 32
"""The size that an axis is taken to have if its size is open."""


def bytes_of(spec: Spec, guess: int = GUESS) -> int:
    """How large a value is; a handle and a list are nothing."""
    if isinstance(spec, ResourceSpec):
        return 0
    return math.prod(guess if size is None else size for size in spec.sizes or ()) * spec.dtype.size


class Liveness:
    """Which node needs memory for what.

    Attributes:
        nodes: the nodes, each by its number.
        makes: for each node, the values that take memory of their own, with their sizes.
        reads: for each node, the values whose memory it reads.
        readers: for each value that takes memory, how many nodes read it; one more if it is fetched.
        inside: for each node, what its branches or its iterations take while it runs.
        reuses: for each node, the size of the result that it can write into an input that nobody needs any more.
    """

    def __init__(self, flow: Flow, kind: DeviceKind = DeviceKind.CPU, guess: int = GUESS) -> None:
        self._kind, self._guess = kind, guess
        self.nodes: Final = flow.nodes
        self.makes: Final[list[list[tuple[Value, int]]]] = []
        self.reads: Final[list[list[Value]]] = []
        self.readers: Final[dict[Value, int]] = {}
        self.inside: Final[list[int]] = []
        self.reuses: Final[list[int]] = []
        self.owners: Final[dict[Value, frozenset[Value]]] = {}
        given = set(flow.feeds)
        for node in flow.nodes:
            self._add(node, node in given)
        for owner in {owner for value in flow.fetches for owner in self.owners[value]}:
            self.readers[owner] += 1

    def _add(self, node: Node, given: bool) -> None:
        kernel = None if node.blocks else node.definition.kernel_for(self._kind, node.input_specs)
        reads = {o for value in node.inputs if not is_back_edge(value.node, node) for o in self.owners[value]}
        self.reads.append(list(reads))
        for owner in reads:
            self.readers[owner] += 1
        made = []
        for index, spec in enumerate(node.output_specs):
            value = Value(node, index)
            shared = self._shared(node, index, kernel, reads, given)
            self.owners[value] = frozenset((value,)) if shared is None else shared
            if shared is None:
                self.readers[value] = 0
                made.append((value, bytes_of(spec, self._guess)))
        self.makes.append(made)
        self.inside.append(max([peak(block.flow, self._kind, self._guess) for block in node.blocks], default=0))
        reusing = kernel is not None and kernel.out and node.definition.elementwise and len(made) == 1
        self.reuses.append(made[0][1] if reusing else 0)

    def _shared(
        self, node: Node, index: int, kernel: Kernel | None, reads: set[Value], given: bool
    ) -> frozenset[Value] | None:
        """The owners of the memory of an output; None if it has memory of its own."""
        elsewhere = node.definition.name == "swap_out" and self._kind is DeviceKind.GPU
        if given or elsewhere or node.definition.name == "constant" or node.definition.handle:
            return OURS
        if kernel is None or kernel.fresh or kernel.asynchronous or not node.inputs:
            return None
        if len(node.inputs) == len(node.output_specs):
            return self.owners[node.inputs[index]]
        return frozenset(reads)


class Run:
    """The nodes of a flow, run one after the other.

    Attributes:
        live: the bytes that are taken now.
        peak: the most that were.
        peak_at: the number of the node while that ran.
        left: for each value that takes memory, how many will still read it.
    """

    def __init__(self, liveness: Liveness) -> None:
        self._liveness = liveness
        self._sizes = {value: size for made in liveness.makes for value, size in made}
        self.left: Final = dict(liveness.readers)
        self.live = 0
        self.peak = 0
        self.peak_at = 0

    def growth(self, index: int) -> int:
        """How many bytes more are taken once the node has run."""
        made = sum(size for value, size in self._liveness.makes[index] if self._liveness.readers[value])
        return made - self._freed(index)

    def _freed(self, index: int) -> int:
        return sum(self._sizes[value] for value in self._liveness.reads[index] if self.left[value] == 1)

    def run(self, index: int) -> list[Value]:
        """The node runs. Returns what only one more will read."""
        what = self._liveness
        made = sum(size for _, size in what.makes[index])
        reused = what.reuses[index]
        if reused and not any(self.left[v] == 1 and self._sizes[v] == reused for v in what.reads[index]):
            reused = 0
        most = self.live + made - reused + what.inside[index]
        if most > self.peak:
            self.peak, self.peak_at = most, index
        self.live += self.growth(index)
        for value in what.reads[index]:
            self.left[value] -= 1
        return [value for value in what.reads[index] if self.left[value] == 1]


def peak(flow: Flow, kind: DeviceKind = DeviceKind.CPU, guess: int = GUESS) -> int:
    """The most bytes that values take at a time if the nodes run in the order of the flow."""
    return peak_of(Liveness(flow, kind, guess), range(len(flow.nodes)))


def peak_of_part(flow: Flow, kind: DeviceKind = DeviceKind.CPU) -> int:
    """The most bytes that one device's part of a step takes at a time, whenever the other parts send what it receives.

    Values that nothing delays are taken to be received before anything runs.
    """
    early = {node for node in flow.nodes if node.definition.name == "recv" and not node.controls}
    number = {node: index for index, node in enumerate(flow.nodes)}
    return peak_of(Liveness(flow, kind), [number[node] for node in in_place(flow.nodes, first=early)])


def peak_of(liveness: Liveness, order: Sequence[int]) -> int:
    """The most bytes that values take at a time if the nodes run in this order."""
    run = Run(liveness)
    for index in order:
        run.run(index)
    return run.peak


__all__ = ["OURS", "Liveness", "Run", "bytes_of", "peak", "peak_of", "peak_of_part"]
