"""Assertions: operations that fail the run unless something holds."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, constant_value, convert_to_tensor
from aioflow.graph.op import Ints, Op, T, op
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.kernels.array.constants import no_op
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.debugging import brackets, summarize_value
from aioflow.tensors.dtypes import (
    BOOL,
    COMPLEX,
    FLOAT,
    INTEGER,
    NUMERIC,
    Array,
    DeviceKind,
    DType,
    DTypeLike,
    Namespace,
    Spec,
    as_dtype,
    float32,
)

CPU = DeviceKind.CPU


@op(name="assert", stateful=True)
def Assert(condition: Spec, data: Sequence[Spec], summarize: int | None = None) -> None:
    """`condition`, a scalar, is true; else InvalidArgumentError with the first elements of each of `data`.

    Examples:
        >>> try:
        ...     await session.run(af.Assert(af.constant(1) > 2, ["too small"]))
        ... except af.errors.InvalidArgumentError as error:
        ...     print(error.message)
        assertion failed: [too small]
    """
    condition.only(BOOL).with_rank(0, "condition")


Assert.no_gradient("it has no outputs")


@Assert.kernel(CPU)
def _(xp: Namespace, condition: Array, data: Sequence[Array], *, summarize: int | None) -> None:
    if not condition:
        raise errors.InvalidArgumentError("assertion failed: " + " ".join(brackets([v], summarize) for v in data))


def _comparison(name: str, ufunc: str, symbol: str, holds_for: tuple[int, int]) -> Callable[..., Operation]:
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
            where = _where(~holds, x, y, summarize)
            raise errors.InvalidArgumentError(
                f"{_note(message)}x {symbol} y does not hold for {where} {brackets(data, summarize)}"
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
        return _checked_now(operation, 2, check)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""An operation: x {symbol} y holds for all elements, broadcast.

    Raises:
        InvalidArgumentError: in the run, or when it is built if both are known by then, with the first elements that
            differ, and the first elements of each of `data`.

    Examples:
        >>> x = af.placeholder(af.int32, [])
        >>> with af.control_dependencies([af.{name}(x, {holds_for[1]})]):
        ...     checked = af.identity(x)
        >>> await session.run(checked, {{x: {holds_for[0]}}})
        np.int32({holds_for[0]})
    """
    return build


def _checked_now(operation: Operation, count: int, check: Callable[..., None]) -> Operation:
    """The operation, checked at once if the graph knows its first `count` inputs, those that the assertion is about."""
    values = [constant_value(tensor) for tensor in operation.inputs]
    if all(value is not None for value in values[:count]):
        shown = [value for value in values[count:] if value is not None]
        attrs = operation.attrs
        try:
            with np.errstate(all="ignore"):
                check(np, *values[:count], shown, summarize=attrs["summarize"], message=attrs["message"])
        except errors.InvalidArgumentError as error:
            shapes = [str(tensor.spec) for tensor in operation.inputs]
            line = describe_line(operation)
            raise error.at(operation.name, operation.type, line=line, device=None, shapes=shapes) from None
    return operation


def _note(message: str | None) -> str:
    return f"{message}: " if message else ""


def _where(wrong: Array, x: Array, y: Array, summarize: int | None) -> str:
    """How many elements are `wrong`, and the first of them."""
    left, right = (np.broadcast_to(value, wrong.shape)[wrong] for value in (x, y))
    first = f"x = [{summarize_value(left, summarize)}], y = [{summarize_value(right, summarize)}]"
    return f"{left.size} of {wrong.size} elements: {first}"


assert_equal: Final = _comparison("assert_equal", "equal", "==", (2, 2))
assert_none_equal: Final = _comparison("assert_none_equal", "not_equal", "!=", (1, 2))
assert_less: Final = _comparison("assert_less", "less", "<", (1, 2))
assert_less_equal: Final = _comparison("assert_less_equal", "less_equal", "<=", (2, 2))
assert_greater: Final = _comparison("assert_greater", "greater", ">", (3, 2))
assert_greater_equal: Final = _comparison("assert_greater_equal", "greater_equal", ">=", (2, 2))


