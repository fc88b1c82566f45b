"""`af.test.compute_gradient`: Jacobians by the gradients of ops, and by differences of values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aioflow.autodiff.gradients import gradients
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.session import Session, get_default_session
from aioflow.tensors.as_array import AnyArray

Jacobians = tuple[AnyArray, AnyArray]
"""The Jacobian by gradients, and that by differences: a row for each element of x, a column for each of y."""


async def compute_gradient(
    x: Tensor | Sequence[Tensor],
    x_shape: Any,
    y: Tensor,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: Mapping[Tensor, Any] | None = None,
) -> Any:
    """Return the Jacobian of y by its gradient, and the same by differences, in the default session.

    They are arrays with a row for each element of x and a column for each element of y; for several xs there is a list
    of such pairs. `aioflow.testing.check_gradients` compares gradients of any order, in double precision.

    Args:
        x: a floating tensor, or several, on which y depends.
        x_shape: the shape of x, or that of each.
        y: the floating tensor that is differentiated.
        y_shape: its shape.
        x_init_value: where the Jacobian is taken; by default at random numbers.
        delta: the shift of an element in each direction.
        init_targets: operations to run before, as the initializers of variables.
        extra_feed_dict: further feeds.

    Raises:
        ValueError: there is no default session, or y does not depend on x.

    Examples:
        >>> x = af.placeholder(af.float64, [2], name="x")
        >>> with session.as_default():
        ...     by_gradient, by_difference = await af.test.compute_gradient(x, [2], x * x, [2], np.array([1.0, 2.0]))
        >>> by_gradient
        array([[2., 0.],
               [0., 4.]])
        >>> np.allclose(by_gradient, by_difference)
        True
    """
    session = get_default_session()
    if session is None:
        raise ValueError("compute_gradient needs a default session: call it within `async with af.Session()`")
    if init_targets is not None:
        await session.run(init_targets)
    one = isinstance(x, Tensor)
    xs, shapes = ([x], [x_shape]) if isinstance(x, Tensor) else ([*x], [*x_shape])
    given = [None] * len(xs) if x_init_value is None else [x_init_value] if one else [*x_init_value]
    random = np.random.default_rng(0)
    points: dict[Tensor, AnyArray] = {
        tensor: np.array(random.random(shape) if value is None else value, tensor.dtype.as_numpy_dtype)
        for tensor, shape, value in zip(xs, shapes, given, strict=True)
    }
    feeds = {**points, **(extra_feed_dict or {})}
    found = [
        (
            await _by_gradient(session, tensor, y, y_shape, feeds),
            await _by_differences(session, tensor, y, feeds, delta),
        )
        for tensor in xs
    ]
    return found[0] if one else found


async def _by_gradient(
    session: Session, x: Tensor, y: Tensor, y_shape: Sequence[int], feeds: Mapping[Tensor, Any]
) -> AnyArray:
    """Return the Jacobian, a column for each run with the gradient 1 at one element of y."""
    with y.graph.as_default():
        seed = placeholder(y.dtype, y_shape)
        (gradient,) = gradients(y, [x], [seed])
    if gradient is None:
        raise ValueError(f"{y.name!r} does not depend on {x.name!r}")
    size = int(np.prod(y_shape))
    units: AnyArray = np.eye(size, dtype=y.dtype.as_numpy_dtype).reshape(size, *y_shape)
    columns = [np.ravel(await session.run(gradient, {**feeds, seed: unit})) for unit in units]
    return np.stack(columns, axis=1) if columns else np.zeros((feeds[x].size, 0), y.dtype.as_numpy_dtype)


async def _by_differences(
    session: Session, x: Tensor, y: Tensor, feeds: Mapping[Tensor, Any], delta: float
) -> AnyArray:
    rows = []
    for place in np.ndindex(feeds[x].shape):
        shift = np.zeros_like(feeds[x])
        shift[place] = delta
        ahead, behind = [np.ravel(await session.run(y, {**feeds, x: feeds[x] + s})) for s in (shift, -shift)]
        rows.append((ahead - behind) / (2 * delta))
    return np.stack(rows) if rows else np.zeros((0, 0), y.dtype.as_numpy_dtype)


async def compute_gradient_error(
    x: Tensor | Sequence[Tensor],
    x_shape: Any,
    y: Tensor,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: Mapping[Tensor, Any] | None = None,
) -> float:
    """Return the greatest difference between the two Jacobians of `af.test.compute_gradient`.

    Examples:
        >>> x = af.placeholder(af.float64, [2], name="x")
        >>> with session.as_default():
        ...     error = await af.test.compute_gradient_error(x, [2], af.tanh(x), [2])
        >>> error < 1e-6
        True
    """
    found = await compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    pairs: list[Jacobians] = [found] if isinstance(x, Tensor) else found
    return max((float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs), default=0.0)
