"""What the function of an op gets: the attributes of a node as Python's values, and the name of its operation."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.files.dtype_numbers import NUMBERS
from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Tensor
from aioflow.kernels.data import tensor_wire
from aioflow.kernels.data.node_messages import TensorShapeProto
from aioflow.tensorflow_files.nodes import Node
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import UNKNOWN, DType, TensorShape

_NUMBERS: Final = {number: dtype for dtype, number in NUMBERS.items()}
_REFERENCE: Final = 100
"""The dtype of a reference to a variable is this much more than that of the value."""


def dtype_of(number: int) -> DType:
    """Return the dtype of a number of TensorFlow's. UnimplementedError for one that aioflow does not have."""
    found = _NUMBERS.get(number - _REFERENCE if number > _REFERENCE else number)
    if found is None:
        raise errors.UnimplementedError(f"dtype {number} of TensorFlow is not known")
    return found


def shape_of(message: TensorShapeProto) -> TensorShape:
    """Return the shape of a message."""
    if message.unknown_rank:
        return UNKNOWN
    return TensorShape([None if each.size < 0 else each.size for each in message.dim])


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A node that is built.

    Attributes:
        node: the node.
        name: the name of its operation, as an op takes it: with a slash at its end.
        function: builds a function of the graph for these inputs in the default graph, and returns its results, or an
            operation if it has none.
        invariant: says which arguments of a function are its results at the same places.
    """

    node: Node
    name: str
    function: Callable[[str, Sequence[Any]], Any]
    invariant: Callable[[str], Sequence[bool]]

    def _attribute(self, name: str, field: str, default: Any) -> Any:
        value = self.node.attributes.get(name)
        if value is None or not value.HasField(field):
            if default is None:
                raise ValueError(f"it has no attribute {name!r}")
            return default
        return getattr(value, field)

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer."""
        return int(self._attribute(name, "i", default))

    def number(self, name: str, default: float | None = None) -> float:
        """A float."""
        return float(self._attribute(name, "f", default))

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A bool."""
        return bool(self._attribute(name, "b", default))

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        found = self._attribute(name, "s", default)
        return found if isinstance(found, str) else found.decode()

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """A dtype."""
        found = self._attribute(name, "type", default)
        return found if isinstance(found, DType) else dtype_of(found)

    def shape(self, name: str, default: TensorShape | None = None) -> TensorShape:
        """A shape."""
        found = self._attribute(name, "shape", default)
        return found if isinstance(found, TensorShape) else shape_of(found)

    def array(self, name: str) -> AnyArray:
        """The array of a constant."""
        return tensor_wire.decode(self._attribute(name, "tensor", None))

    def called(self, name: str) -> str:
        """The name of a function."""
        found: str = self._attribute(name, "func", None).name
        return found

    def _list(self, name: str, field: str, default: Any) -> Any:
        if name not in self.node.attributes and default is not None:
            return default
        return getattr(self._attribute(name, "list", None), field)

    def integers(self, name: str, default: list[int] | None = None) -> list[int]:
        """A list of integers."""
        return [int(each) for each in self._list(name, "i", default)]

    def texts(self, name: str) -> list[str]:
        """A list of texts."""
        return [each.decode() for each in self._list(name, "s", [])]

    def dtypes(self, name: str) -> list[DType]:
        """A list of dtypes."""
        return [dtype_of(each) for each in self._list(name, "type", [])]

    def shapes(self, name: str) -> list[TensorShape]:
        """A list of shapes."""
        return [shape_of(each) for each in self._list(name, "shape", [])]

    def names(self, name: str) -> list[str]:
        """The names of a list of functions."""
        return [each.name for each in self._list(name, "func", [])]


def is_known(tensor: Tensor) -> bool:
    """Whether the graph knows the value of a tensor."""
    return _constant(tensor) is not None


def known(tensor: Tensor, what: str) -> AnyArray:
    """Return the value of a tensor that the graph must know before a run. ValueError if it does not."""
    value = _constant(tensor)
    if value is None:
        raise ValueError(f"its {what} comes from {tensor.name!r}, and aioflow must know it before a run")
    return value


def _constant(tensor: Tensor) -> AnyArray | None:
    while tensor.op.type == "identity":
        tensor = tensor.op.inputs[0]
    found: AnyArray | None = constant_value(tensor)
    return found


def known_list(tensor: Tensor, what: str) -> list[int]:
    """Return the integers of a vector or a number that the graph knows."""
    return [int(each) for each in known(tensor, what).reshape(-1)]


def known_integer(tensor: Tensor, what: str) -> int:
    """Return an integer that the graph knows."""
    return int(known(tensor, what))
