"""Checks the gradients of an op, or of a function composed of ops, against finite differences.

    await check_gradients(af.matmul, [numpy.ones((2, 3)), numpy.ones((3, 4))])

The function is built once on placeholders. Each element of each floating or complex input is shifted a little in both
directions. The change of the outputs, weighted by fixed random numbers, must agree with the result of `gradients`. For
the second order, the first gradients are the function, and its inputs are the inputs and the weights.
"""

import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from aioflow.autodiff.gradients import gradients
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.session import Session
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import Array

Compute: TypeAlias = Callable[[Sequence[Tensor], Mapping[Tensor, Array]], Any]
"""(fetches, feeds) -> their values, or an awaitable of the values."""
Build: TypeAlias = Callable[..., Any]


async def check_gradients(
    build: Build,
    inputs: Sequence[Array],
    order: int = 2,
    *,
    compute: Compute | None = None,
    atol: float = 1e-5,
    rtol: float = 1e-5,
    step: float = 1e-5,
    seed: int = 0,
) -> None:
    """Check that the gradients of `build` are correct at `inputs`, up to the given order.

    Args:
        build: a function from tensors to one or several tensors; it must be smooth near the inputs.
        inputs: its arguments. Floating ones are checked as float64, complex ones as complex128; others are constant.
        order: 1 for gradients, 2 for gradients of gradients too, and so on.
        compute: runs the graph: (fetches, feeds) -> values, or an awaitable of the values. By default a local session.
        atol: the allowed error of a derivative.
        rtol: an additional allowed error, relative to the largest derivative with respect to the same input.
        step: the shift of an element in each direction, relative to its size if that is above 1.
        seed: seed of the random weights.

    Raises:
        AssertionError: a gradient is wrong. The text names the op, the input and the element, and states the error.

    Examples:
        >>> from aioflow.testing import check_gradients
        >>> await check_gradients(lambda x: af.tanh(x), [np.array([0.5, 1.0])])
    """
    graph = Graph()
    arrays = [_to_double(value) for value in inputs]
    with graph.as_default():
        points = {
            placeholder(value.dtype, value.shape, name=f"input_{index}"): value for index, value in enumerate(arrays)
        }
        outputs = _differentiable(build(*points))
        if not outputs:
            raise AssertionError("the function has no floating or complex output that could be differentiated")
        label = outputs[0].op.type
        async with _runner(graph, compute) as run:
            checker = _Checker(run, label, atol, rtol, step, np.random.default_rng(seed))
            for number in range(1, order + 1):
                outputs = await checker.check(outputs, points, number)


def _to_double(value: Array) -> AnyArray:
    """Return a copy of `value` in the precision that finite differences need."""
    array = np.array(value)
    dtype = dtypes.as_dtype(array.dtype)
    if dtype.is_differentiable:
        return array.astype(np.complex128 if dtype.is_complex else np.float64)
    return array


def _differentiable(result: Any) -> list[Tensor]:
    values = result if isinstance(result, (list, tuple)) else [result]
    tensors = [convert_to_tensor(value) for value in values if value is not None]
    return [tensor for tensor in tensors if tensor.dtype.is_differentiable]


Run: TypeAlias = Callable[[Sequence[Tensor], Mapping[Tensor, Array]], Awaitable[list[AnyArray]]]


@contextlib.asynccontextmanager
async def _runner(graph: Graph, compute: Compute | None) -> AsyncIterator[Run]:
    async with contextlib.AsyncExitStack() as stack:
        if compute is None:
            compute = (await stack.enter_async_context(Session(graph=graph))).run
        given = compute

        async def run(fetches: Sequence[Tensor], feeds: Mapping[Tensor, Array]) -> list[AnyArray]:
            values = given(list(fetches), dict(feeds))
            return [np.asarray(value) for value in (await values if inspect.isawaitable(values) else values)]

        yield run


class _Checker:
    """Compares derivatives, one order after the other."""

    def __init__(
        self, run: Run, label: str, atol: float, rtol: float, step: float, random: np.random.Generator
    ) -> None:
        self._run = run
        self._label = label
        self._atol = atol
        self._rtol = rtol
        self._step = step
        self._random = random

    async def check(self, outputs: Sequence[Tensor], points: dict[Tensor, AnyArray], order: int) -> list[Tensor]:
        """Compare the gradients of `outputs` with differences. Returns them, and adds their weights to `points`."""
        moved = [tensor for tensor in points if tensor.dtype.is_differentiable]
        values = await self._run(outputs, points)
        weights = [self._weights(value) for value in values]
        seeds = [placeholder(w.dtype, w.shape, name=f"weight_{order}_{i}") for i, w in enumerate(weights)]
        found = _differentiable(gradients(outputs, moved, seeds, unconnected_gradients="zero"))
        points.update(zip(seeds, weights, strict=True))
        symbolic = await self._run(found, points)
        wrong = []
        for tensor, gradient in zip(moved, symbolic, strict=True):
            numeric = await self._numeric_gradient(outputs, weights, points, tensor)
            wrong.extend(self._compare(tensor, gradient, numeric))
        if wrong:
            raise AssertionError("\n".join([f"the gradient of {self._label!r} is wrong at order {order}", *wrong]))
        return found

    def _weights(self, value: AnyArray) -> AnyArray:
        weights = self._random.standard_normal(value.shape)
        if value.dtype.kind == "c":
            weights = weights + 1j * self._random.standard_normal(value.shape)
        return np.asarray(weights, value.dtype)

    async def _numeric_gradient(
        self, outputs: Sequence[Tensor], weights: Sequence[AnyArray], points: dict[Tensor, AnyArray], tensor: Tensor
    ) -> AnyArray:
        """Return the derivative of the weighted outputs with respect to each element of `tensor`."""
        result = np.zeros_like(points[tensor])
        for place in np.ndindex(result.shape):
            for direction in (1, 1j) if result.dtype.kind == "c" else (1,):
                step = self._step * float(np.maximum(1, np.abs(points[tensor][place])))
                ahead, behind = [
                    await self._run(outputs, {**points, tensor: _shift(points[tensor], place, direction * sign * step)})
                    for sign in (1, -1)
                ]
                change = sum(
                    np.sum((np.conj(w) * (a - b)).real) for w, a, b in zip(weights, ahead, behind, strict=True)
                )
                result[place] += direction * change / (2 * step)
        return result

    def _compare(self, tensor: Tensor, symbolic: AnyArray, numeric: AnyArray) -> list[str]:
        """Return a sentence if the two differ."""
        if symbolic.shape != numeric.shape:
            return [f"  {tensor.op.name}: the gradient has shape {symbolic.shape}, the input {numeric.shape}"]
        difference = np.abs(symbolic - numeric)
        allowed = self._atol + self._rtol * np.max(np.abs(numeric), initial=0)
        if np.all(difference <= allowed):  # also false for NaN
            return []
        place = tuple(int(i) for i in np.unravel_index(np.argmax(np.nan_to_num(difference, nan=np.inf)), numeric.shape))
        relative = difference[place] / np.maximum(np.abs(numeric[place]), np.finfo(np.float64).tiny)
        return [
            f"  {tensor.op.name}{list(place)}: the gradient is {symbolic[place]:.9g}, differences give "
            f"{numeric[place]:.9g}: off by {difference[place]:.3g} ({relative:.3g} relative)"
        ]


def _shift(value: AnyArray, place: tuple[int, ...], by: complex) -> AnyArray:
    moved = value.copy()
    moved[place] += by if value.dtype.kind == "c" else by.real
    return moved
