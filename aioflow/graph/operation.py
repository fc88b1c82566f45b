"""The elements of a graph: operations, and the tensors that are their outputs."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, Never

from aioflow.graph.default_session import current_session
from aioflow.graph.operators import Operand
from aioflow.lazy import Registry
from aioflow.name_hints import refuse
from aioflow.tensors.dtypes import DType, ShapeLike, Spec, TensorShape

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph

Attrs = dict[str, Any]
SourceLine = tuple[str, int, str]
"""A line of the user's program: file, line number, function."""

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep

METHODS: Final[Registry[Callable[..., Any]]] = Registry("aioflow.kernels")
"""{method name: function} for methods of Operation that later modules implement; these fill it at import."""


_lines: Final[dict[tuple[int, int], tuple[SourceLine, CodeType]]] = {}
"""Cached lines by code object and position; holding the code object keeps its id unique."""
_MOST_LINES: Final = 4096
BODY_WORK: Final = 12
"""The planning work of a body besides its operations: 0.5 ms."""
_EDGES: Final = 8
"""The number of edges that take as much planning as one operation."""


def user_line() -> SourceLine | None:
    """Return the innermost line of the call stack outside of aioflow."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    key = id(frame.f_code), frame.f_lasti
    found = _lines.get(key)
    if found is None:
        if len(_lines) >= _MOST_LINES:
            _lines.clear()
        found = _lines[key] = ((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name), frame.f_code)
    return found[0]


class Tensor(Operand):
    """One output of an operation: a value that a run computes. Its dtype is known, its shape as far as possible.

    Examples:
        >>> x = af.placeholder(af.float32, [None, 3], name="x")
        >>> x
        <af.Tensor 'x:0' float32[?, 3]>
        >>> (x @ af.ones([3, 1])).shape
        TensorShape([None, 1])
    """

    __slots__ = ("__weakref__", "_consumers", "index", "op", "spec")

    def __init__(self, op: "Operation", index: int, spec: Spec) -> None:
        self.op: Operation = op
        self.index: int = index
        self.spec: Spec = spec
        self._consumers: list[Operation] = []

    @property
    def name(self) -> str:
        """`op:index`."""
        return f"{self.op.name}:{self.index}"

    @property
    def value_index(self) -> int:
        """The index of the tensor among its operation's outputs."""
        return self.index

    @property
    def graph(self) -> "Graph":
        """The graph of the tensor."""
        return self.op.graph

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.spec.dtype

    @property
    def shape(self) -> TensorShape:
        """Its shape, as far as it is known before a run."""
        return self.spec.shape

    @property
    def device(self) -> str:
        """The requested device, possibly partial, or an empty string."""
        return self.op.device

    def get_shape(self) -> TensorShape:
        """Its shape, as far as it is known before a run."""
        return self.spec.shape

    def set_shape(self, shape: ShapeLike) -> None:
        """Merge `shape` into the known shape. ValueError if they contradict each other."""
        before, shape = self.spec, self.spec.shape.merge_with(shape)
        if shape is not before.shape:
            self.spec = Spec(before.dtype, TensorShape(shape), before.known)
            self.graph.on_failure(lambda: setattr(self, "spec", before))

    def consumers(self) -> "list[Operation]":
        """Return the operations that have the tensor as an input, each once, in the order they were built."""
        return list(dict.fromkeys(self._consumers))

    async def eval(self, feeds: Mapping[Any, Any] | None = None, **wrong: Never) -> Any:
        """Return its value, computed by the default session. ValueError if there is no default session."""
        if wrong:
            refuse("eval", wrong)
        return await current_session().run(self, feeds)

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None) -> "Tensor":
        """Assign a part of a variable: `variable[1:3].assign(value)`. Returns the whole new value; it is atomic.

        `value` has the shape of the part, or is one number for all of it. ValueError if the tensor is no such part.
        """
        assigned: Tensor = METHODS["assign"](self, value, name)
        return assigned

    def read_value(self) -> "Tensor":
        """Return the new value of a variable, which an update gives, as in `variable.assign(1.0).read_value()`.

        ValueError for other tensors.
        """
        if not self.op.inputs or self.op.inputs[0].dtype.family != "resource":
            raise ValueError(
                f"{self!r} is no update of a variable, as variable.assign(1.0) is: it has no value to read"
            )
        return self

    def __repr__(self) -> str:
        return f"<af.Tensor {self.name!r} {self.spec}>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.elements import tensor_html

        return tensor_html(self, describe_line(self.op))

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of {self!r} is known only in a run: use af.cond, af.where or af.logical_and")

    if not TYPE_CHECKING:  # a checker takes what is not there for an error, as it is

        def __iter__(self) -> "Iterator[Tensor]":
            raise TypeError(f"{self!r} cannot be iterated while the graph is built: use af.unstack or af.map_fn")

        def __len__(self) -> int:
            raise TypeError(f"{self!r} has no len(): use its .shape, or af.shape for the value in a run")

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise TypeError(
                f"{self!r} is not an array while the graph is built: use `await session.run(tensor)` for its value"
            )

        def __float__(self) -> float:
            raise TypeError(f"{self!r} has no value while the graph is built: use `await session.run(tensor)`")

        __int__ = __float__


