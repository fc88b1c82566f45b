"""One node as the function of its operator sees it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from aioflow.graph.operation import Tensor
from aioflow.library.tensor_array import TensorArray
from aioflow.onnx.model import GraphBody, Node, ValueType
from aioflow.onnx.optional_value import OptionalValue
from aioflow.onnx.tensors import dtype_of
from aioflow.tensors.dtypes import DType

Value: TypeAlias = "Tensor | list[Value] | TensorArray | OptionalValue | None"
"""A tensor, a sequence whose length is known, one whose length only the run knows, an optional whose content only the
run knows, or an empty optional."""

BuildBody: TypeAlias = Callable[[GraphBody, Sequence[Value]], list[Value]]
"""Builds the nodes of a body in the default graph, for these inputs."""


class Call:
    """A node with the version of its domain.

    Attributes:
        node: the node.
        version: the version of the node's domain that the model states.
        build: builds the nodes of a graph among the node's attributes.
    """

    def __init__(self, node: Node, version: int, build: BuildBody) -> None:
        self.node = node
        self.version = version
        self.build = build

    @property
    def outputs(self) -> int:
        """The number of outputs; those in the middle may be left out."""
        return len(self.node.outputs)

    def wants(self, index: int) -> bool:
        """Whether the node has an output of that number."""
        return index < self.outputs and bool(self.node.outputs[index])

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.node.attributes

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute of that name as it is."""
        return self.node.attributes.get(name, default)

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute that is an integer. ValueError if it is missing without a default, or no integer."""
        return int(self._checked(name, default, int))

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is 0 or 1."""
        return bool(self.integer(name, default))

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute that is a number."""
        return float(self._checked(name, default, (int, float)))

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute that is text."""
        value = self._checked(name, default, (bytes, str))
        return value.decode() if isinstance(value, bytes) else str(value)

    def texts(self, name: str) -> list[str]:
        """An attribute that is a list of texts."""
        return [item.decode() for item in self._checked(name, [], list)]

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An attribute that is a list of integers."""
        return [int(item) for item in self._checked(name, None if default is None else list(default), list)]

    def numbers(self, name: str) -> list[float]:
        """An attribute that is a list of numbers, empty by default."""
        return [float(item) for item in self._checked(name, [], list)]

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """An attribute that is the number of a dtype."""
        if default is not None and not self.get(name):
            return default
        return dtype_of(self.integer(name), f"attribute {name!r}")

    def type(self, name: str) -> ValueType:
        """An attribute that is the type of a value."""
        found: ValueType = self._checked(name, None, ValueType)
        return found

    def body(self, name: str) -> GraphBody:
        """An attribute that is a graph."""
        found: GraphBody = self._checked(name, None, GraphBody)
        return found

    def _checked(self, name: str, default: Any, kind: Any) -> Any:
        value = self.get(name, default)
        if value is None:
            raise ValueError(f"the attribute {name!r} is missing")
        if not isinstance(value, kind):
            raise TypeError(f"the attribute {name!r} cannot be {value!r}")
        return value
