"""Estimates the memory of values, from their shapes, while the nodes of a flow run in order.

A value has memory of its own, or shares that of an input of its node, as a transposed matrix does. It takes memory
until its last reader has run, or to the end if it is fetched. Feeds, values of variables and constants do not count;
neither do values received from another CPU of the task, which are the sender's arrays. Unknown sizes count as one fixed
size.

A list of tensors takes memory in the loop that writes it, for as many elements as the loop has iterations.

Whether a transfer takes memory of its own.
"""

import math
from collections.abc import Sequence
from typing import Final

from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.kernel import Kernel
from aioflow.plan.passes.compress import same_task
from aioflow.plan.passes.flow import Block, Flow, Node, Value, is_back_edge, release
from aioflow.plan.passes.relink import in_place
from aioflow.tensors.dtypes import DeviceKind, ResourceSpec, Spec

OURS: Final[frozenset[Value]] = frozenset()
"""The owners of memory that does not count."""


_WRITES: Final = frozenset({"tensor_array_write", "tensor_array_scatter"})
GUESS: Final = 32
"""The size that an axis is taken to have if its size is open."""


def bytes_of(spec: Spec, guess: int = GUESS) -> int:
    """How large a value is; a handle and a list are nothing."""
    if isinstance(spec, ResourceSpec):
        return 0
    return math.prod(guess if size is None else size for size in spec.sizes or ()) * spec.dtype.size


def is_surely_alike(mine: Spec, wanted: Spec) -> bool:
    """Whether a value with the first Spec can be the buffer of a result with the second one, in every run.

    The shapes are equal, or one object because the rule of an op handed the shape of its input on.
    """
    if mine.dtype is not wanted.dtype or not wanted.rank:
        return False
    return mine.shape is wanted.shape or (mine.shape.is_fully_defined() and mine.shape == wanted.shape)


