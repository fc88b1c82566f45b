"""A model that is being written: its nodes, its initial values, and the names of tensors."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body, bodies_of
from aioflow.lazy import Registry
from aioflow.onnx.protobuf import package
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import Spec, int64


class Export:
    """Collects nodes and initial values.

    Attributes:
        nodes: the nodes, as messages; inside `body` those of a graph among a node's attributes.
        initials: the initial values, by name.
        lists: the elements written to each `TensorArray` so far.
        pairs: the names of the real and the imaginary part of each complex tensor that is written so far.
    """

    def __init__(self, inputs: Mapping[Tensor, str], taken: Collection[str], values: Mapping[Tensor, AnyArray]) -> None:
        self.nodes: list[Any] = []
        self.initials: dict[str, AnyArray] = {}
        self.lists: dict[Tensor, Any] = {}
        self.pairs: dict[Tensor, tuple[str, str]] = {}
        self._part: int | None = None
        self._names = dict(inputs)
        self._taken = {*taken}
        self._values = values
        self._op: Operation | None = None

    def name(self, tensor: Tensor) -> str:
        """The name of a tensor that an earlier node or an input gives, or of a constant, which is written now.

        ValueError if ONNX has no such value.
        """
        if tensor not in self._names and tensor.op.type == "constant":
            self._names[tensor] = self.initial(tensor.op.attrs["value"], tensor.op.name)
        if tensor not in self._names and tensor in self.pairs:
            raise ValueError(
                f"{tensor.name!r} is {tensor.dtype.name}, and ONNX joins no parts: save af.real and af.imag of it"
            )
        if tensor not in self._names:
            raise ValueError(f"{tensor.name!r} is {tensor.spec}, for which ONNX has no tensor")
        return self._names[tensor]

    def parts(self, tensor: Tensor) -> tuple[str, str]:
        """The names of the real and the imaginary part of a complex tensor. ValueError for an input of the model."""
        if tensor not in self.pairs and tensor.op.type == "constant":
            self.set_parts(tensor, tensor.op.attrs["value"])
        if tensor not in self.pairs:
            raise ValueError(
                f"{tensor.name!r} is {tensor.dtype.name}, and ONNX takes it not apart: let its parts be inputs of "
                "the model, and join these by af.complex"
            )
        return self.pairs[tensor]

    def is_whole(self, tensor: Tensor) -> bool:
        """Whether a complex tensor is an input of the model, or moved elements of some."""
        return tensor in self._names

    def set_parts(self, tensor: Tensor, value: Any) -> None:
        """Let a complex tensor have that value."""
        self.pairs[tensor] = (self.initial(np.real(value)), self.initial(np.imag(value)))

    @contextlib.contextmanager
    def part(self, number: int, tensors: Sequence[Tensor]) -> Iterator[None]:
        """Inside, these complex tensors, and complex numbers, stand for their real part, or for the imaginary one."""
        around, kept = self._part, dict(self._names)
        self._names.update((tensor, self.parts(tensor)[number]) for tensor in tensors)
        self._part = number
        try:
            yield
        finally:
            self._part = around
            for tensor in tensors:
                del self._names[tensor]
            self._names.update((tensor, kept[tensor]) for tensor in tensors if tensor in kept)

    def names(self, op: Operation) -> list[str]:
        """The names of the inputs of an operation."""
        return [self.name(tensor) for tensor in op.inputs]

    def bind(self, argument: Tensor, value: Tensor | str) -> None:
        """Let the argument of a body stand for a value outside, or for that name."""
        if isinstance(value, str):
            self._names[argument] = value
        elif value in self.lists:
            self.lists[argument] = self.lists[value]
        elif value in self.pairs:
            self.pairs[argument] = self.pairs[value]
        else:
            self._names[argument] = self.name(value)

    def value_of(self, handle: Tensor) -> AnyArray:
        """The value of a variable."""
        return self._values[handle]

    def initial(self, array: Any, name: str = "constant") -> str:
        """The name of a new initial value."""
        unique, value = self.unique(name), np.asarray(array)
        if self._part is not None and value.dtype.kind == "c":
            value = value.imag if self._part else value.real
        self.initials[unique] = value
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
        names = [self.unique(base) for _ in range(outputs)]
        self.nodes.append(self.node(type, inputs, names, **attributes))
        return names

    def node(self, type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
        """A node as a message."""
        return package().helper.make_node(type, inputs, outputs, outputs[0], **attributes)

    @contextlib.contextmanager
    def body(self) -> Iterator[list[Any]]:
        """Inside, nodes are added to a graph of their own, which is given. It sees the names of the graphs around."""
        around, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = around

    def write(self, outputs: Sequence[Tensor], given: Collection[Tensor]) -> None:
        """Add the nodes that compute the outputs from the given tensors.

        ValueError that names an operation, if its attributes have no form in ONNX.
        """
        for op in needed_operations(outputs, given):
            self._write(op)

    def _write(self, op: Operation) -> None:
        around, self._op = self._op, op
        try:
            made = exporter_of(op)(self, op)
        except ValueError as error:
            if str(error).startswith("operation "):
                raise
            raise ValueError(f"operation {op.name!r} ({op.type}) cannot be written: {error}") from error
        names = made if isinstance(made, list) else [made]
        for output, name in zip(op.outputs, names, strict=False):
            if isinstance(name, tuple):
                self.pairs[output] = name
            elif name:
                self._names[output] = name
        self._op = around

    def unique(self, name: str) -> str:
        """A name that no other value has."""
        found, count = name, 0
        while found in self._taken:
            count += 1
            found = f"{name}_{count}"
        self._taken.add(found)
        return found


Exporter = Callable[[Export, Operation], "str | list[str]"]
"""Adds the nodes of an operation to a model, and returns the name of its output, or of all its outputs."""
ComplexExporter = Callable[[Export, Operation], Any]
"""The same, but for the pair of names of each output that is complex."""

EXPORTERS: Final[Registry[Exporter]] = Registry("aioflow.onnx.exporters")
"""{type of operation: function}"""
COMPLEX_EXPORTERS: Final[dict[str, ComplexExporter]] = {}
"""{type of operation: function for one with complex inputs or outputs}"""
_WITH_BODIES: Final = ("cond", "while_loop")
"""Operations that hand complex tensors to their bodies."""


def exporter_of(op: Operation) -> ComplexExporter:
    """The function for an operation. KeyError if it has no form in ONNX."""
    EXPORTERS.complete()
    tensors = [*op.inputs, *op.outputs]
    if op.type in _WITH_BODIES or not any(tensor.dtype.is_complex for tensor in tensors):
        return EXPORTERS[op.type]
    return COMPLEX_EXPORTERS[op.type]


def is_written(op: Operation) -> bool:
    """Whether an operation has a form in ONNX."""
    try:
        exporter_of(op)
    except KeyError:
        return False
    return True


def exporter(type: str) -> Callable[[Exporter], Exporter]:
    """Declare the function for a type of operation."""

    def declare(function: Exporter) -> Exporter:
        EXPORTERS[type] = function
        return function

    return declare


def needed_operations(outputs: Sequence[Tensor], given: Collection[Tensor]) -> list[Operation]:
    """The operations of one graph that compute the outputs, in the order in which they were built."""
    found, left = dict[Operation, None](), [tensor for tensor in outputs if tensor not in given]
    while left:
        op = left.pop().op
        if op not in found:
            found[op] = None
            left += [tensor for tensor in op.inputs if tensor not in given]
    places = {op: place for place, op in enumerate(next(iter(found)).graph.get_operations())} if found else {}
    return sorted(found, key=places.__getitem__)


def operations_within(operations: Sequence[Operation]) -> Iterator[Operation]:
    """The operations, and those that the bodies among their attributes need."""
    for op in operations:
        yield op
        for body in bodies_of(op):
            yield from operations_within(needed_operations(computed(op, body), body.arguments))


def computed(op: Operation, body: Body) -> Sequence[Tensor]:
    """The outputs of a body without those that a loop records for its gradient."""
    return body.outputs[: op.attrs.get("variables")]


def declaration(name: str, spec: Spec, open_sizes: str | None = None) -> Any:
    """The declaration of a value as a message. Open sizes are named after their axes, if the names' start is given."""
    shape: list[Any] | None = None if spec.sizes is None else [*spec.sizes]
    if shape is not None and open_sizes is not None:
        shape = [f"{open_sizes}{axis}" if size is None else size for axis, size in enumerate(shape)]
    return package().helper.make_tensor_value_info(name, NUMBERS[spec.dtype], shape)


def rank_of(tensor: Tensor) -> int:
    """The rank of a tensor. ValueError if it is not known."""
    if tensor.spec.rank is None:
        raise ValueError(f"the rank of {tensor.name!r} must be known")
    return int(tensor.spec.rank)
