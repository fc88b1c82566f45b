"""Flattens the nested arguments and results of branches and loops, and restores them."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.constants import constant
from aioflow.library.control import with_dependencies
from aioflow.library.tensor_array import TensorArray
from aioflow.tensors import nest


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf: its tensors, and a function that makes another such object of other tensors."""

    kind: str
    tensors: list[Tensor]
    make: Callable[[Sequence[Tensor]], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Leaves:
    """A flattened structure."""

    structure: Any
    leaves: list[Leaf]

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in order."""
        return [tensor for leaf in self.leaves for tensor in leaf.tensors]

    def rebuilt(self, tensors: Sequence[Tensor]) -> Any:
        """Return the structure with other tensors."""
        given = iter(tensors)
        made = [leaf.make([next(given) for _ in leaf.tensors]) for leaf in self.leaves]
        return nest.pack_sequence_as(self.structure, made)

    def check_same(self, other: "Leaves", one: str, another: str) -> None:
        """Raise TypeError or ValueError, with names for both, unless structures, kinds and dtypes are equal."""
        try:
            nest.assert_same_structure(self.structure, other.structure)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{one} and {another} differ in structure: {error}") from None
        for index, (mine, theirs) in enumerate(zip(self.leaves, other.leaves, strict=True)):
            if mine.kind != theirs.kind or len(mine.tensors) != len(theirs.tensors):
                raise TypeError(f"value {index} of {one} is {mine.kind}, and of {another} {theirs.kind}")
            for a, b in zip(mine.tensors, theirs.tensors, strict=True):
                if a.dtype is not b.dtype:
                    raise TypeError(
                        f"value {index} of {one} has dtype {a.dtype.name} ({a.name}), and of {another} {b.dtype.name} "
                        f"({b.name}): cast one of them"
                    )


def taken_apart(structure: Any, convert: Callable[[Any], Tensor] = convert_to_tensor) -> Leaves:
    """Return the leaves of a structure. `convert` makes tensors of values other than None and composite tensors."""
    return Leaves(structure, [_leaf(value, convert) for value in nest.flatten(structure)])


def _leaf(value: Any, convert: Callable[[Any], Tensor]) -> Leaf:
    if value is None:
        return Leaf("None", [], lambda tensors: None)
    if isinstance(value, Operation):
        return Leaf("a tensor", [with_dependencies([value], constant(True))], lambda tensors: tensors[0])
    if isinstance(value, TensorArray):
        return Leaf("a TensorArray", [value.flow], lambda tensors: value.with_flow(tensors[0]))
    if isinstance(value, SparseTensor):
        parts = [value.indices, value.values, value.dense_shape]
        return Leaf("a SparseTensor", parts, lambda tensors: SparseTensor(*tensors))
    if isinstance(value, IndexedSlices):
        parts = [value.values, value.indices, *([] if value.dense_shape is None else [value.dense_shape])]
        return Leaf("IndexedSlices", parts, lambda tensors: IndexedSlices(*tensors))
    return Leaf("a tensor", [convert(value)], lambda tensors: tensors[0])
