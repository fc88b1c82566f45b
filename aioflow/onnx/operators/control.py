"""Branches and loops: `If` as `cond`, `Loop` and `Scan` as `while_loop`."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aioflow import errors
from aioflow.graph.building import get_default_graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse, transpose
from aioflow.kernels.array.constants import constant
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less, logical_and
from aioflow.library.branches import cond
from aioflow.library.loops import while_loop
from aioflow.library.tensor_array import TensorArray
from aioflow.onnx.call import Call, Value
from aioflow.onnx.operators.values import axis_of, known_number, rank_of, scalar, size_at
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import UNKNOWN, DType, TensorShape, int32, int64


@operator("If")
def _(call: Call, condition: Tensor) -> tuple[Value, ...]:
    then, otherwise = (functools.partial(call.build, call.body(f"{name}_branch"), ()) for name in ("then", "else"))
    known = known_number(condition)
    if known is not None:
        return tuple(then() if known else otherwise())
    return tuple(cond(scalar(condition), then, otherwise, strict=True))


@operator("Loop")
def _(call: Call, limit: Tensor | None = None, going: Tensor | None = None, *initial: Tensor) -> tuple[Tensor, ...]:
    body = call.body("body")
    most = None if limit is None else scalar(limit)

    def test(i: Tensor, keep: Tensor, *_: Any) -> Tensor:
        return keep if most is None else logical_and(less(i, most), keep)

    def step(i: Tensor, keep: Tensor, values: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        keep_going, *made = _tensors(call.build(body, [i, keep, *values]))
        return scalar(keep_going), made[: len(values)], made[len(values) :]

    start = constant(True) if going is None else scalar(going)
    return _looped(test, step, start, initial)


def _tensors(values: Sequence[Value]) -> list[Tensor]:
    """The values, all of which must be tensors. UnimplementedError for others."""
    for value in values:
        if not isinstance(value, Tensor):
            raise errors.UnimplementedError("a loop carries tensors, and not sequences or optionals")
    return list(values)  # type: ignore[arg-type]


Step = Callable[[Tensor, Tensor, Sequence[Tensor]], tuple[Tensor, list[Tensor], list[Tensor]]]
"""(iteration, whether it goes on, variables) -> the last two after it, and what it adds to the stacked results."""


def _looped(test: Callable[..., Tensor], step: Step, start: Tensor, initial: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The last values of the variables, and the results of all iterations along a new first axis."""
    arrays = [TensorArray(dtype, 0, dynamic_size=True) for dtype in _stacked_dtypes(step, start, initial)]

    def body(i: Tensor, keep: Tensor, values: Any, parts: Any) -> Any:
        going, made, new = step(i, keep, values)
        written = [array.write(cast(i, int32), part) for array, part in zip(parts, new, strict=True)]
        return i + constant(1, int64), going, made, written

    first = (constant(0, int64), start, list(initial), arrays)
    for invariants in _invariants(first):
        try:
            _, _, values, parts = while_loop(test, body, first, invariants)
            break
        except ValueError as error:
            failed = error
    else:
        raise failed
    return (*values, *[part.stack() for part in parts])


class _Undone(Exception):
    """Ends a trial, so that its operations are taken back."""


def _stacked_dtypes(step: Step, start: Tensor, initial: Sequence[Tensor]) -> list[DType]:
    """The dtypes of what an iteration adds to the stacked results, from building one on trial."""
    found: list[DType] = []
    with contextlib.suppress(_Undone), get_default_graph().transaction():
        found += [part.dtype for part in step(constant(0, int64), start, initial)[2]]
        raise _Undone
    return found


def _invariants(first: tuple[Any, ...]) -> Iterator[Any]:
    """The shapes that hold in all iterations: those of the first values; then their ranks alone; then any."""
    i, keep, values, arrays = first
    for loosen in (_itself, _rank_alone, _anything):
        yield (i.shape, keep.shape, [loosen(value.shape) for value in values], [UNKNOWN for _ in arrays])


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
    states, given = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    taken = [rows.taken(x) for rows, x in zip(_rows(call, "input", count), given, strict=True)]
    length = cast(size_at(taken[0], 0), int64)
    lists = [TensorArray(x.dtype, size_at(x, 0), clear_after_read=False).unstack(x) for x in taken]

    def step(i: Tensor, keep: Tensor, values: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        rows = [each.read(cast(i, int32)) for each in lists]
        made = _tensors(call.build(body, [*values, *rows]))
        return keep, made[: len(values)], made[len(values) :]

    results = _looped(lambda i, *_: less(i, length), step, constant(True), states)
    stacked = results[len(states) :]
    made = zip(_rows(call, "output", len(stacked)), stacked, strict=True)
    return (*results[: len(states)], *[rows.placed(x) for rows, x in made])


def _rows(call: Call, which: str, count: int) -> list[_Rows]:
    axes = call.integers(f"scan_{which}_axes", [0] * count)
    directions = call.integers(f"scan_{which}_directions", [0] * count)
    return [_Rows(axis, direction == 1) for axis, direction in zip(axes, directions, strict=True)]
