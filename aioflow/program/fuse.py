"""Fuses chains of element-wise kernels over large arrays, block by block, so that values between stay in the cache.

In a chain of nodes every element of a result depends only on the elements at its position. Over large arrays the chain
works through blocks of the flattened arrays, with a few small buffers for the values between, and distributes the
blocks over the device's cores. Over small arrays it calls the kernels one after the other. The results are equal.

Reductions of values of a chain are in the chain, too: see `reductions`.

Runs of element-wise kernels as one kernel of a GPU: see `devices.gpu`.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from aioflow.devices.gpu import ChainLink, fusible, make_chain_kernel
from aioflow.graph.kernel import Kernel
from aioflow.kernels.context import Context, Stop
from aioflow.plan.passes.flow import Node, Value
from aioflow.program.reductions import Reduction, halves, is_possible
from aioflow.tensors.dtypes import Array, Namespace, TensorShape

BLOCK: Final = 1 << 17
"""Elements worked on at a time: a few buffers of them fit the cache of one core."""
SMALLEST: Final = 2 * BLOCK
"""Elements from which on blocks pay."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A node with the kernel chosen for it.

    Attributes:
        node: the node.
        kernel: its kernel.
        call: the kernel as a function of the inputs, after the Context if `takes_context`.
        expression: the Python expression that computes the node from NumPy scalars, if it has one; see `scalars`.
    """

    node: Node
    kernel: Kernel
    call: Callable[..., Any]
    expression: str | None = None

    @property
    def nodes(self) -> Sequence[Node]:
        """The node alone."""
        return (self.node,)

    @property
    def inputs(self) -> Sequence[Value]:
        """What it reads."""
        return self.node.inputs

    @property
    def results(self) -> Sequence[Value]:
        """What it makes."""
        return [Value(self.node, index) for index in range(len(self.node.output_specs))]

    @property
    def takes_context(self) -> bool:
        """Whether `call` takes the Context first."""
        return self.kernel.context

    @property
    def fresh(self) -> bool:
        """Whether its results share no memory with its inputs."""
        return self.kernel.fresh

    @property
    def out(self) -> bool:
        """Whether it can write into a given array."""
        return self.kernel.out and len(self.node.output_specs) == 1


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """Several element-wise nodes as one statement: `call` takes the Context and the inputs, and returns the results."""

    members: tuple[Bound, ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]
    call: Callable[..., Any]
    takes_context = True
    fresh = True
    out = False

    @property
    def nodes(self) -> Sequence[Node]:
        """Its nodes."""
        return [member.node for member in self.members]

    @property
    def node(self) -> Node:
        """The node that stands for all of them in errors."""
        return self.members[-1].node


Statement = Bound | Chain


def fuse(
    bound: Sequence[Any],
    wanted: Iterable[Value],
    joins: Callable[[Bound, TensorShape | None], bool] | None = None,
    ends: Callable[[Bound, Sequence[Bound]], bool] | None = None,
    compiled: Callable[[Sequence[Bound], Sequence[Value], Sequence[Value]], Callable[..., Any]] | None = None,
) -> list[Any]:
    """Return the statements with chains of at least two element-wise nodes over one shape fused.

    A node that computes nothing, such as a read of a variable, and needs no value of the chain is moved before it.

    Args:
        bound: nodes, or branches and loops, sources first.
        wanted: the values needed after them.
        joins: whether a node can be in a chain over a shape; by default, in one that works block by block.
        ends: whether a node reduces a value of a chain inside of it; by default, of one that works block by block.
        compiled: (nodes, inputs, needed results) -> the function of a chain.
    """
    joins, ends, compiled = joins or _joins, ends or _ends, compiled or _Blocks
    last_reader = _last_readers(bound, wanted)
    statements: list[Statement] = []
    run: list[Bound] = []
    for position, b in enumerate(bound):
        if run and not (isinstance(b, Bound) and joins(b, run[0].node.output_specs[0].shape) and _is_apart(b, run)):
            if _goes_before(b, run):
                statements.append(b)
                continue
            if isinstance(b, Bound) and ends(b, run):
                run.append(b)
                continue
            statements += _closed(run, position, last_reader, compiled)
            run = []
        if isinstance(b, Bound) and joins(b, b.node.output_specs[0].shape if b.node.output_specs else None):
            run.append(b)
        else:
            statements.append(b)
    return statements + _closed(run, len(bound), last_reader, compiled)


def _goes_before(b: Any, run: Sequence[Bound]) -> bool:
    """Whether a statement only hands on something that is there before the run."""
    if not isinstance(b, Bound) or b.fresh:
        return False
    inside = {each.node for each in run}
    return inside.isdisjoint([*[value.node for value in b.inputs], *b.node.controls])


def _is_apart(b: Bound, run: Sequence[Bound]) -> bool:
    """Whether it reads no reduction of the run: that is known only after the last block."""
    reduced = {each.node for each in run if not each.node.definition.elementwise}
    return not reduced or reduced.isdisjoint([value.node for value in b.inputs])


def _ends(b: Bound, run: Sequence[Bound]) -> bool:
    """Whether it reduces a value of the run as the other reductions of the run do: all elements, or rows."""
    if not is_possible(b.node, BLOCK) or b.takes_context or not _is_apart(b, run):
        return False
    others = [each.node for each in run if not each.node.definition.elementwise]
    shape = run[0].node.output_specs[0].shape
    width = Reduction(b.node).width
    return _same(b.node.input_specs[0].shape, shape) and all(Reduction(other).width == width for other in others)


def _last_readers(bound: Sequence[Bound], wanted: Iterable[Value]) -> dict[Value, int]:
    """Return for each value the position of its last reader; beyond the end for a needed value."""
    last = {value: position for position, b in enumerate(bound) for value in b.inputs}
    last.update(dict.fromkeys(wanted, len(bound)))
    return last


def _joins(b: Bound, shape: TensorShape | None) -> bool:
    """Whether it is element-wise over arrays that surely have this shape, but for inputs of rank 0."""
    node = b.node
    if not node.definition.elementwise or not b.out or b.takes_context:
        return False
    kinds = {spec.dtype.np.kind for spec in (*node.input_specs, *node.output_specs)}
    # NumPy rounds complex products at the end of an array otherwise than in its middle
    return not kinds & set("Oc") and over_shape(b, shape)


def over_shape(b: Bound, shape: TensorShape | None) -> bool:
    """Whether its arrays surely have this shape, but for inputs of rank 0."""
    node = b.node
    if not shape or not shape.ndims or not _same(node.output_specs[0].shape, shape):
        return False
    inputs = [spec.shape for spec in node.input_specs]
    return any(_same(each, shape) for each in inputs) and all(each.ndims == 0 or _same(each, shape) for each in inputs)


def _same(a: TensorShape, b: TensorShape) -> bool:
    return a is b or (a.is_fully_defined() and a == b)


def _closed(run: list[Bound], end: int, last_reader: dict[Value, int], compiled: Callable[..., Any]) -> list[Statement]:
    """The run as a chain, if it is long enough."""
    if len(run) < 2:
        return list(run)
    made = [Value(b.node, 0) for b in run]
    inside = set(made)
    inputs = tuple(dict.fromkeys(value for b in run for value in b.inputs if value not in inside))
    results = tuple([value for value in made if last_reader.get(value, -1) >= end])
    return [Chain(tuple(run), inputs, results, compiled(run, inputs, results))]


class _Blocks:
    """The function of a chain. Values are numbered: inputs first, then the results of the nodes."""

    def __init__(self, run: Sequence[Bound], inputs: Sequence[Value], results: Sequence[Value]) -> None:
        number = {value: index for index, value in enumerate(inputs)}
        self._steps: list[tuple[Callable[..., Any], list[int], int]] = []
        self._reductions: dict[int, Reduction] = {}
        for b in run:
            target = number[Value(b.node, 0)] = len(number)
            self._steps.append((b.call, [number[value] for value in b.inputs], target))
            if not b.node.definition.elementwise:
                self._reductions[target] = Reduction(b.node)
        self._whole = [index for index, value in enumerate(inputs) if value.spec.rank]
        self._results = [number[value] for value in results]
        self._dtypes = {number[Value(b.node, 0)]: b.node.output_specs[0].dtype.np for b in run}
        self._buffers = self._share_buffers()

    def _share_buffers(self) -> dict[int, int]:
        """Which buffer each value in between lives in: one that is free by then and has its dtype."""
        last = {index: place for place, (_, reads, _) in enumerate(self._steps) for index in reads}
        buffers: dict[int, int] = {}
        free: list[int] = []
        kinds: list[np.dtype[Any]] = []
        for place, (_, reads, target) in enumerate(self._steps):
            free += [buffers[index] for index in dict.fromkeys(reads) if index in buffers and last[index] == place]
            if target in self._results or target in self._reductions:
                continue
            found = next((buffer for buffer in free if kinds[buffer] == self._dtypes[target]), None)
            if found is None:
                found = len(kinds)
                kinds.append(self._dtypes[target])
            else:
                free.remove(found)
            buffers[target] = found
        self._kinds = kinds
        return buffers

    def __call__(self, ctx: Context, *arrays: Array) -> Any:
        size, flags = arrays[self._whole[0]].size, [arrays[index].flags for index in self._whole]
        if size < SMALLEST:
            found = self._one_by_one(ctx.stop, arrays)
        elif all(each.c_contiguous for each in flags):
            found = self._by_blocks(ctx, arrays, size)
        elif all(each.f_contiguous for each in flags) and not self._reductions:
            found = [result.T for result in self._by_blocks(ctx, [array.T for array in arrays], size)]
        else:  # blocks would give results another order in memory, and with it other sums of them
            found = self._one_by_one(ctx.stop, arrays)
        return found[0] if len(found) == 1 else found

    def _one_by_one(self, stop: Stop, arrays: Sequence[Array]) -> list[Array]:
        values = list(arrays)
        for call, reads, _ in self._steps:
            if stop.asked:
                stop.check()
            values.append(call(*[values[index] for index in reads]))
        return [values[index] for index in self._results]

    def _by_blocks(self, ctx: Context, arrays: Sequence[Array], size: int) -> list[Array]:
        shape = arrays[self._whole[0]].shape
        flat = list(arrays)
        for index in self._whole:
            flat[index] = arrays[index].reshape(-1)
        results = {
            index: np.empty(size, self._dtypes[index]) for index in self._results if index not in self._reductions
        }
        partial = self._reduced_by_blocks(ctx, flat, results, size) if self._reductions else {}
        if not partial:
            ctx.device.share_out(
                lambda begin, end: self._work(ctx.stop, flat, results, _ranges(begin, end, BLOCK)), size
            )
        return [partial[index] if index in partial else results[index].reshape(shape) for index in self._results]

    def _reduced_by_blocks(
        self, ctx: Context, flat: Sequence[Array], results: dict[int, Array], size: int
    ) -> dict[int, Any]:
        """Compute the elements, and return the reductions."""
        width = next(iter(self._reductions.values())).width
        halved = halves(size, BLOCK) if width is None else []
        count = len(halved) if width is None else size // width
        partial = {index: reduction.partial(count) for index, reduction in self._reductions.items()}

        def work(begin: int, end: int) -> None:
            if width is None:
                self._work(ctx.stop, flat, results, halved[begin:end], partial, begin)
            else:
                rows = _ranges(begin * width, end * width, max(1, BLOCK // width) * width)
                self._work(ctx.stop, flat, results, rows, partial)

        ctx.device.share_out(work, count)
        return {index: each.result(partial[index], size, BLOCK) for index, each in self._reductions.items()}

    def _work(
        self, stop: Stop, flat: Sequence[Array], results: dict[int, Array], ranges: Sequence[tuple[int, int]],
        partial: Mapping[int, Array] = MappingProxyType({}), place: int = 0,
    ) -> None:  # fmt: skip
        """Compute the elements in these ranges. If the run ends meanwhile, no further range begins.

        Args:
            stop: says that the run ends.
            flat: the inputs, flattened.
            results: the results, flattened.
            ranges: the ranges of elements.
            partial: the numbers to which the reductions reduce ranges, or the rows in them.
            place: the number of the first range.
        """
        longest = max([after - start for start, after in ranges], default=0)
        buffers = [np.empty(longest, kind) for kind in self._kinds]
        for start, after in ranges:
            stop.check()
            values = list(flat)
            for index in self._whole:
                values[index] = flat[index][start:after]
            for call, reads, target in self._steps:
                if target in self._reductions:
                    self._reductions[target].block(values[reads[0]], partial[target], place, start)
                    values.append(flat[0])  # is not read
                    continue
                out = (
                    results[target][start:after]
                    if target in results
                    else buffers[self._buffers[target]][: after - start]
                )
                values.append(call(*[values[index] for index in reads], out=out))
            place += 1


def _ranges(begin: int, end: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, end)) for start in range(begin, end, step)]


def fuse_on_gpu(bound: Sequence[Any], wanted: Iterable[Value], xp: Namespace) -> list[Any]:
    """Return the statements with chains of at least two element-wise nodes over one shape as one kernel.

    Args:
        bound: nodes, sources first.
        wanted: the values needed after them.
        xp: CuPy, or its substitute.
    """
    return fuse(bound, wanted, _joins_on_gpu, lambda b, run: False, functools.partial(_compiled, xp))


def _joins_on_gpu(b: Bound, shape: TensorShape | None) -> bool:
    node = b.node
    dtypes = [spec.dtype for spec in (*node.input_specs, *node.output_specs)]
    return not node.at_home and fusible(node.definition.name, dtypes) and over_shape(b, shape)


def _compiled(
    xp: Namespace, run: Sequence[Bound], inputs: Sequence[Value], results: Sequence[Value]
) -> Callable[..., Any]:
    numbers = {value: number for number, value in enumerate([*inputs, *[Value(b.node, 0) for b in run]])}
    links = [ChainLink(b.node.definition.name, [numbers[value] for value in b.inputs]) for b in run]
    kernel = make_chain_kernel(xp, links, len(inputs), [numbers[value] for value in results])

    def call(ctx: Context, *arrays: Array) -> Any:
        return kernel(*arrays)

    return call