class Operation:
    """A node: an op with inputs, control inputs and attributes. Only a call of an op makes one.

    Examples:
        >>> operation = af.add(1, 2, name="sum").op
        >>> operation.type, operation.inputs
        ('add', (<af.Tensor 'constant:0' int32[]>, <af.Tensor 'constant_1:0' int32[]>))
    """

    __slots__ = (
        "__weakref__", "attrs", "colocation", "container", "control_inputs", "definition", "device",
        "gradient_override", "graph", "id", "inputs", "line", "name", "origin", "outputs",
    )  # fmt: skip

    def __init__(
        self,
        graph: "Graph",
        definition: Any,
        name: str,
        inputs: tuple[Tensor, ...],
        attrs: Attrs,
        specs: Sequence[Spec],
        control_inputs: "tuple[Operation, ...]",
        container: str,
        colocation: tuple[str, ...],
        origin: "Operation | None",
        gradient_override: str | None,
    ) -> None:
        self.graph: Graph = graph
        self.definition: Any = definition
        self.name: str = name
        self.inputs: tuple[Tensor, ...] = inputs
        self.attrs: Attrs = attrs
        self.outputs: tuple[Tensor, ...] = tuple([Tensor(self, index, spec) for index, spec in enumerate(specs)])
        self.control_inputs: tuple[Operation, ...] = control_inputs
        self.device: str = ""
        self.container: str = container
        self.colocation: tuple[str, ...] = colocation
        self.origin: Operation | None = origin
        self.gradient_override: str | Callable[..., Any] | None = gradient_override
        self.line: SourceLine | None = user_line()
        self.id: int = -1

    @property
    def planning_work(self) -> int:
        """An estimate of the time to plan it, including its bodies; 1 is about 40 μs."""
        bodies = [value.graph for value in self.attrs.values() if hasattr(value, "graph")]
        inside: int = sum(BODY_WORK + body.planning_work for body in bodies)
        return 1 + inside + (len(self.inputs) + len(self.control_inputs)) // _EDGES

    @property
    def type(self) -> str:
        """The name of the op, as `matmul`."""
        name: str = self.definition.name
        return name

    @property
    def output(self) -> Tensor:
        """Its only output. ValueError if it has none or several."""
        if len(self.outputs) != 1:
            raise ValueError(f"{self.name!r} has {len(self.outputs)} outputs, not one; use .outputs")
        return self.outputs[0]

    def values(self) -> tuple[Tensor, ...]:
        """Its outputs."""
        return self.outputs

    def update_input(self, index: int, tensor: Tensor) -> None:
        """Replace an input of a `merge` by the output of a `next_iteration`. ValueError for any other operation."""
        METHODS["update_input"](self, index, tensor)

    @property
    def traceback(self) -> list[SourceLine]:
        """The user's line that built it, as [(file, line number, function)]; empty if the line is not known."""
        return [] if self.line is None else [self.line]

    def get_attr(self, name: str) -> Any:
        """Return an attribute's value. ValueError if the op has no attribute of that name.

        `dtype` and `T` of an op without such an attribute are the dtype of its first output.
        """
        if name in ("dtype", "T") and name not in self.attrs and self.outputs:
            return self.outputs[0].dtype
        if name not in self.attrs:
            raise ValueError(f"{self.name!r} has no attribute {name!r}; it has {', '.join(self.attrs) or 'none'}")
        return self.attrs[name]

    def colocation_groups(self) -> list[str]:
        """Return the names of the operations that must share its device, as `loc:@name`."""
        return [f"loc:@{name}" for name in self.colocation or (self.name,)]

    async def run(self, feeds: Mapping[Any, Any] | None = None, **wrong: Never) -> None:
        """Run it in the default session. ValueError if there is no default session."""
        if wrong:
            refuse("run", wrong)
        await current_session().run(self, feeds)

    def __repr__(self) -> str:
        return f"<af.Operation {self.name!r} ({self.type})>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.elements import operation_html

        return operation_html(self, describe_line(self))


def items_of(name: str, value: Any) -> Iterable[Any]:
    """Return `value`, a collection. TypeError if it is a tensor, variable, operation or text."""
    if isinstance(value, (str, Operation)) or hasattr(value, "op") or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list, not {value!r}")
    return value


def describe_line(operation: Operation) -> str:
    """Return the user's line that built it, as `model.py:12 in build`; for a gradient also the forward op's line."""
    line = operation.line
    text = "an unknown line" if line is None else f"{line[0]}:{line[1]} in {line[2]}"
    if operation.origin is None:
        return text
    return f"{text} (gradient of {operation.origin.name!r}, built at {describe_line(operation.origin)})"
