"""Assertions: operations that fail the run unless something holds."""

from collections.abc import Callable, Sequence

import numpy as np

from aioflow import errors
from aioflow.convert import TensorLike, constant_value
from aioflow.dtypes import BOOL, COMPLEX, NUMERIC, Array, DeviceKind, Namespace, Spec
from aioflow.graph import transactional
from aioflow.kernels.debugging import brackets, summarize_value
from aioflow.node import Operation, describe_line
from aioflow.op import Op, T, op

CPU = DeviceKind.CPU


@op(name="assert", stateful=True)
def Assert(condition: Spec, data: Sequence[Spec], summarize: int | None = None) -> None:
    """`condition`, a scalar, is true; else InvalidArgumentError with the first elements of each of `data`."""
    condition.only(BOOL).with_rank(0)


Assert.no_gradient("it has no outputs")


@Assert.kernel(CPU)
def _(xp: Namespace, condition: Array, data: Sequence[Array], *, summarize: int | None) -> None:
    if not condition:
        raise errors.InvalidArgumentError("assertion failed: " + " ".join(brackets([v], summarize) for v in data))


def _comparison(name: str, ufunc: str, symbol: str) -> Callable[..., Operation]:
    """An assertion about each pair of elements of x and y: an op, and the function of TensorFlow's signature."""

    def rule(x: T, y: T, data: Sequence[Spec], summarize: int | None = None, message: str | None = None) -> None:
        if ufunc not in ("equal", "not_equal"):
            x.only(NUMERIC - COMPLEX)
        x.same_dtype(y).broadcast(y)

    rule.__doc__ = (
        f"x {symbol} y holds for all elements, broadcast; else InvalidArgumentError with the first that differ."
    )
    made: Op[Operation] = op(name=name, stateful=True)(rule)
    made.no_gradient("it has no outputs")

    @made.kernel(CPU)
    def check(
        xp: Namespace, x: Array, y: Array, data: Sequence[Array], *, summarize: int | None, message: str | None
    ) -> None:
        holds = getattr(xp, ufunc)(x, y)
        if not holds.all():
            note = f"{message}: " if message else ""
            where = _where(~holds, x, y, summarize)
            raise errors.InvalidArgumentError(
                f"{note}x {symbol} y does not hold for {where} {brackets(data, summarize)}"
            )

    @transactional
    def build(
        x: TensorLike,
        y: TensorLike,
        data: Sequence[TensorLike] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        operation = made(x, y, list(data or ()), summarize=summarize, message=message, name=name)
        left, right, *others = [constant_value(tensor) for tensor in operation.inputs]
        if left is not None and right is not None:
            shown = [value for value in others if value is not None]
            try:
                check(np, left, right, shown, summarize=summarize, message=message)
            except errors.InvalidArgumentError as error:
                shapes = [str(tensor.spec) for tensor in operation.inputs]
                line = describe_line(operation)
                raise error.at(operation.name, operation.type, line=line, device=None, shapes=shapes) from None
        return operation

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""An operation: x {symbol} y holds for all elements, broadcast.

    Raises:
        InvalidArgumentError: in the run, or when it is built if both are known by then, with the first elements that
            differ, and the first elements of each of `data`.
    """
    return build


def _where(wrong: Array, x: Array, y: Array, summarize: int | None) -> str:
    """How many elements are `wrong`, and the first of them."""
    left, right = (np.broadcast_to(value, wrong.shape)[wrong] for value in (x, y))
    first = f"x = [{summarize_value(left, summarize)}], y = [{summarize_value(right, summarize)}]"
    return f"{left.size} of {wrong.size} elements: {first}"


assert_equal = _comparison("assert_equal", "equal", "==")
assert_none_equal = _comparison("assert_none_equal", "not_equal", "!=")
assert_less = _comparison("assert_less", "less", "<")
assert_less_equal = _comparison("assert_less_equal", "less_equal", "<=")
assert_greater = _comparison("assert_greater", "greater", ">")
assert_greater_equal = _comparison("assert_greater_equal", "greater_equal", ">=")


def _sign(name: str, compare: Callable[..., Operation], meaning: str) -> Callable[..., Operation]:
    def build(
        x: TensorLike,
        data: Sequence[TensorLike] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        return compare(x, 0, data, summarize, message, name)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"An operation: every element of x is {meaning}; otherwise as `{compare.__name__}`."
    return build


assert_positive = _sign("assert_positive", assert_greater, "greater than 0")
assert_negative = _sign("assert_negative", assert_less, "less than 0")
assert_non_negative = _sign("assert_non_negative", assert_greater_equal, "0 or greater")
assert_non_positive = _sign("assert_non_positive", assert_less_equal, "0 or less")


__all__ = [
    "Assert", "assert_equal", "assert_greater", "assert_greater_equal", "assert_less", "assert_less_equal",
    "assert_negative", "assert_non_negative", "assert_non_positive", "assert_none_equal", "assert_positive",
]  # fmt: skip
