"""Variables in parts along one axis, which may lie on several tasks: `get_variable(partitioner=)`."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import graph_to_build_in
from aioflow.graph.convert import CONVERTERS, TensorLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import Operand
from aioflow.kernels.array.concat import concat
from aioflow.library import initializers
from aioflow.library.control import group
from aioflow.library.variables import PartOf, Variable
from aioflow.tensors.dtypes import DType, ShapeLike, TensorShape, as_shape
from aioflow.tensors.recursion import safe_repr


class PartitionedVariable(Operand):
    """A variable in parts along one axis, used like a tensor: the parts put together.

    `get_variable(partitioner=)` makes it. Its parts are variables of their own, named `name/part_0` and so on, which
    optimizers change and collections hold. A Saver stores them as one tensor, so that another number of parts may be
    restored.

    Args:
        name: its name.
        shape: the shape of the whole.
        dtype: the dtype.
        variable_list: its parts, in their order.
        partitions: into how many parts each axis is cut.
    """

    def __init__(
        self, name: str, shape: ShapeLike, dtype: DType, variable_list: Sequence[Variable], partitions: Sequence[int]
    ) -> None:
        self.name: Final = name
        self.shape: Final = as_shape(shape)
        self.dtype: Final = dtype
        self._parts: Final = tuple(variable_list)
        self.partitions: Final = list(partitions)

    @property
    def axis(self) -> int:
        """The axis that is cut."""
        return next((axis for axis, count in enumerate(self.partitions) if count > 1), 0)

    @property
    def graph(self) -> Any:
        """The graph it belongs to."""
        return self._parts[0].graph

    @property
    def initializer(self) -> Operation:
        """An operation that gives all parts their initial values."""
        return group(*[part.initializer for part in self._parts])

    def get_shape(self) -> TensorShape:
        """Return the shape of the whole."""
        return self.shape

    def as_tensor(self) -> Tensor:
        """Return the value of the whole."""
        with graph_to_build_in(self.graph).as_default():
            values = [part.value() for part in self._parts]
            return values[0] if len(values) == 1 else concat(values, self.axis, name=f"{self.name.rpartition('/')[2]}")

    def assign(self, value: TensorLike, use_locking: bool = False, name: str | None = None) -> list[Tensor]:
        """Assign the value of the whole. Returns the new values of the parts."""
        with graph_to_build_in(self.graph).as_default():
            given = convert_to_tensor(value, self.dtype)
            given.shape.merge_with(self.shape)
            return [part.assign(given[_index(part)], name=name) for part in self._parts]

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def _as_graph_element(self) -> Tensor:
        return self.as_tensor()

    def __repr__(self) -> str:
        return f"<af.PartitionedVariable {self.name!r} {self.dtype.name}{self.shape} in {len(self)} parts>"


CONVERTERS[PartitionedVariable] = lambda variable, dtype: variable.as_tensor()


def _index(part: Variable) -> tuple[slice, ...]:
    """Return where a part is in the whole."""
    assert part.part_of is not None
    return tuple([slice(b, b + n) for b, n in zip(part.part_of.begin, known_sizes(part.shape), strict=True)])


def get_parts(
    get: Callable[..., Variable], name: str, shape: ShapeLike, dtype: DType, initializer: Any,
    partitioner: Callable[..., Any], **options: Any,
) -> PartitionedVariable:  # fmt: skip
    """Return the variable of that name in the parts that the partitioner asks for, each from `get`.

    The initial value of a part is cut from that of the whole.
    """
    if not callable(partitioner):
        raise ValueError(f"a partitioner is a function (shape, dtype), not {safe_repr(partitioner)}")
    whole = as_shape(_shape_of(initializer) if _is_value(initializer) else shape)
    if not whole.is_fully_defined():
        raise ValueError(f"the shape of a variable in parts must be known: {name!r} has {whole}")
    lengths = known_sizes(whole)
    counts = _checked(name, lengths, partitioner(shape=whole, dtype=dtype))
    parts = []
    for number, (begin, sizes) in enumerate(_cut(lengths, counts)):
        first = _first(initializer, lengths, dtype, begin, sizes)
        part = get(f"{name}/part_{number}", shape=sizes, dtype=dtype, initializer=first, **options)
        part.part_of = PartOf(name, tuple(lengths), tuple(begin))
        parts.append(part)
    return PartitionedVariable(name, whole, dtype, parts, counts)


def known_sizes(shape: TensorShape) -> list[int]:
    """Return the sizes of a shape that is fully known."""
    return [size for size in shape.as_list() if size is not None]


def _shape_of(value: Any) -> ShapeLike:
    return value.shape if isinstance(value, Tensor | Variable) else np.shape(value)


def _is_value(initializer: Any) -> bool:
    return initializer is not None and not callable(initializer)


def _checked(name: str, sizes: Sequence[int], counts: Any) -> list[int]:
    """Return the numbers of parts. ValueError if they are no numbers of parts, or cut more than one axis."""
    found = list(counts) if isinstance(counts, (list, tuple)) else []
    fits = len(found) == len(sizes) and all(isinstance(count, int) for count in found)
    if not fits or not all(0 < count <= size for count, size in zip(found, sizes, strict=True)):
        raise ValueError(
            f"a partitioner returns a number of parts for each axis of {list(sizes)}, not {safe_repr(counts)}"
        )
    if sum(count > 1 for count in found) > 1:
        raise ValueError(f"variable {name!r} is cut along one axis, not along several: {found}")
    return found


def _cut(sizes: Sequence[int], counts: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield where each part begins and its sizes; the first parts have one row more if it does not divide evenly."""
    axes = []
    for size, count in zip(sizes, counts, strict=True):
        lengths = [size // count + (number < size % count) for number in range(count)]
        axes.append(list(zip([0, *itertools.accumulate(lengths)], lengths, strict=False)))
    for chosen in itertools.product(*axes):
        yield [begin for begin, _ in chosen], [length for _, length in chosen]


def _first(initializer: Any, whole: Sequence[int], dtype: DType, begin: Sequence[int], sizes: Sequence[int]) -> Any:
    """Return an initializer of one part."""
    index = tuple([slice(b, b + n) for b, n in zip(begin, sizes, strict=True)])
    if _is_value(initializer):
        return lambda shape, dtype=dtype: convert_to_tensor(initializer, dtype)[index]
    make = initializers.default_for(dtype) if initializer is None else initializer
    make = make() if isinstance(make, type) else make
    return lambda shape, dtype=dtype: convert_to_tensor(make(list(whole), dtype=dtype), dtype)[index]
