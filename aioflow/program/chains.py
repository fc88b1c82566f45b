"""Finds the nodes that work block by block as one chain: element-wise ones, broadcasts, and reductions.

All values of a chain belong to one shape. Flattened arrays of that shape can be cut anywhere. If a value has a number
for each row, or one for each column, the arrays are cut between rows: so softmax and layer norm, written as their
formulas, are one chain. A reduction of all elements is known after the last block only, and nothing in the chain reads
it.
"""

from collections.abc import Sequence
from typing import Final

from aioflow.plan.passes.flow import Node, Value
from aioflow.program import blockwise, reductions
from aioflow.program.blockwise import Blockwise, Extent, Layout
from aioflow.program.fuse import Bound, Run, is_surely
from aioflow.program.reductions import sizes_of
from aioflow.tensors.dtypes import TensorShape

_CUT: Final = frozenset([Extent.ELEMENTS, Extent.ROWS])


def begin(b: Bound) -> Run | None:
    """A chain that begins with this node, if one can."""
    node = b.node
    if len(node.output_specs) != 1:
        return None
    reduces = reductions.reduces_rows(node)
    run = BlockRun(node.input_specs[0].shape if reduces else node.output_specs[0].shape)
    return run if run.takes(b) else None


class BlockRun(Run):
    """A chain that works block by block."""

    def __init__(self, shape: TensorShape) -> None:
        super().__init__()
        self._layout: Final = Layout(shape, {})
        self._extents: Final = self._layout.extents
        self._sizes: Final = sizes_of(shape)
        self._totals = False

    def _fits(self, b: Bound) -> bool:
        if len(b.node.output_specs) != 1 or b.takes_context:
            return False
        found = self._element_wise(b) or self._reduced(b.node) or self._spread(b.node)
        if found is None:
            return False
        *inputs, result = found
        if Extent.LATER in inputs:
            return False
        by_rows = self._layout.by_rows or not {Extent.ROWS, Extent.COLUMNS}.isdisjoint(found)
        totals = self._totals or result is Extent.LATER
        if by_rows and (totals or not self._has_rows()):
            return False
        size = self._layout.size
        if size is not None and size < (blockwise.SMALLEST_BY_ROWS if by_rows else blockwise.SMALLEST):
            return False
        extents = dict(zip([*b.inputs, Value(b.node, 0)], found, strict=True))
        if any(self._extents.get(value, extent) is not extent for value, extent in extents.items()):
            return False
        self._layout.by_rows, self._totals = by_rows, totals
        self._extents.update(extents)
        return True

    def function(self, inputs: Sequence[Value], results: Sequence[Value]) -> Blockwise:
        """The function of the chain."""
        return Blockwise(self.members, self._layout, inputs, results)

    def overwrites(self, inputs: Sequence[Value], results: Sequence[Value]) -> frozenset[Value]:
        """The inputs that have the extent of the only result: each block of them is read before it is written.

        There are none if the result is computed in memory for peers.
        """
        if len(results) != 1 or self._extents[results[0]] is not Extent.ELEMENTS:
            return frozenset()
        if any(b.lends for b in self.members):
            return frozenset()
        return frozenset([value for value in inputs if self._extents[value] is Extent.ELEMENTS])

    # The extents of the inputs and of the result of a node; None if it cannot be in the chain

    def _element_wise(self, b: Bound) -> list[Extent] | None:
        node = b.node
        if not node.definition.elementwise or not b.out:
            return None
        kinds = {spec.dtype.np.kind for spec in (*node.input_specs, *node.output_specs)}
        if kinds & set("Oc"):  # NumPy rounds complex products at the end of an array otherwise than in its middle
            return None
        found = [self._extent(value) for value in b.inputs]
        result = self._extent_of(node.output_specs[0].shape)
        if result not in _CUT or _CUT.isdisjoint(found) or None in found:
            return None
        return [extent for extent in (*found, result) if extent is not None]

    def _reduced(self, node: Node) -> list[Extent] | None:
        if not (reductions.reduces_rows(node) or reductions.reduces_all(node)):
            return None
        if self._extent(node.inputs[0]) is not Extent.ELEMENTS:
            return None
        return [Extent.ELEMENTS, Extent.ROWS if reductions.reduces_rows(node) else Extent.LATER]

    def _spread(self, node: Node) -> list[Extent] | None:
        if not reductions.spreads(node) or self._extent_of(node.output_specs[0].shape) is not Extent.ELEMENTS:
            return None
        value = node.inputs[0]
        if value.node in self._nodes and self._extents[value] is Extent.LATER:
            return None
        return [Extent.ROWS if reductions.spreads_rows(node) else Extent.SCALAR, Extent.SCALAR, Extent.ELEMENTS]

    def _extent(self, value: Value) -> Extent | None:
        """That of a value as the operand of an element-wise node."""
        if value.node in self._nodes and self._extents[value] is not Extent.ROWS:
            return self._extents[value]
        return self._extent_of(value.spec.shape)

    def _extent_of(self, shape: TensorShape) -> Extent | None:
        if is_surely(shape, self._layout.shape):
            return Extent.ELEMENTS if shape.ndims else None
        if shape.ndims == 0:
            return Extent.SCALAR
        sizes = sizes_of(shape)
        if not self._sizes or sizes is None:
            return None
        if sizes == [*self._sizes[:-1], 1]:
            return Extent.ROWS
        ones = [1] * (len(sizes) - 1)
        return Extent.COLUMNS if sizes == [*ones, self._sizes[-1]] else None

    def _has_rows(self) -> bool:
        """Whether it can be cut between rows."""
        return self._sizes is not None and len(self._sizes) > 1 and 1 < self._sizes[-1] <= blockwise.BLOCK
