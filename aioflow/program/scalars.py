"""Scalar code: kernels of NumPy scalars as expressions of Python's operators, which cost a tenth of a ufunc's call.

An operator of NumPy scalars gives the bits of the ufunc over arrays of rank 0, but for the payload of a NaN. A region
keeps the values that such expressions read as NumPy scalars: it takes them out of arrays of rank 0 where they come in.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from aioflow.graph.kernel import Kernel
from aioflow.plan.passes.flow import Node, Value
from aioflow.tensors.dtypes import DType, Spec, bool_, float32, float64, int32, int64

DTYPES: Final[frozenset[DType]] = frozenset((float32, float64, int32, int64, bool_))
"""The dtypes of values in scalar code: NumPy's scalars of the others are slower, or no scalars."""
NAMES: Final = {**{f"as_{dtype.name}": dtype.np.type for dtype in DTYPES}, "true": np.True_}
"""The names in expressions besides operands."""
SECONDS: Final = 5e-8
"""The estimated time of an expression."""

_LOGICAL: Final = {np.logical_and: "{0} & {1}", np.logical_or: "{0} | {1}", np.logical_xor: "{0} ^ {1}"}
_OPERATORS: Final[dict[Any, str]] = {
    np.add: "{0} + {1}",
    np.subtract: "{0} - {1}",
    np.multiply: "{0} * {1}",
    np.true_divide: "{0} / {1}",
    np.floor_divide: "{0} // {1}",
    np.remainder: "{0} % {1}",
    np.negative: "-{0}",
    np.positive: "+{0}",
    np.absolute: "abs({0})",
    np.square: "{0} * {0}",
    np.less: "{0} < {1}",
    np.less_equal: "{0} <= {1}",
    np.greater: "{0} > {1}",
    np.greater_equal: "{0} >= {1}",
    np.equal: "{0} == {1}",
    np.not_equal: "{0} != {1}",
    np.bitwise_and: "{0} & {1}",
    np.bitwise_or: "{0} | {1}",
    np.bitwise_xor: "{0} ^ {1}",
    np.left_shift: "{0} << {1}",
    np.right_shift: "{0} >> {1}",
    np.invert: "~{0}",
}
"""The ufuncs as operators. `power` is not among them: it takes roots where `**` computes exponentials."""


class Code(Protocol):
    """The code of one block; see `blocks.Code`."""

    @property
    def statements(self) -> Sequence[Any]:
        """Its statements."""

    @property
    def arguments(self) -> Mapping[int, Value]:
        """Its arguments."""

    @property
    def outputs(self) -> tuple[Value, ...]:
        """Its outputs."""


def expression_for(node: Node, kernel: Kernel, call: Callable[..., Any]) -> str | None:
    """Return the expression that computes a node from NumPy scalars, a format of its operands; None if it has none.

    Args:
        node: the node.
        kernel: its kernel on the CPU.
        call: the kernel, bound to the node.
    """
    specs = [*node.input_specs, *node.output_specs]
    if not all(map(is_scalar, specs)):
        return None
    if kernel.scalar is not None:
        return kernel.scalar.replace("{type}", f"as_{node.output_specs[0].dtype.name}")
    if not isinstance(call, np.ufunc):
        return None
    if call in _LOGICAL:
        return _LOGICAL[call] if all(spec.dtype is bool_ for spec in specs) else None
    if call is np.logical_not:
        return "{0} ^ true"
    return _OPERATORS.get(call)


def is_scalar(spec: Spec) -> bool:
    """Whether a value may be one of scalar code."""
    return spec.rank == 0 and spec.dtype in DTYPES


def gives_scalar(call: object) -> bool:
    """Whether a kernel gives NumPy scalars instead of arrays of rank 0."""
    return isinstance(call, np.ufunc)


def is_scalar_code(statement: Any) -> bool:
    """Whether a statement is an expression, or a ufunc that gives a NumPy scalar."""
    if getattr(statement, "expression", None) is not None:
        return True
    return gives_scalar(getattr(statement, "call", None)) and all(
        spec.rank == 0 for spec in statement.node.output_specs
    )


class ScalarValues:
    """The values that a region keeps as NumPy scalars: expressions read them, also inside branches and loops."""

    def __init__(self, statements: Iterable[Any]) -> None:
        self._found: set[Value] = set()
        self._sources: dict[Value, list[Value]] = {}
        self._lists: dict[Value, Value] = {}
        self._visit(statements)
        self._spread()

    def __contains__(self, value: Value) -> bool:
        return value in self._found

    def are_popped(self, elements: Value) -> bool:
        """Whether the elements of a list are NumPy scalars already: a loop of this region recorded them as such."""
        return self._lists.get(elements) in self._found

    def _visit(self, statements: Iterable[Any]) -> None:
        for statement in statements:
            codes: Sequence[Code] = getattr(statement, "codes", ())
            for code in codes:
                self._visit(code.statements)
            if not codes and getattr(statement, "expression", None) is not None:
                self._found.update(statement.inputs)
            elif not codes and statement.node.definition.name in ("switch", "merge"):
                for source in statement.inputs[:1] if statement.node.definition.name == "switch" else statement.inputs:
                    for result in statement.results:
                        self._link(result, source)
            elif codes and statement.node.definition.name == "cond":
                self._visit_branch(statement.node, codes)
            elif codes:
                self._visit_loop(statement.node, codes)

    def _visit_branch(self, node: Node, codes: Sequence[Code]) -> None:
        for code in codes:
            for place, argument in code.arguments.items():
                self._link(argument, node.inputs[place])
            for index, output in enumerate(code.outputs):
                self._link(Value(node, index), output)

    def _visit_loop(self, node: Node, codes: Sequence[Code]) -> None:
        """Link a variable's values before, in and after the loop, and the elements of its lists."""
        first, count, replays = int(node.attrs["limited"]), node.attrs["variables"], node.attrs["replays"]
        outputs = codes[-1].outputs
        for index in range(count):
            self._link(Value(node, index), node.inputs[first + index])
            self._link(Value(node, index), outputs[index])
        if not node.attrs["swap_memory"]:
            self._lists.update({Value(node, count + 1 + at): made for at, made in enumerate(outputs[count:])})
        for code in codes:
            for place, argument in code.arguments.items():
                if place < first + count:
                    self._link(argument, Value(node, place - first) if place >= first else node.inputs[place])
                elif place >= first + count + replays:
                    self._link(argument, node.inputs[place])
                elif node.inputs[place] in self._lists:
                    self._link(argument, self._lists[node.inputs[place]])

    def _link(self, value: Value, source: Value) -> None:
        """If `value` is a scalar, then so is `source`, whose value it may be."""
        if is_scalar(source.spec):
            self._sources.setdefault(value, []).append(source)

    def _spread(self) -> None:
        waiting = list(self._found)
        while waiting:
            new = set(self._sources.get(waiting.pop(), ())) - self._found
            self._found |= new
            waiting += new
