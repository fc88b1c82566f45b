"""Diagonals and bands of matrices, one matrix or a batch of them in the last two axes.

Diagonal k of a matrix is where column - row = k: 0 is the main one, those with k > 0 lie above it. Where an op takes
several, `k` is the pair (lowest, highest); their elements are the rows of a matrix, the highest diagonal first, each
from its beginning, and padded at its end to the length of the longest.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.families import CPU, GPU, from_sizes
from aioflow.kernels.linalg.matrices import LINEAR
from aioflow.tensors.dtypes import BOOL, NUMERIC, Array, Namespace, Sizes, Spec, TensorShape

Band: TypeAlias = int | Sequence[int]
"""One diagonal, or the lowest and the highest of several."""
Function = Callable[..., Array]


def _matrices(x: Spec) -> Spec:
    if x.rank is not None and x.rank < 2:
        raise ValueError(f"a matrix has at least rank 2, the shape is {x.shape}")
    return x.only(NUMERIC, BOOL)


def _ends(k: Band) -> tuple[int, int]:
    ends = (k, k) if isinstance(k, int) else tuple(k)
    lowest, highest = ends[0], ends[-1]
    if len(ends) > 2 or lowest > highest:
        raise ValueError(f"k is one diagonal, or the lowest and the highest of several, not {k}")
    return lowest, highest


def _longest(rows: int, columns: int, ends: tuple[int, int]) -> int:
    """The length of the longest of these diagonals. ValueError if one is outside of the matrix."""
    for k in ends:
        if k and not -rows < k < columns:
            raise ValueError(f"a matrix of {rows} rows and {columns} columns has no diagonal {k}")
    lowest, highest = ends
    return min(rows + min(highest, 0), columns - max(lowest, 0))


def _length(rows: int, columns: int, k: int) -> int:
    return min(rows + min(k, 0), columns - max(k, 0))


def _count(ends: tuple[int, int]) -> tuple[int, ...]:
    """The axis for several diagonals, if there are several."""
    return () if ends[0] == ends[1] else (ends[1] - ends[0] + 1,)


# Reading diagonals


@op
def matrix_diag_part(input: Spec, name: str | None = None, k: Band = 0, padding_value: float = 0) -> Spec:
    """The elements of diagonal `k` of each matrix; of several, one row each, padded with `padding_value`.

    Examples:
        >>> await session.run(af.matrix_diag_part([[1, 2], [3, 4]]))
        array([1, 4], dtype=int32)
    """
    ends, sizes = _ends(k), _matrices(input).sizes
    if sizes is None:
        return Spec(input.dtype)
    rows, columns = sizes[-2:]
    length = None if rows is None or columns is None else _longest(rows, columns, ends)
    return Spec(input.dtype, TensorShape((*sizes[:-2], *_count(ends), length)))


@matrix_diag_part.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    (x,), k = op.inputs, op.attrs["k"]
    rows, columns = (None, None) if x.spec.sizes is None else x.spec.sizes[-2:]
    if rows is None or columns is None:
        return matrix_set_diag(OPERATORS["zeros_like"](x), dy, k=k)
    return matrix_diag(dy, None, k, rows, columns)


@matrix_diag_part.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    ends, padding = _ends(node.attrs["k"]), node.attrs["padding_value"]
    lowest, highest = ends

    def one(x: Array) -> Array:
        _longest(x.shape[-2], x.shape[-1], ends)
        return x.diagonal(lowest, -2, -1)

    def several(x: Array) -> Array:
        *batch, rows, columns = x.shape
        result = xp.full((*batch, *_count(ends), _longest(rows, columns, ends)), padding, x.dtype)
        for row, k in enumerate(range(highest, lowest - 1, -1)):
            result[..., row, : _length(rows, columns, k)] = x.diagonal(k, -2, -1)
        return result

    return one if lowest == highest else several


# Writing diagonals


@op
def matrix_diag(
    diagonal: Spec,
    name: str | None = None,
    k: Band = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    padding_value: float = 0,
) -> Spec:
    """Matrices with `diagonal` on diagonal `k`, or rows of it on several, and `padding_value` elsewhere.

    They are square and as small as can be, unless a number of rows or columns other than -1 is given.

    Examples:
        >>> await session.run(af.matrix_diag([1, 2]))
        array([[1, 0],
               [0, 2]], dtype=int32)
    """
    ends, sizes = _ends(k), diagonal.only(NUMERIC, BOOL).sizes
    if sizes is None:
        return Spec(diagonal.dtype)
    axes = 1 + len(_count(ends))
    if len(sizes) < axes or not TensorShape(sizes[-axes:-1]).is_compatible_with(_count(ends)):
        raise ValueError(f"{ends[1] - ends[0] + 1} diagonals do not have shape {diagonal.shape}")
    return Spec(diagonal.dtype, TensorShape((*sizes[:-axes], *_sizes(sizes[-1], ends, num_rows, num_cols))))


def _sizes(length: int | None, ends: tuple[int, int], rows: int, columns: int) -> Sizes:
    """The rows and columns of a matrix whose longest diagonal has that length."""
    if length is None:
        return (None if rows < 0 else rows), (None if columns < 0 else columns)
    least = length - min(ends[1], 0), length + max(ends[0], 0)
    if rows < 0 and columns < 0:
        return (max(least),) * 2
    found = (least[0] if rows < 0 else rows), (least[1] if columns < 0 else columns)
    if _longest(*found, ends) != length:
        raise ValueError(f"diagonals of length {length} do not fit a matrix of {found[0]} rows and {found[1]} columns")
    return found


from_sizes(matrix_diag)


@matrix_diag.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return matrix_diag_part(dy, k=op.attrs["k"])


@matrix_diag.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    rows, columns, padding = (node.attrs[name] for name in ("num_rows", "num_cols", "padding_value"))
    ends = _ends(node.attrs["k"])
    axes = 1 + len(_count(ends))

    def laid_out(x: Array) -> Array:
        whole = (*x.shape[:-axes], *_sizes(x.shape[-1], ends, rows, columns))
        result = xp.full(whole, padding, x.dtype) if padding else xp.zeros(whole, x.dtype)
        _write(result, x, ends)
        return result

    return laid_out


@op
def matrix_set_diag(input: T, diagonal: T, name: str | None = None, k: Band = 0) -> Spec:
    """`input` with `diagonal` on diagonal `k` of each matrix, or rows of it on several.

    Examples:
        >>> await session.run(af.matrix_set_diag([[1, 2], [3, 4]], [7, 8]))
        array([[7, 2],
               [3, 8]], dtype=int32)
    """
    part = matrix_diag_part.rule(_matrices(input).same_dtype(diagonal), None, k)
    if not part.shape.is_compatible_with(diagonal.shape):
        raise ValueError(f"diagonals of shape {part.shape} are needed for {input.shape}, not {diagonal.shape}")
    batch = diagonal.sizes and diagonal.sizes[: -1 - len(_count(_ends(k)))]
    if batch is None or (input.sizes is not None and None not in input.sizes[:-2]):
        return input if input.known is None else Spec(input.dtype, input.shape)
    return Spec(input.dtype, input.shape.merge_with([*batch, None, None]))


@matrix_set_diag.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    k = op.attrs["k"]
    return matrix_set_diag(dy, OPERATORS["zeros_like"](op.inputs[1]), k=k), matrix_diag_part(dy, k=k)


@matrix_set_diag.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    ends = _ends(node.attrs["k"])

    def replaced(x: Array, diagonal: Array) -> Array:
        *batch, rows, columns = x.shape
        if diagonal.shape != (*batch, *_count(ends), _longest(rows, columns, ends)):
            raise errors.InvalidArgumentError(
                f"shape {list(diagonal.shape)} is not the shape of the diagonal of {list(x.shape)}"
            )
        result = xp.array(x, order="C")
        _write(result, diagonal, ends)
        return result

    return replaced


def _write(y: Array, diagonals: Array, ends: tuple[int, int]) -> None:
    """Put `diagonals` into y, which is C-contiguous, so that a diagonal is a slice of its flat matrices."""
    *batch, rows, columns = y.shape
    flat = y.reshape(*batch, rows * columns)
    lowest, highest = ends
    for row, k in enumerate(range(highest, lowest - 1, -1)):
        start, length = max(k, 0) - min(k, 0) * columns, _length(rows, columns, k)
        diagonal = diagonals if lowest == highest else diagonals[..., row, :length]
        flat[..., start : start + length * (columns + 1) : columns + 1] = diagonal


# Bands


@op
def matrix_band_part(input: Spec, num_lower: Ints, num_upper: Ints) -> Spec:
    """`input` with zeros outside of a band: `num_lower` diagonals below the main one and `num_upper` above it.

    A negative number keeps all: (-1, 0) is the lower triangle, (0, -1) the upper one, (0, 0) the diagonal.

    Examples:
        >>> await session.run(af.matrix_band_part([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 0, 1))
        array([[1, 2, 0],
               [0, 5, 6],
               [0, 0, 9]], dtype=int32)
    """
    sizes = _matrices(input).sizes
    for number, what, axis in ((num_lower, "num_lower", -2), (num_upper, "num_upper", -1)):
        _check_number(known.scalar(number, what), what, None if sizes is None else sizes[axis])
    return input if input.known is None else Spec(input.dtype, input.shape)


def _check_number(number: int | None, what: str, size: int | None) -> None:
    if number is not None and size is not None and number > size:
        raise ValueError(f"{what} is negative or at most {size}, not {number}")


@matrix_band_part.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return matrix_band_part(dy, *op.inputs[1:]), None, None


@matrix_band_part.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype, sizes = node.output_specs[0].dtype.np, node.output_specs[0].sizes
    numbers = known.constant(node, 1), known.constant(node, 2)
    where, zero = xp.where, xp.zeros((), dtype)
    if sizes is None or None in (*sizes[-2:], *numbers):
        return lambda x, lower, upper: where(_band(xp, x.shape, int(lower), int(upper)), x, zero)
    mask = _band(xp, sizes, *numbers)
    return lambda x, lower, upper: where(mask, x, zero)


def _band(xp: Namespace, shape: Sequence[Any], lower: int, upper: int) -> Array:
    """True inside of the band."""
    rows, columns = shape[-2:]
    _check_number(lower, "num_lower", rows)
    _check_number(upper, "num_upper", columns)
    below = xp.arange(rows)[:, None] - xp.arange(columns)
    inside = xp.ones((rows, columns), bool) if lower < 0 else below <= lower
    return inside if upper < 0 else inside & (below >= -upper)


@op
def lower_half(x: Spec) -> Spec:
    """The lower triangle of each matrix, with half of its diagonal: L where x = L + adjoint(L)."""
    if x.rank is not None and x.rank < 2:
        raise ValueError(f"a matrix has at least rank 2, the shape is {x.shape}")
    return x.only(LINEAR)


@lower_half.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return lower_half(dy)


@lower_half.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array) -> Array:
    return (xp.tril(x) + xp.tril(x, -1)) / 2


OPERATORS.update(lower_half=lower_half, matrix_band_part=matrix_band_part, matrix_diag=matrix_diag,
                 matrix_diag_part=matrix_diag_part, matrix_set_diag=matrix_set_diag)  # fmt: skip
