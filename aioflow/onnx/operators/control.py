"""Branches and loops: `If` as `cond`, `Loop` and `Scan` as `while_loop`."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.graph.building import get_default_graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse, transpose
from aioflow.kernels.array.constants import constant
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less, logical_and
from aioflow.library.branches import cond
from aioflow.library.loops import while_loop
from aioflow.library.tensor_array import TensorArray
from aioflow.onnx.call import Call, Value
from aioflow.onnx.model import ValueType
from aioflow.onnx.operators.lists import as_array, loosened, on_trial, tensors
from aioflow.onnx.operators.values import axis_of, known_number, rank_of, scalar, size_at
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import UNKNOWN, TensorShape, int32, int64

Carried = Tensor | TensorArray
"""A variable of a loop: a tensor, or a sequence."""
Step = Callable[[Tensor, Tensor, Sequence[Carried]], tuple[Tensor, list[Carried], list[Tensor]]]
"""(iteration, whether it goes on, variables) -> the last two after it, and what it adds to the stacked results."""
Loosen = Callable[[TensorShape], TensorShape]

_BRANCHES: Final = ("then_branch", "else_branch")


@operator("If")
def _(call: Call, condition: Tensor) -> tuple[Value, ...]:
    known = known_number(condition)
    if known is not None:
        return tuple(call.build(call.body(_BRANCHES[0 if known else 1]), ()))
    then, otherwise = [functools.partial(_settled, call, name) for name in _BRANCHES]
    return tuple(cond(scalar(condition), then, otherwise, strict=True))


def _settled(call: Call, branch: str) -> list[Value]:
    """The outputs of a branch. The other branch may return sequences of other lengths."""
    body = call.body(branch)
    values, types = call.build(body, ()), body.outputs.values()
    if any(each is None for each in values):
        raise errors.UnimplementedError("whether an optional is empty must be known when the graph is built")
    return [as_array(each, type) if isinstance(each, list) else each for each, type in zip(values, types, strict=True)]


@operator("Loop")
def _(call: Call, limit: Tensor | None = None, going: Tensor | None = None, *initial: Value) -> tuple[Carried, ...]:
    body = call.body("body")
    first = _carried(initial, [*body.inputs.values()][2:])
    most = None if limit is None else scalar(limit)

    def test(i: Tensor, keep: Tensor, *_: Any) -> Tensor:
        return keep if most is None else logical_and(less(i, most), keep)

    def step(i: Tensor, keep: Tensor, values: Sequence[Carried]) -> tuple[Tensor, list[Carried], list[Tensor]]:
        keep_going, *made = call.build(body, [i, keep, *values])
        types = [*body.outputs.values()][1:]
        (more,) = tensors([keep_going])
        carried = _carried(made[: len(values)], types)
        return scalar(more), list(map(_like, carried, values)), tensors(made[len(values) :])

    start = constant(True) if going is None else scalar(going)
    return _looped(test, step, start, first)


def _carried(values: Sequence[Value], types: Sequence[ValueType]) -> list[Carried]:
    """The values as variables of a loop. UnimplementedError for empty optionals."""
    if any(value is None for value in values):
        raise errors.UnimplementedError("a loop carries tensors and sequences, and no empty optionals")
    given = itertools.zip_longest(values, types[: len(values)])
    return [each if isinstance(each, Tensor) else as_array(each, type) for each, type in given]


def _like(made: Carried, variable: Carried) -> Carried:
    """The next value of a variable: of a sequence no more is known than before."""
    if isinstance(made, TensorArray) and isinstance(variable, TensorArray):
        return loosened(made, variable.element_shape)
    return made


def _looped(test: Callable[..., Tensor], step: Step, start: Tensor, initial: Sequence[Carried]) -> tuple[Carried, ...]:
    """The last values of the variables, and the results of all iterations along a new first axis."""
    added = on_trial(lambda: [part.dtype for part in step(constant(0, int64), start, initial)[2]])
    arrays = [TensorArray(dtype, 0, dynamic_size=True) for dtype in added]

    def body(i: Tensor, keep: Tensor, values: Any, parts: Any) -> Any:
        going, made, new = step(i, keep, values)
        written = [array.write(cast(i, int32), part) for array, part in zip(parts, new, strict=True)]
        return i + constant(1, int64), going, made, written

    for loosen in (_itself, _rank_alone, _anything):  # the shapes of the first values hold in all iterations, or less
        shapes = [_shape(value, loosen) for value in initial]
        try:
            with get_default_graph().transaction():
                values = [_opened(value, shape) for value, shape in zip(initial, shapes, strict=True)]
                invariants = (start.shape, start.shape, shapes, [UNKNOWN] * len(arrays))
                _, _, values, parts = while_loop(test, body, (constant(0, int64), start, values, arrays), invariants)
            break
        except ValueError as error:
            failed = error
    else:
        raise failed
    return (*values, *[part.stack() for part in parts])


def _opened(value: Carried, shape: TensorShape) -> Carried:
    """A variable whose next values have that shape, too; what a sequence holds is part of its type."""
    return loosened(value, shape) if isinstance(value, TensorArray) else value


def _shape(value: Carried, loosen: Loosen) -> TensorShape:
    """The shape of a variable, or of the elements of a sequence, in all iterations."""
    return loosen(value.element_shape if isinstance(value, TensorArray) else value.shape)


def _itself(shape: TensorShape) -> TensorShape:
    return shape


def _anything(shape: TensorShape) -> TensorShape:
    return UNKNOWN


def _rank_alone(shape: TensorShape) -> TensorShape:
    return UNKNOWN if shape.ndims is None else TensorShape([None] * shape.ndims)


# Scan


@dataclasses.dataclass(frozen=True, slots=True)
class _Rows:
    """One of the tensors whose rows a scan takes or makes: along which axis, and whether from the last on."""

    axis: int
    backwards: bool

    def taken(self, x: Tensor) -> Tensor:
        """`x` with that axis first, in the order in which its rows are taken."""
        axis, rank = axis_of(self.axis, rank_of(x)), rank_of(x)
        moved = transpose(x, [axis, *[each for each in range(rank) if each != axis]]) if axis else x
        return reverse(moved, [0]) if self.backwards else moved

    def placed(self, x: Tensor) -> Tensor:
        """`x`, whose first axis becomes that axis, in its order."""
        ordered = reverse(x, [0]) if self.backwards else x
        axis, rank = axis_of(self.axis, rank_of(x)), rank_of(x)
        return transpose(ordered, [*range(1, axis + 1), 0, *range(axis + 1, rank)]) if axis else ordered


@operator("Scan", since=9)
def _(call: Call, *inputs: Tensor) -> tuple[Tensor, ...]:
    body, count = call.body("body"), call.integer("num_scan_inputs")
    if not 1 <= count <= len(inputs):
        raise ValueError(f"the attribute 'num_scan_inputs' must be from 1 to {len(inputs)}, not {count}")
    states, given = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    taken = [rows.taken(x) for rows, x in zip(_rows(call, "input", count), given, strict=True)]
    # A read past the end of a shorter one fails.
    sizes = [cast(size, int64) for size in dict.fromkeys([size_at(x, 0) for x in taken])]
    length = functools.reduce(maximum, sizes)
    lists = [TensorArray(x.dtype, size_at(x, 0), clear_after_read=False).unstack(x) for x in taken]

    def step(i: Tensor, keep: Tensor, values: Sequence[Any]) -> tuple[Tensor, list[Carried], list[Tensor]]:
        rows = [each.read(cast(i, int32)) for each in lists]
        made = tensors(call.build(body, [*values, *rows]))
        return keep, [*made[: len(values)]], made[len(values) :]

    results: Any = _looped(lambda i, *_: less(i, length), step, constant(True), states)
    stacked = results[len(states) :]
    made = zip(_rows(call, "output", len(stacked)), stacked, strict=True)
    return (*results[: len(states)], *[rows.placed(x) for rows, x in made])


def _rows(call: Call, which: str, count: int) -> list[_Rows]:
    axes = call.integers(f"scan_{which}_axes", [0] * count)
    directions = call.integers(f"scan_{which}_directions", [0] * count)
    return [_Rows(axis, direction == 1) for axis, direction in zip(axes, directions, strict=True)]