def _sign(name: str, compare: Callable[..., Operation], meaning: str, number: int) -> Callable[..., Operation]:
    def build(
        x: TensorLike,
        data: Sequence[TensorLike] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        return compare(x, 0, data, summarize, message, name)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""An operation: every element of x is {meaning}; otherwise as `{compare.__name__}`.

    Examples:
        >>> x = af.placeholder(af.int32, [None])
        >>> await session.run(af.{name}(x), {{x: [{number}, {2 * number}]}})
    """
    return build


assert_positive: Final = _sign("assert_positive", assert_greater, "greater than 0", 1)
assert_negative: Final = _sign("assert_negative", assert_less, "less than 0", -1)
assert_non_negative: Final = _sign("assert_non_negative", assert_greater_equal, "0 or greater", 0)
assert_non_positive: Final = _sign("assert_non_positive", assert_less_equal, "0 or less", 0)


@op(name="assert_near", stateful=True)
def _near(
    x: T, y: T, rtol: T, atol: T, data: Sequence[Spec], summarize: int | None = None, message: str | None = None
) -> None:
    """|x - y| <= atol + rtol |y| holds for all elements, broadcast; else InvalidArgumentError with the first."""
    x.only(NUMERIC).same_dtype(y, rtol, atol).broadcast(y)
    for tolerance in (rtol, atol):
        tolerance.with_shape(x.broadcast(y)).broadcast(tolerance)


_near.no_gradient("it has no outputs")


@_near.kernel(CPU)
def _check_near(
    xp: Namespace,
    x: Array,
    y: Array,
    rtol: Array,
    atol: Array,
    data: Sequence[Array],
    *,
    summarize: int | None,
    message: str | None,
) -> None:
    distance = xp.maximum(x, y) - xp.minimum(x, y) if x.dtype.kind in "iu" else xp.abs(x - y)
    holds = (x == y) | (distance <= xp.abs(atol + rtol * xp.abs(y)))
    if not holds.all():
        where = _where(~holds, x, y, summarize)
        limits = f"atol = {summarize_value(atol)}, rtol = {summarize_value(rtol)}"
        raise errors.InvalidArgumentError(
            f"{_note(message)}x and y are not near for {where}, {limits} {brackets(data, summarize)}"
        )


@transactional
def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: TensorLike | None = None,
    atol: TensorLike | None = None,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation: |x - y| <= atol + rtol |y| for all elements, broadcast. NaN is near to nothing.

    Both tolerances are ten times the distance from 1 to the next number of the dtype, unless they are given; 0 for
    integers.

    Raises:
        InvalidArgumentError: in the run, or when it is built if all is known by then, as `assert_equal`.

    Examples:
        >>> x = af.placeholder(af.float32, [])
        >>> check = af.assert_near(x, 1.0, atol=0.1)
        >>> await session.run(check, {x: 1.05})
        >>> try:
        ...     await session.run(check, {x: 1.5})
        ... except af.errors.InvalidArgumentError:
        ...     print("too far")
        too far
    """
    given: Any = next((v for v in (x, y) if isinstance(getattr(v, "dtype", None), DType)), None)
    first = convert_to_tensor(x, None if given is None else given.dtype)
    Spec(first.dtype).only(NUMERIC)
    by_default = _ten_steps(first.dtype)
    tolerances = [by_default if tolerance is None else tolerance for tolerance in (rtol, atol)]
    operation = _near(first, y, *tolerances, list(data or ()), summarize=summarize, message=message, name=name)
    return _checked_now(operation, 4, _check_near)


def _ten_steps(dtype: DType) -> Any:
    if dtype.is_integer:
        return 0
    return 10 * 2.0 ** -_PRECISION[dtype.real.name] if dtype.real.name in _PRECISION else 0


_PRECISION = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7, "float8_e4m3fn": 3, "float8_e5m2": 2}
"""Bits of the fraction."""


# Ranks


