"""A model that is being written: its nodes, its initial values, and the names of tensors."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.protobuf import package
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import int64

VERSION: Final = 21
"""The version of ONNX's operators that models are written in."""


class Export:
    """Collects nodes and initial values.

    Attributes:
        nodes: the nodes, as messages.
        initials: the initial values, by name.
    """

    def __init__(self, inputs: Mapping[Tensor, str], taken: Collection[str]) -> None:
        self.nodes: list[Any] = []
        self.initials: dict[str, AnyArray] = {}
        self._names = dict(inputs)
        self._taken = {*taken}
        self._op: Operation | None = None

    def name(self, tensor: Tensor) -> str:
        """The name of a tensor that an earlier node or an input gives."""
        return self._names[tensor]

    def give(self, tensor: Tensor, array: Any, name: str | None = None) -> None:
        """Make an initial value of a tensor."""
        self._names[tensor] = self.initial(array, name or tensor.op.name)

    def initial(self, array: Any, name: str = "constant") -> str:
        """The name of a new initial value."""
        unique = self._unique(name)
        self.initials[unique] = np.asarray(array)
        return unique

    def integers(self, values: Sequence[int]) -> str:
        """The name of a new initial value: a vector of int64."""
        return self.initial(np.array(values, np.int64))

    def as_int64(self, tensor: Tensor) -> str:
        """The name of an integer tensor as int64, as ONNX wants shapes."""
        value = constant_value(tensor)
        if value is not None:
            return self.initial(np.asarray(value, np.int64))
        return self.name(tensor) if tensor.dtype is int64 else self.add("Cast", self.name(tensor), to=NUMBERS[int64])

    def add(self, type: str, *inputs: str, **attributes: Any) -> str:
        """The name of the output of a new node."""
        return self.add_all(type, inputs, 1, **attributes)[0]

    def add_all(self, type: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """The names of the outputs of a new node."""
        base = type if self._op is None else self._op.name
        names = [self._unique(base) for _ in range(outputs)]
        self.nodes.append(self.node(type, inputs, names, **attributes))
        return names

    def node(self, type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
        """A node as a message."""
        return package().helper.make_node(type, inputs, outputs, outputs[0], **attributes)

    def build(self, op: Operation, exporter: "Exporter") -> None:
        """Add the nodes of an operation. ValueError that names it, if its attributes have no form in ONNX."""
        self._op = op
        try:
            made = exporter(self, op)
        except ValueError as error:
            raise ValueError(f"operation {op.name!r} ({op.type}) cannot be written: {error}") from error
        names = [made] if isinstance(made, str) else made
        self._names.update(zip(op.outputs, names, strict=False))
        self._op = None

    def _unique(self, name: str) -> str:
        found, count = name, 0
        while found in self._taken:
            count += 1
            found = f"{name}_{count}"
        self._taken.add(found)
        return found


Exporter = Callable[[Export, Operation], "str | list[str]"]
"""Adds the nodes of an operation to a model, and returns the name of its output, or of all its outputs."""
