"""Optionals: empty or not, as it is known when the graph is built, or else only in the run."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, zeros
from aioflow.library.tensor_array import TensorArray
from aioflow.onnx.call import Call, Value
from aioflow.onnx.model import ValueType
from aioflow.onnx.operators.lists import as_array
from aioflow.onnx.optional_value import OptionalValue
from aioflow.onnx.registry import operator

Variable: TypeAlias = Tensor | TensorArray
"""What a branch returns and a loop carries."""
Carried: TypeAlias = Variable | OptionalValue
"""The same, or an optional, which is two of these: whether there is a value, and the value."""

operator("Optional", since=15)(lambda call, item=None: item)


@operator("OptionalGetElement", since=15)
def _(call: Call, item: Value) -> Value:
    return present(item)


@operator("OptionalHasElement", since=15)
def _(call: Call, item: Value = None) -> Tensor:
    return item.has_value if isinstance(item, OptionalValue) else constant(item is not None)


def as_optional(value: Value, declared: ValueType | None) -> OptionalValue:
    """The value as an optional whose content only the run knows. `declared` is the type of one that is empty.

    ValueError if the type of an empty one is nowhere stated.
    """
    if isinstance(value, OptionalValue):
        return value
    if value is None:
        return OptionalValue(constant(False), _nothing(declared))
    return OptionalValue(constant(True), value if isinstance(value, Tensor) else as_array(value, declared))


def _nothing(declared: ValueType | None) -> Tensor | TensorArray:
    """What stands in an empty optional of that type: a tensor whose open sizes are 0, or a sequence without elements.

    It has the dtype and the rank of what stands in one that is not empty.
    """
    found = declared.element if declared is not None and declared.kind == "optional" else declared
    if found is not None and found.kind == "sequence":
        return as_array([], found)
    if found is None or found.dtype is None:
        raise ValueError("the dtype of an empty optional must be stated by the type of the result that it is")
    return zeros([size or 0 for size in found.shape.sizes or ()], found.dtype)


def present(value: Value) -> Value:
    """The value; that of an optional, which the run fails without."""
    return value.get_value() if isinstance(value, OptionalValue) else value


def flattened(values: Iterable[Carried]) -> list[Variable]:
    """The values, with two in place of each optional."""
    return [part for value in values for part in _parts(value)]


def _parts(value: Carried) -> list[Variable]:
    return [value.has_value, value.value] if isinstance(value, OptionalValue) else [value]


def regrouped(values: Iterable[Any], optional: Sequence[bool]) -> list[Carried]:
    """The values that were flattened; those at these places are optionals."""
    left = iter(values)
    return [OptionalValue(next(left), next(left)) if pair else next(left) for pair in optional]