def _about_rank(name: str, holds: Callable[[int, Any], bool], words: str) -> Callable[..., Operation]:
    """An assertion about x's rank and `wanted`, an integer or several."""

    def rule(
        shape: Ints, wanted: Ints, data: Sequence[Spec], summarize: int | None = None, message: str | None = None
    ) -> None:
        for each in (shape, wanted):
            each.only(INTEGER)

    rule.__doc__ = f"The rank of the tensor of that shape is {words} `wanted`; else InvalidArgumentError."
    made: Op[Operation] = op(name=name, stateful=True)(rule)
    made.no_gradient("it has no outputs")

    @made.kernel(CPU)
    def check(
        xp: Namespace,
        shape: Array,
        wanted: Array,
        data: Sequence[Array],
        *,
        summarize: int | None,
        message: str | None,
    ) -> None:
        if not holds(len(shape), wanted.tolist()):
            text = f"{_note(message)}a rank {words} {wanted.tolist()} is needed, the shape is {shape.tolist()}"
            raise errors.InvalidArgumentError(" ".join(filter(None, (text, brackets(data, summarize)))))

    def build(
        x: TensorLike,
        rank: TensorLike,
        data: Sequence[TensorLike] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        tensor = convert_to_tensor(x)
        wanted = convert_to_tensor(rank, preferred_dtype="int32")
        Spec(wanted.dtype).only(INTEGER)
        number, known = constant_value(wanted), tensor.spec.rank
        if number is not None and known is not None:
            if not holds(known, number.tolist()):
                raise ValueError(
                    f"{_note(message)}a rank {words} {number.tolist()} is needed, {tensor.name} has shape "
                    f"{tensor.shape}"
                )
            return no_op(name=name or made.name)
        return made(shape(tensor), wanted, list(data or ()), summarize=summarize, message=message, name=name)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""An operation: the rank of x is {words} the one given.

    Raises:
        ValueError: it is not, as is known when it is built.
        InvalidArgumentError: it is not, as is found in the run, with the first elements of each of `data`.

    Examples:
        >>> x = af.placeholder(af.float32)
        >>> await session.run(af.{name}(x, 2), {{x: [[1.0]]}})
    """
    return transactional(build)


assert_rank: Final = _about_rank("assert_rank", lambda found, wanted: found == wanted, "equal to")
assert_rank_at_least: Final = _about_rank("assert_rank_at_least", lambda found, wanted: found >= wanted, "of at least")
_assert_rank_in = _about_rank("assert_rank_in", lambda found, wanted: found in wanted, "among")


def assert_rank_in(
    x: TensorLike,
    ranks: Iterable[TensorLike] | Tensor,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation: the rank of x is one of `ranks`; otherwise as `assert_rank`.

    Examples:
        >>> x = af.placeholder(af.float32)
        >>> await session.run(af.assert_rank_in(x, (1, 2)), {x: [1.0]})
    """
    return _assert_rank_in(x, ranks if isinstance(ranks, Tensor) else list(ranks), data, summarize, message, name)


@transactional
def assert_scalar(tensor: TensorLike, name: str | None = None, message: str | None = None) -> Tensor:
    """`tensor`, which is known to have rank 0. ValueError if that is not known.

    Examples:
        >>> af.assert_scalar(af.constant(1)).shape
        TensorShape([])
    """
    made = convert_to_tensor(tensor, name=name)
    if made.spec.rank != 0:
        raise ValueError(f"{_note(message)}{made.name} must be known to be a scalar, its shape is {made.shape}")
    return made


# Dtypes


@transactional
def assert_type(
    tensor: TensorLike, tf_type: DTypeLike, message: str | None = None, name: str | None = None
) -> Operation:
    """An operation that does nothing. TypeError, when it is built, unless the tensor has that dtype.

    Examples:
        >>> check = af.assert_type(af.ones([2]), af.float32)
    """
    made, wanted = convert_to_tensor(tensor), as_dtype(tf_type)
    if made.dtype is not wanted:
        raise TypeError(f"{_note(message)}{made.name} has dtype {made.dtype.name}, not {wanted.name}")
    return no_op(name=name or "assert_type")


@transactional
def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> Operation:
    """An operation that does nothing. TypeError, when it is built, unless x is of an integer dtype.

    Examples:
        >>> af.assert_integer(af.constant([1, 2])).type
        'no_op'
    """
    made = convert_to_tensor(x)
    if not made.dtype.is_integer:
        raise TypeError(f"{_note(message)}{made.name} has dtype {made.dtype.name}, which holds no integers")
    return no_op(name=name or "assert_integer")


def assert_same_float_dtype(tensors: Iterable[Any] | None = None, dtype: DTypeLike | None = None) -> DType:
    """The floating dtype that all of the tensors have, `dtype` if it is given; float32 if nothing is.

    Raises:
        ValueError: one has another dtype, or it is not floating.

    Examples:
        >>> af.assert_same_float_dtype([af.constant(1.0), af.constant(2.0)])
        af.float32
    """
    wanted = None if dtype is None else as_dtype(dtype)
    for tensor in tensors or ():
        found = tensor.dtype if isinstance(getattr(tensor, "dtype", None), DType) else convert_to_tensor(tensor).dtype
        if wanted not in (None, found):
            raise ValueError(f"{tensor!r} has dtype {found.name}, not {wanted}")
        wanted = found
    if wanted not in FLOAT | {None}:
        raise ValueError(f"a floating dtype is needed, not {wanted}")
    return wanted or float32