class Liveness:
    """The memory that each node makes and reads.

    Attributes:
        nodes: the nodes, each by its number.
        makes: for each node, its outputs with memory of their own, with their sizes.
        reads: for each node, the values whose memory it reads.
        readers: for each value with memory, the number of nodes that read it; one more if it is fetched.
        inside: for each node, the memory of its branches or iterations while it runs.
        reuses: for each node, the inputs one of which its result may overwrite, if that has no other reader.
    """

    def __init__(self, flow: Flow, kind: DeviceKind = DeviceKind.CPU, guess: int = GUESS) -> None:
        self._kind, self._guess = kind, guess
        self.nodes: Final = flow.nodes
        self.makes: Final[list[list[tuple[Value, int]]]] = []
        self.reads: Final[list[list[Value]]] = []
        self.readers: Final[dict[Value, int]] = {}
        self._kept: set[Value] = set()
        """Values that no node may overwrite, because others may be views of them."""
        self._sizes: dict[Value, int] = {}
        self.inside: Final[list[int]] = []
        self.reuses: Final[list[list[Value]]] = []
        self.owners: Final[dict[Value, frozenset[Value]]] = {}
        given = set(flow.feeds)
        for node in flow.nodes:
            self._add(node, node in given)
        for owner in {owner for value in flow.fetches for owner in self.owners[value]}:
            self.readers[owner] += 1

    def release(self) -> None:
        """Free it piece by piece. It is not used any more."""
        for table in (self.makes, self.reads, self.readers, self.reuses, self.owners, self._sizes):
            release(table)

    def _add(self, node: Node, given: bool) -> None:
        kernel = None if node.blocks else node.definition.kernel_for(self._kind, node.input_specs)
        reads = {o for value in node.inputs if not is_back_edge(value.node, node) for o in self.owners[value]}
        self.reads.append(list(reads))
        for owner in reads:
            self.readers[owner] += 1
        made = []
        for index, spec in enumerate(node.planned_specs):
            value = Value(node, index)
            shared = self._shared(node, index, kernel, reads, given)
            self._kept |= shared or OURS
            if kernel is None or not kernel.fresh or len(node.output_specs) > 1:
                self._kept.add(value)
            self.owners[value] = frozenset((value,)) if shared is None else shared
            if shared is None:
                self.readers[value] = 0
                made.append((value, 0 if shares_memory(node) else bytes_of(spec, self._guess)))
        self.makes.append(made)
        self.inside.append(self._inside(node, made))
        self._sizes.update(made)
        self.reuses.append(self._reusable(node, kernel) if len(made) == 1 else [])

    def _reusable(self, node: Node, kernel: Kernel | None) -> list[Value]:
        if kernel is None or not kernel.out or not node.definition.elementwise:  # others need memory meanwhile
            return []
        wanted = node.output_specs[0]
        return [v for v in node.inputs if v in self.readers and is_surely_alike(v.spec, wanted)]

    def size(self, value: Value) -> int:
        """Return the bytes of a value with memory of its own."""
        return self._sizes[value]

    def can_reuse(self, value: Value) -> bool:
        """Whether a node may overwrite the value after its last use: nothing may be a view of it."""
        return value not in self._kept

    def _inside(self, node: Node, made: list[tuple[Value, int]]) -> int:
        """The bytes of a node's branches or of one iteration, without outputs. Adds the bytes of lists to `made`."""
        inner = [Liveness(block.flow, self._kind, self._guess) for block in node.blocks]
        most = max([peak_of(each, range(len(each.nodes))) for each in inner], default=0)
        if node.definition.name == "cond":
            return max(0, most - sum(size for _, size in made))
        if node.definition.name != "while_loop":
            return most
        rounds = _iterations(node, self._guess)
        place = {value.index: place for place, (value, _) in enumerate(made)}
        for kept, output in _kept(node, inner[-1]).items():
            size = bytes_of(kept.planned_spec, self._guess)
            if output in place:
                value, before = made[place[output]]
                made[place[output]] = value, before + rounds * size
                most -= size
        return max(0, most)

    def _shared(
        self, node: Node, index: int, kernel: Kernel | None, reads: set[Value], given: bool
    ) -> frozenset[Value] | None:
        """Return the owners of the memory of an output; None if it has memory of its own."""
        elsewhere = node.definition.name in ("swap_out", "swap_free") and self._kind is DeviceKind.GPU
        if given or elsewhere or node.definition.name == "constant" or node.definition.handle:
            return OURS
        carried = _handed_on(node, index)
        if carried is not None:
            return self.owners[carried]
        if kernel is None or kernel.fresh or kernel.asynchronous or not node.inputs:
            return None
        if len(node.inputs) == len(node.output_specs) and node.inputs[index] in self.owners:
            return self.owners[node.inputs[index]]
        return frozenset(reads)


def _handed_on(node: Node, index: int) -> Value | None:
    """Return the input that a loop passes on unchanged as the output `index`; None if it changes."""
    if node.definition.name != "while_loop":
        return None
    step = node.blocks[-1]
    if index >= len(step.flow.fetches):
        return None
    place = {argument: place for place, argument in step.arguments.items()}.get(step.flow.fetches[index].node)
    return node.inputs[place] if place == index else None


def _kept(loop: Node, step: Liveness) -> dict[Value, int]:
    """The values of one iteration that lists keep, each with the number of the output that is the list.

    A loop writes a list itself, or records values for the gradient. A value in several lists counts in the last one, a
    list of recorded values, because it is needed longest.
    """
    block, variables = loop.blocks[-1], loop.attrs["variables"]
    place = {argument: place for place, argument in block.arguments.items()}
    kept: dict[Value, int] = {}
    for number, value in enumerate(block.flow.fetches):
        if number < variables:
            written = value.node.inputs[1:] if value.node.definition.name in _WRITES else ()
            kept |= {owner: number for each in written for owner in step.owners[each]}
        elif (carried := place.get(value.node)) is None:
            kept |= dict.fromkeys(step.owners[value], number + 1)
        elif carried < variables:
            kept |= dict.fromkeys(step.owners[block.flow.fetches[carried]], number + 1)
    return kept


