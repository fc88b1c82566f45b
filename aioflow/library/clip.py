"""Gradients kept within bounds: by their own norm, or by the norm of all of them."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, identity
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import size
from aioflow.kernels.math.arithmetic import add_n, maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.reduction import l2_loss, reduce_sum
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import Spec

Gradient: TypeAlias = Tensor | IndexedSlices


@transactional
def clip_by_norm(
    t: NumberLike | IndexedSlices, clip_norm: NumberLike, axes: Any = None, name: str | None = None
) -> Gradient:
    """`t` scaled down to an L2 norm of `clip_norm` if its norm is larger: t * clip_norm / max(norm(t), clip_norm).

    With `axes`, the norm is taken over these and each slice scaled by its own.

    Examples:
        >>> await session.run(af.clip_by_norm([3.0, 4.0], 1.0))
        array([0.6, 0.8], dtype=float32)
    """
    with name_scope(name, "clip_by_norm") as scope:
        values = _values(t)
        squares = reduce_sum(values * values, axes, keepdims=True)
        positive = squares > 0
        norm = where(positive, sqrt(where(positive, squares, squares + 1.0)), squares)  # no NaN gradient at zero
        bound = convert_to_tensor(clip_norm, values.dtype)
        clipped = identity(values * bound / maximum(norm, bound), name=scope)
        return _restore_shape(t, values, clipped)


@transactional
def global_norm(t_list: Sequence[NumberLike | IndexedSlices | None], name: str | None = None) -> Tensor:
    """The L2 norm of all tensors together: the square root of the sum of their squared norms. None counts nothing.

    0 if there is no tensor.

    Raises:
        TypeError: `t_list` is no list.

    Examples:
        >>> await session.run(af.global_norm([af.constant([3.0]), af.constant([4.0])]))
        np.float32(5.0)
    """
    if not isinstance(t_list, (list, tuple)):
        raise TypeError(f"a list of tensors is needed, not {type(t_list).__name__}")
    with name_scope(name, "global_norm"):
        halves = [l2_loss(_values(t)) for t in t_list if t is not None]
        return sqrt(add_n(halves) * 2.0) if halves else constant(0.0)


@transactional
def clip_by_global_norm(
    t_list: Sequence[NumberLike | IndexedSlices | None],
    clip_norm: NumberLike,
    use_norm: Tensor | None = None,
    name: str | None = None,
) -> tuple[list[Gradient | None], Tensor]:
    """All tensors scaled by one factor so that their global norm is at most `clip_norm`, and the norm they had.

    t * clip_norm / max(global_norm, clip_norm) for each; None stays None. If the norm is not finite, all are NaN, so
    that the fault is seen.

    Examples:
        >>> clipped, norm = af.clip_by_global_norm([af.constant([3.0]), af.constant([4.0])], 1.0)
        >>> await session.run([clipped, norm])
        [[array([0.6], dtype=float32), array([0.8], dtype=float32)], np.float32(5.0)]
    """
    norm = global_norm(t_list) if use_norm is None else use_norm
    with name_scope(name, "clip_by_global_norm"):
        bound = convert_to_tensor(clip_norm, norm.dtype)
        scale = bound * minimum(1.0 / norm, constant(1.0, norm.dtype) / bound)
        scale = scale + (norm - norm)  # NaN unless the norm is finite
        return [None if t is None else _scale(t, scale) for t in t_list], norm


@transactional
def clip_by_average_norm(t: NumberLike, clip_norm: NumberLike, name: str | None = None) -> Tensor:
    """`t` scaled down so that its L2 norm divided by its number of elements is at most `clip_norm`.

    Examples:
        >>> await session.run(af.clip_by_average_norm([3.0, 4.0], 1.0))
        array([1.2, 1.6], dtype=float32)
    """
    with name_scope(name, "clip_by_average_norm") as scope:
        values = convert_to_tensor(t)
        count = cast(size(values), values.dtype)
        clipped = clip_by_norm(values, convert_to_tensor(clip_norm, values.dtype) * count)
        return identity(clipped, name=scope)


def _values(t: NumberLike | IndexedSlices) -> Tensor:
    return t.values if isinstance(t, IndexedSlices) else convert_to_tensor(t)


def _scale(t: NumberLike | IndexedSlices, scale: Tensor) -> Gradient:
    values = _values(t)
    return _restore_shape(t, values, identity(values * scale))


def _restore_shape(t: NumberLike | IndexedSlices, values: Tensor, clipped: Tensor) -> Gradient:
    """`clipped` in the form of `t`; scaling left its shape as it was."""
    clipped.spec = Spec(clipped.dtype, values.shape)
    return IndexedSlices(clipped, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else clipped
