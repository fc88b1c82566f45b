"""Branches and loops: `If` as `cond`, `Loop` and `Scan` as `while_loop`."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.graph.building import get_default_graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse, transpose
from aioflow.kernels.array.constants import constant, placeholder, zeros
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, less, logical_and
from aioflow.library.branches import cond
from aioflow.library.loops import while_loop
from aioflow.library.tensor_array import TensorArray
from aioflow.onnx.call import Call, Value
from aioflow.onnx.model import ValueType
from aioflow.onnx.operators.lists import as_array, loosened, on_trial, tensors
from aioflow.onnx.operators.optionals import Carried, Variable, as_optional, flattened, present, regrouped
from aioflow.onnx.operators.values import axis_of, known_number, rank_of, scalar, size_at
from aioflow.onnx.optional_value import OptionalValue
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import UNKNOWN, TensorShape, int32, int64

Step = Callable[[Tensor, Tensor, Sequence[Variable]], tuple[Tensor, list[Variable], list[Tensor]]]
"""(iteration, whether it goes on, variables) -> the last two after it, and what it adds to the stacked results."""
Loosen = Callable[[TensorShape], TensorShape]

_BRANCHES: Final = ("then_branch", "else_branch")


@operator("If")
def _(call: Call, condition: Tensor) -> tuple[Value, ...]:
    known = known_number(condition)
    if known is not None:
        return tuple(call.build(call.body(_BRANCHES[0 if known else 1]), ()))
    types = [call.body(name).outputs.values() for name in _BRANCHES]
    optional = [any(_is_optional(type) for type in pair) for pair in zip(*types, strict=False)]
    then, otherwise = [functools.partial(_branch, call, name, optional) for name in _BRANCHES]
    return tuple(regrouped(cond(scalar(condition), then, otherwise, strict=True), optional))


def _branch(call: Call, name: str, optional: Sequence[bool]) -> list[Variable]:
    """The outputs of a branch. The other branch may return sequences of other lengths, or fill an optional."""
    body = call.body(name)
    values, types = call.build(body, ()), body.outputs.values()
    if len(values) != len(optional):
        raise ValueError(f"its branches have {len(optional)} and {len(values)} outputs, and not all as many")
    return flattened([_settled(*each) for each in zip(values, types, optional, strict=True)])


def _may_be_empty(value: Value) -> bool:
    return value is None or isinstance(value, OptionalValue)


def _is_optional(declared: ValueType | None) -> bool:
    return declared is not None and declared.kind == "optional"


def _settled(value: Value, declared: ValueType | None, optional: bool) -> Carried:
    """The value as branches return it and loops carry it: a list as a TensorArray, perhaps as an optional.

    ValueError for an empty optional that is none by its declaration.
    """
    if optional:
        return as_optional(value, declared)
    if value is None:
        raise ValueError("a result is an empty optional, and no branch or body declares it as an optional")
    found = present(value)
    return found if isinstance(found, Tensor) else as_array(found, declared)


@operator("Loop")
def _(call: Call, limit: Tensor | None = None, going: Tensor | None = None, *initial: Value) -> tuple[Value, ...]:
    body, count = call.body("body"), len(initial)
    given, types = _types([*body.inputs.values()][2:], count), _types([*body.outputs.values()][1:], count)
    optional = [_is_optional(type) or _may_be_empty(value) for value, type in zip(initial, given, strict=True)]
    first = [_settled(*each) for each in zip(initial, given, optional, strict=True)]
    most = None if limit is None else scalar(limit)

    def test(i: Tensor, keep: Tensor, *_: Any) -> Tensor:
        return keep if most is None else logical_and(less(i, most), keep)

    def step(i: Tensor, keep: Tensor, values: Sequence[Variable]) -> tuple[Tensor, list[Variable], list[Tensor]]:
        keep_going, *made = call.build(body, [i, keep, *regrouped(values, optional)])
        (more,) = tensors([keep_going])
        carried = flattened([_settled(*each) for each in zip(made, types, optional, strict=False)])
        return scalar(more), list(map(_like, carried, values)), tensors(made[count:])

    start = constant(True) if going is None else scalar(going)
    made = _looped(test, step, start, flattened(first))
    last = regrouped(made[: count + sum(optional)], optional)
    ends = [value if _is_optional(type) else present(value) for value, type in zip(last, types, strict=True)]
    return (*ends, *made[count + sum(optional) :])


def _types(declared: Sequence[ValueType], count: int) -> list[ValueType | None]:
    """The types of as many values; None for those that are not declared."""
    return [*declared[:count], *[None] * (count - len(declared))]


def _like(made: Variable, variable: Variable) -> Variable:
    """The next value of a variable: of a sequence no more is known than before."""
    if isinstance(made, TensorArray) and isinstance(variable, TensorArray):
        return loosened(made, variable.element_shape)
    return made


def _looped(
    test: Callable[..., Tensor], step: Step, start: Tensor, initial: Sequence[Variable]
) -> tuple[Variable, ...]:
    """The last values of the variables, and the results of all iterations along a new first axis."""
    added = on_trial(lambda: [part.dtype for part in step(placeholder(int64, []), start, initial)[2]])
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
    return (*values, *[_stacked(part) for part in parts])


def _stacked(part: TensorArray) -> Tensor:
    """What all iterations added; sizes that only they would tell are 0 if there were none."""
    sizes = part.element_shape.sizes
    if sizes is not None and None not in sizes:
        return part.stack()
    nothing = [0, *[size or 0 for size in sizes or ()]]
    found: Tensor = cond(equal(part.size(), 0), lambda: zeros(nothing, part.dtype), part.stack)
    return found


def _opened(value: Variable, shape: TensorShape) -> Variable:
    """A variable whose next values have that shape, too; what a sequence holds is part of its type."""
    return loosened(value, shape) if isinstance(value, TensorArray) else value


def _shape(value: Variable, loosen: Loosen) -> TensorShape:
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

    def step(i: Tensor, keep: Tensor, values: Sequence[Any]) -> tuple[Tensor, list[Variable], list[Tensor]]:
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