def _iterations(loop: Node, guess: int) -> int:
    """The iterations of a loop that counts up to a known number; for other loops, the guess.

    The backward loop of a gradient replays the records of the forward loop, and has as many.
    """
    if loop.attrs["replays"]:
        forward = loop.inputs[int(loop.attrs["limited"]) + loop.attrs["variables"]].node
        return _iterations(forward, guess) if forward.definition.name == "while_loop" else guess
    if len(loop.blocks) < 2:
        return guess
    asks, step = loop.blocks
    less = asks.flow.fetches[0].node
    if less.definition.name != "less":
        return guess
    place = {argument: place for place, argument in asks.arguments.items()}.get(less.inputs[0].node)
    if place is None or place >= len(step.flow.fetches):
        return guess
    add = step.flow.fetches[place].node
    by = _number(add.inputs[1]) if add.definition.name == "add" else None
    first, most = _number(loop.inputs[place]), _number(_from_outside(loop, asks, less.inputs[1]))
    if first is None or most is None or by is None or by <= 0:
        return guess
    return max(0, math.ceil((most - first) / by))


def _from_outside(loop: Node, block: Block, value: Value) -> Value:
    """The input of the loop that the value of a block is, or the value itself."""
    place = {argument: place for place, argument in block.arguments.items()}.get(value.node)
    return value if place is None else loop.inputs[place]


def _number(value: Value) -> int | None:
    """The number that a value is known to be in each run, or in the run with the fed shapes."""
    known = value.planned_spec.known
    return known if isinstance(known, int) else None


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
        self.left: Final = dict(liveness.readers)
        self.live: int = 0
        self.peak: int = 0
        self.peak_at: int = 0

    def growth(self, index: int) -> int:
        """How many bytes more are taken once the node has run."""
        made = sum(size for value, size in self._liveness.makes[index] if self._liveness.readers[value])
        return made - self._freed(index)

    def _freed(self, index: int) -> int:
        return sum(self._liveness.size(value) for value in self._liveness.reads[index] if self.left[value] == 1)

    def run(self, index: int) -> list[Value]:
        """Run the node. Returns the values that have one reader left."""
        what = self._liveness
        made = sum(size for _, size in what.makes[index])
        reused = next((what.size(v) for v in what.reuses[index] if self.left[v] == 1 and what.can_reuse(v)), 0)
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
    """The peak bytes of one device's part of a step, for any behaviour of the other parts.

    Receives without control inputs count as done before all other nodes. Sent values count to the end, because the
    other part decides when it reads them.
    """
    early = {node for node in flow.nodes if node.definition.name == "recv" and not node.controls}
    number = {node: index for index, node in enumerate(flow.nodes)}
    order = [number[node] for node in in_place(flow.nodes, first=early)]
    liveness = Liveness(flow, kind)
    for node in flow.nodes:
        if node.definition.name == "send":
            for owner in liveness.owners[node.inputs[0]]:
                liveness.readers[owner] += 1
    return constant_bytes(flow) + peak_of(liveness, order)


def constant_bytes(flow: Flow) -> int:
    """The bytes of the constants of a flow, each array once. Constants stay in memory between steps."""
    arrays = [
        node.attrs["value"] for top in flow.nodes for node in top.everything() if node.definition.name == "constant"
    ]
    return sum({id(array): array.nbytes for array in arrays}.values())


def peak_of(liveness: Liveness, order: Sequence[int]) -> int:
    """The most bytes that values take at a time if the nodes run in this order."""
    run = Run(liveness)
    for index in order:
        run.run(index)
    return run.peak


def shares_memory(node: Node) -> bool:
    """Whether it is a `recv` whose result is the sender's own array: from CPU to CPU of one task nothing is copied."""
    if node.definition.name != "recv":
        return False
    source, target = node.attrs["source"], node.attrs["target"]
    kinds = {DeviceSpec.from_string(each).device_type for each in (source, target)}
    return kinds == {DeviceKind.CPU} and same_task(source, target)
