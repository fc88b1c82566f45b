"""A model as plain data: checked, without protocol buffers."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import UNKNOWN, DType, TensorShape

DOMAINS: Final = {"": "ai.onnx"}
"""The names of domains that have a short form."""


@dataclasses.dataclass(frozen=True, slots=True)
class ValueType:
    """The declared type of a value: a tensor, or a sequence or optional of another type."""

    kind: Literal["tensor", "sequence", "optional"]
    dtype: DType | None = None
    shape: TensorShape = UNKNOWN
    element: "ValueType | None" = None


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """The value of an attribute of a node in a function: the function's attribute of that name."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """One use of an operator. The inputs and outputs are names, empty for those left out.

    Attributes hold Python's numbers, bytes, arrays, `GraphBody`s, lists of these, or a `Reference`.
    """

    name: str
    domain: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    overload: str = ""

    @property
    def title(self) -> str:
        """The node's name, or that of its first output."""
        return self.name or next((name for name in self.outputs if name), self.type)

    @property
    def operator(self) -> str:
        """The operator with its domain."""
        return self.type if not self.domain else f"{self.domain}.{self.type}"

    def bodies(self) -> Iterator["GraphBody"]:
        """The graphs among its attributes."""
        for value in self.attributes.values():
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, GraphBody):
                    yield item

    def reads(self) -> Iterator[str]:
        """The names of its inputs, and of all outer values that its bodies use."""
        yield from filter(None, self.inputs)
        for body in self.bodies():
            yield from body.captures()


@dataclasses.dataclass(frozen=True, slots=True)
class GraphBody:
    """Nodes in an order in which each follows those that it depends on."""

    name: str
    nodes: Sequence[Node]
    inputs: Mapping[str, ValueType]
    outputs: Mapping[str, ValueType]
    initializers: Mapping[str, AnyArray]
    declared: Mapping[str, ValueType] = dataclasses.field(default_factory=dict)
    """What it states of the tensors that its nodes compute, its outputs among them."""
    message: Any = dataclasses.field(default=None, repr=False, compare=False)
    """The protocol buffer, for ONNX's definitions of operators that have graphs among their attributes."""

    def captures(self) -> list[str]:
        """The names of outer values that it uses."""
        own = {*self.inputs, *self.initializers}
        found: dict[str, None] = {}
        for node in self.nodes:
            found.update((name, None) for name in node.reads() if name not in own)
            own.update(node.outputs)
        found.update((name, None) for name in self.outputs if name not in own)
        return list(found)


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """An operator that is defined by nodes: by the model itself, or by ONNX."""

    nodes: Sequence[Node]
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, Any]
    """Its attributes with their defaults; None for those without one."""
    opsets: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """A graph, the version of each domain of its operators, and functions by domain, name and overload.

    `defaults` names the initial values that are inputs, too: a run may get another value.
    """

    graph: GraphBody
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], Function]
    defaults: Sequence[str] = ()
