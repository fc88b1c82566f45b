"""Ops whose kernels are functions of the test's own: light ones, ones that go to a thread, ones that wait."""

from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np

from aioflow.graph.op import op
from aioflow.tensors.dtypes import Array, DeviceKind, Namespace, Spec
from aioflow.testing import Gate

CPU = DeviceKind.CPU


def same(value: Array) -> Array:
    return value


@op(name="test_light", stateful=True)
def light(x: Spec, function: Callable[[Array], Array] = same) -> Spec:
    """`function(x)`, on the loop."""
    return x


@light.kernel(CPU)
def _(xp: Namespace, x: Array, *, function: Callable[[Array], Array]) -> Array:
    return function(x)


@op(name="test_heavy", stateful=True)
def heavy(x: Spec, function: Callable[[Array], Array] = same) -> Spec:
    """`function(x)`, on a compute thread however fast it is."""
    return x


@heavy.kernel(CPU)
def _(xp: Namespace, x: Array, *, function: Callable[[Array], Array]) -> Array:
    return function(x)


@heavy.cost
def _(inputs: Any, outputs: Any, attrs: Any) -> float:
    return 1e300


@op(name="test_waiting", waits=True)
def waiting(x: Spec, function: Callable[[Array], Coroutine[Any, Any, Array]]) -> Spec:
    """`await function(x)`."""
    return x


@waiting.kernel(CPU)
async def _(xp: Namespace, x: Array, *, function: Callable[[Array], Coroutine[Any, Any, Array]]) -> Array:
    return await function(x)


for _made in (light, heavy, waiting):
    _made.no_gradient("a test's function has none")


def gated(x: Any, gate: Gate, name: str | None = None) -> Any:
    """A tensor equal to `x`, once the gate is open."""

    async def wait(value: Array) -> Array:
        await gate.wait()
        return value

    return waiting(x, wait, name=name)


def failing(x: Any, error: BaseException, name: str | None = None) -> Any:
    """A tensor whose kernel raises `error`, on the loop."""

    def fail(value: Array) -> Array:
        raise error

    return light(x, fail, name=name)


def value_of(array: Any) -> Any:
    """A copy as Python's own numbers."""
    return np.array(array).tolist()
