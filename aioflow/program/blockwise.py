"""Runs a chain of nodes block by block, so that the values between them stay in the cache.

Over large arrays the chain works through blocks, with a few small buffers for the values between, and distributes the
blocks over the device's cores. A block is a range of the flattened elements, or of rows. Over small arrays it calls the
kernels one after the other. The results are equal.
"""

import dataclasses
import enum
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from aioflow.kernels.context import Context, Stop
from aioflow.plan.passes.flow import Value
from aioflow.program import reductions
from aioflow.program.fuse import Bound, Failed
from aioflow.program.reductions import Total, halves, sizes_of
from aioflow.resources.buffers import BUFFERS
from aioflow.resources.lendable import LENDABLE
from aioflow.tensors.dtypes import Array, TensorShape

BLOCK: Final = 1 << 17
"""Elements worked on at a time: a few buffers of them fit the cache of one core."""
SMALLEST: Final = 2 * BLOCK
"""Elements from which on blocks pay."""
SMALLEST_BY_ROWS: Final = 8 * BLOCK
"""The same for arrays that are cut between rows: fewer elements fit the cache that all cores share."""


Order = Literal["C", "F"]
Form = tuple[np.dtype[Any], tuple[int, ...]]
"""The dtype of a buffer, and the sizes after the axis that is cut."""


class Extent(enum.Enum):
    """How a value lies along the shape of a chain."""

    ELEMENTS = "it has the shape"
    ROWS = "it has one number for each row"
    COLUMNS = "it has one number for each column"
    SCALAR = "it is not cut"
    LATER = "it is known after the last block"


@dataclasses.dataclass
class Layout:
    """How the arrays of a chain are cut.

    Attributes:
        shape: the shape of the chain.
        extents: those of its inputs and of the results of its nodes.
        by_rows: whether the arrays are cut between rows, and not between any elements.
    """

    shape: TensorShape
    extents: dict[Value, Extent]
    by_rows: bool = False

    @property
    def size(self) -> int | None:
        """The number of elements of the shape, if it is known."""
        sizes = sizes_of(self.shape)
        return None if sizes is None else math.prod(sizes)

    @property
    def width(self) -> int:
        """The number of elements that are never cut apart."""
        return (sizes_of(self.shape) or [1])[-1] if self.by_rows else 1

    def tail(self, value: Value) -> tuple[int, ...] | None:
        """The sizes of an array after the axis that is cut; None if the array is not cut."""
        whole = (self.width,) if self.by_rows else ()
        return {Extent.ELEMENTS: whole, Extent.ROWS: (1,)}.get(self.extents[value])


class Step(NamedTuple):
    """One node of a chain. Values are numbered: inputs first, then the results of the nodes.

    Attributes:
        call: from whole arrays to the result.
        in_block: the same for a block of each array, with `out=`; None for a reduction of all elements.
        reads: the numbers of its inputs.
        target: the number of its result.
    """

    call: Callable[..., Any]
    in_block: Callable[..., Any] | None
    reads: list[int]
    target: int


