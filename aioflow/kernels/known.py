"""Small integer values that shape rules know, and how kernels read them.

Shapes, sizes and indices are data: a rule sees `Spec.known`, a kernel's binding the values that the plan knows to be
constant, and a kernel's call the value itself.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Attrs
from aioflow.tensors.dtypes import UNKNOWN, Array, Known, Sizes, Spec, TensorShape, spec_of

LARGEST: Final = 64
"""Longer vectors are not worth knowing."""
MOST_PIECES: Final = 1 << 16
"""The most outputs of an operation whose number is not that of its inputs or of a list."""


def of(value: Array) -> Spec:
    """The Spec of a concrete value, with all that a rule may know of it."""
    spec = spec_of(value)
    small = spec.dtype.is_integer and value.ndim <= 1 and value.size <= LARGEST
    return Spec(spec.dtype, spec.shape, plain(value)) if small else spec


def refusal(definition: Op[Any], attrs: Attrs, inputs: Sequence[Spec]) -> str | None:
    """The message of an op's shape rule for inputs that its kernel refused; None if the rule accepts them.

    The rule's message names the sizes that do not fit; NumPy's would name its own axes and operands.
    """
    try:
        definition.infer(inputs, attrs)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def integers(spec: Spec, what: str) -> Spec:
    """`spec` itself, if it holds integers, else TypeError."""
    if not spec.dtype.is_integer:
        raise TypeError(f"{what} must be made of integers, not {spec.dtype.name}")
    return spec


def scalar(spec: Spec, what: str) -> int | None:
    """The known value of one integer, or None. TypeError or ValueError if it cannot be an integer."""
    if integers(spec, what).rank not in (None, 0):
        raise ValueError(f"{what} must be one integer, its shape is {spec.shape}")
    return spec.known if isinstance(spec.known, int) else None


def length(spec: Spec, what: str) -> int | None:
    """The number of elements in a vector of integers. TypeError or ValueError if it is not one."""
    if integers(spec, what).rank not in (None, 1):
        raise ValueError(f"{what} must be a vector, its shape is {spec.shape}")
    return None if spec.sizes is None else spec.sizes[0]


def vector(spec: Spec, what: str) -> Sizes | None:
    """The known values of a vector of integers, None for each gap; None if its length is unknown, or long."""
    count = length(spec, what)
    if isinstance(spec.known, tuple):
        return spec.known
    return None if count is None or count > LARGEST else (None,) * count


def pieces(count: int) -> int:
    """`count`, a number of outputs that an attribute or a size gives. ValueError if there would be too many."""
    if count > MOST_PIECES:
        raise ValueError(f"an operation has at most {MOST_PIECES} outputs, not {count}")
    return count


def shape(spec: Spec, what: str = "shape") -> TensorShape:
    """The shape that a vector of sizes stands for, as far as it is known. ValueError for a negative size."""
    sizes = vector(spec, what)
    if sizes is not None and any(size is not None and size < 0 for size in sizes):
        raise ValueError(f"{what} cannot have a negative size: {list(sizes)}")
    return UNKNOWN if sizes is None else TensorShape(sizes)


def gaps(spec: Spec) -> Sizes | None:
    """The known values of an integer or a short vector of integers, as a vector; None for any other value."""
    if not spec.dtype.is_integer or spec.sizes is None or len(spec.sizes) > 1:
        return None
    if isinstance(spec.known, tuple):
        return spec.known
    length = spec.sizes[0] if spec.sizes else 1
    return None if length is None or length > LARGEST else (spec.known,) * length


def joined(values: Sequence[Spec]) -> Known:
    """The known values of the concatenation of integers and vectors of integers."""
    parts = [gaps(spec) for spec in values]
    return None if None in parts else capped([item for part in parts if part is not None for item in part])


def capped(values: Iterable[int | None] | None) -> Known:
    """The values as a Known; None if they are too many or all unknown."""
    found = None if values is None else tuple(values)
    return None if found is None or len(found) > LARGEST or (found and set(found) == {None}) else found


def constant(node: NodeView, index: int) -> Any:
    """The value of an input as Python's numbers, a vector as a tuple; None if the plan does not know it."""
    value = node.constant(index)
    return None if value is None else plain(value)


def plain(value: Array) -> Any:
    """The value of an array as Python's numbers, a vector as a tuple."""
    numbers = value.tolist()
    return tuple(numbers) if isinstance(numbers, list) else numbers


def replaced(sizes: Sizes, axis: int, *size: int | None) -> Sizes:
    """`sizes` with others in place of the one of `axis`."""
    return (*sizes[:axis], *size, *sizes[axis:][1:])


def sizes_of(data: Spec | Array) -> Sizes | None:
    """The sizes in a check's argument: a constant's array, or a Spec."""
    return data.sizes if isinstance(data, Spec) else data.shape


def number(data: Spec | Array) -> int | None:
    """The known value of an integer in a check's argument, or None."""
    value = data.known if isinstance(data, Spec) else int(data)
    return value if isinstance(value, int) else None


def size_at(spec: Spec, axis: int) -> int | None:
    """The size of one axis as far as it is known."""
    return None if spec.sizes is None else spec.sizes[axis]


def total(sizes: Iterable[int | None]) -> int | None:
    """The sum of sizes, None if one is not known."""
    count = 0
    for size in sizes:
        if size is None:
            return None
        count += size
    return count