class Blockwise:
    """The function of a chain: from the Context and the inputs to the results."""

    def __init__(
        self, members: Sequence[Bound], layout: Layout, inputs: Sequence[Value], results: Sequence[Value]
    ) -> None:
        made = [Value(b.node, 0) for b in members]
        number = {value: index for index, value in enumerate([*inputs, *made])}
        self._steps: Final = [_step(b, number) for b in members]
        self._nodes: Final = {number[Value(b.node, 0)]: b.node for b in members}
        self._totals: Final = {number[value]: Total(value.node) for value in made if reductions.reduces_all(value.node)}
        self._results: Final = [number[value] for value in results]
        self._lent: Final = {number[Value(b.node, 0)] for b in members if b.lends}
        self._shapes: Final = {number[value]: sizes_of(value.spec.shape) for value in made}
        self._dtypes: Final = {number[value]: value.spec.dtype.np for value in made}
        self._size: Final = layout.size
        self._width: Final = layout.width
        tails = {number[value]: layout.tail(value) for value in number}
        self._tails: Final = {index: tail for index, tail in tails.items() if tail is not None}
        extents = [layout.extents[value] for value in inputs]
        self._cut: Final = [index for index in range(len(inputs)) if index in self._tails]
        self._whole: Final = [index for index in self._cut if extents[index] is Extent.ELEMENTS]
        self._columns: Final = [index for index in range(len(inputs)) if extents[index] is Extent.COLUMNS]
        self._any_order: Final = all(b.node.definition.elementwise for b in members) and not layout.by_rows
        self._buffers, self._forms = self._share_buffers()

    def _share_buffers(self) -> tuple[dict[int, int], list[Form]]:
        """The buffer of each value in between, one that is free by then and has its form; and the forms of buffers."""
        last = {index: place for place, step in enumerate(self._steps) for index in step.reads}
        buffers: dict[int, int] = {}
        free: list[int] = []
        forms: list[Form] = []
        for place, (_, _, reads, target) in enumerate(self._steps):
            free += [buffers[index] for index in dict.fromkeys(reads) if index in buffers and last[index] == place]
            if target in self._results or target in self._totals:
                continue
            form = self._dtypes[target], self._tails[target]
            found = next((buffer for buffer in free if forms[buffer] == form), None)
            if found is None:
                found = len(forms)
                forms.append(form)
            else:
                free.remove(found)
            buffers[target] = found
        return buffers, forms

    def __call__(self, ctx: Context, *arrays: Array, out: Array | None = None) -> Any:
        """One array for one result, a list for several. `out` is one of the arrays, where blocks may be written."""
        size = arrays[self._whole[0]].size if self._size is None else self._size
        order = self._order(arrays) if size >= SMALLEST else None
        found = self._one_by_one(ctx.stop, arrays) if order is None else self._by_blocks(ctx, arrays, size, order, out)
        return found[0] if len(found) == 1 else found

    def failed(self, error: BaseException, arrays: Sequence[Array]) -> Failed | None:
        """The node whose kernel raised an error of a call with these arrays, and its inputs, of no values in between.

        None if no kernel did.
        """
        for frame, _ in traceback.walk_tb(error.__traceback__):
            step = frame.f_locals.get("step") if frame.f_code in _WORK else None
            if step is not None:
                return self._nodes[step.target], [self._whole_array(index, arrays) for index in step.reads]
        return None

    def _whole_array(self, index: int, arrays: Sequence[Array]) -> Array:
        """That input, or an array with the shape of that result."""
        if index < len(arrays):
            return arrays[index]
        shape = self._shapes[index]
        return np.broadcast_to(self._dtypes[index].type(), arrays[self._whole[0]].shape if shape is None else shape)

    def _order(self, arrays: Sequence[Array]) -> Order | None:
        """The order of all arrays in memory, in which they can be cut.

        In other orders blocks would give results another order in memory, and with it other sums of them.
        """
        flags = [arrays[index].flags for index in self._cut]
        if all(each.c_contiguous for each in flags):
            return "C"
        return "F" if self._any_order and all(each.f_contiguous for each in flags) else None

    def _one_by_one(self, stop: Stop, arrays: Sequence[Array]) -> list[Array]:
        values = list(arrays)
        for step in self._steps:
            if stop.asked:
                stop.check()
            values.append(step.call(*[values[index] for index in step.reads]))
        return [values[index] for index in self._results]

    def _by_blocks(
        self, ctx: Context, arrays: Sequence[Array], size: int, order: Order, out: Array | None
    ) -> list[Array]:
        count = size // self._width
        cut = list(arrays)
        for index in self._cut:
            cut[index] = arrays[index].reshape(count, *self._tails[index], order=order)
        for index in self._columns:
            cut[index] = arrays[index].reshape(-1)
        results = {index: self._room(index, count, order, out) for index in self._results if index not in self._totals}
        totals = self._work_through(ctx, cut, results, count)
        open_shape = arrays[self._whole[0]].shape if self._whole else ()
        for index, result in results.items():
            shape = self._shapes[index]
            results[index] = result.reshape(open_shape if shape is None else shape, order=order)
            if index in self._lent:
                results[index].flags.writeable = False
        return [(totals if index in totals else results)[index] for index in self._results]

    def _room(self, index: int, count: int, order: Order, out: Array | None) -> Array:
        """An array for a result, in the form in which it is cut."""
        form = (count, *self._tails[index])
        if out is not None:
            return out.reshape(form, order=order)
        return (LENDABLE if index in self._lent else BUFFERS).empty(form, self._dtypes[index])

    def _work_through(
        self, ctx: Context, cut: Sequence[Array], results: Mapping[int, Array], count: int
    ) -> dict[int, Any]:
        """Compute the results, and return the reductions of all elements."""
        ranges = halves(count, BLOCK) if self._totals else _ranges(count, max(1, BLOCK // self._width))
        partial = {index: total.partial(len(ranges)) for index, total in self._totals.items()}
        ctx.device.share_out(
            lambda begin, end: self._work(ctx.stop, cut, results, ranges[begin:end], partial, begin), len(ranges)
        )
        return {index: total.result(partial[index], count, BLOCK) for index, total in self._totals.items()}

    def _work(
        self, stop: Stop, cut: Sequence[Array], results: Mapping[int, Array], ranges: Sequence[tuple[int, int]],
        partial: Mapping[int, Array], place: int,
    ) -> None:  # fmt: skip
        """Compute these ranges of elements or rows. If the run ends meanwhile, no further range begins.

        Args:
            stop: says that the run ends.
            cut: the inputs, in the form in which they are cut.
            results: the results, in that form.
            ranges: the ranges.
            partial: the numbers to which the reductions of all elements reduce ranges.
            place: the number of the first range.
        """
        longest = max([after - start for start, after in ranges], default=0)
        buffers = [BUFFERS.empty((longest, *tail), dtype) for dtype, tail in self._forms]
        for start, after in ranges:
            stop.check()
            values = list(cut)
            for index in self._cut:
                values[index] = cut[index][start:after]
            for step in self._steps:
                _, in_block, reads, target = step
                if in_block is None:
                    self._totals[target].block(values[reads[0]], partial[target], place)
                    values.append(cut[0])  # is not read
                    continue
                out = (
                    results[target][start:after]
                    if target in results
                    else buffers[self._buffers[target]][: after - start]
                )
                values.append(in_block(*[values[index] for index in reads], out=out))
            place += 1


_WORK: Final = frozenset([Blockwise._one_by_one.__code__, Blockwise._work.__code__])
"""The code whose local variable `step` is the node that is computed now."""


def _step(b: Bound, number: Mapping[Value, int]) -> Step:
    reads, target = [number[value] for value in b.inputs], number[Value(b.node, 0)]
    if b.node.definition.elementwise:
        return Step(b.call, b.call, reads, target)
    if reductions.reduces_all(b.node):
        return Step(b.call, None, reads, target)
    return Step(
        b.call, (reductions.by_rows if reductions.reduces_rows(b.node) else reductions.spread)(b.node), reads, target
    )


def _ranges(size: int, most: int) -> list[tuple[int, int]]:
    """Ranges of about one length, at most `most`, that cover range(size)."""
    count = -(-size // most)
    return [(size * part // count, size * (part + 1) // count) for part in range(count)]
