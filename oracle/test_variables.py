"""Programs with variables do the same in TensorFlow: names, collections, values after updates, classes of errors."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioflow as af
from oracle.both import tensorflow

tf: Any = tensorflow()
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]


def names(m: Any, key: str = "variables") -> list[str]:
    return [each.name for each in m.get_collection(key)]


def opened(m: Any, *args: Any, **options: Any) -> str:
    with m.variable_scope(*args, **options) as scope:
        return str(scope.name)


def reused(m: Any) -> Any:
    parts = m.get_variable("v", initializer=m.ones([6, 2]), partitioner=m.fixed_size_partitioner(3))
    with m.variable_scope("", reuse=True):
        return m.get_variable("v", [6, 2]) is parts, names(m)


def recorded(m: Any) -> Any:
    def record(getter: Any, name: str, **options: Any) -> Any:
        seen.append((name, sorted(options)))
        return getter(name, **options)

    seen: list[Any] = []
    with m.variable_scope("s", custom_getter=record):
        m.get_variable("v", [1])
        m.get_variable("w", [1], custom_getter=lambda getter, name, **options: getter(name + "_2", **options))
    return seen, names(m)


def counted(m: Any) -> Any:
    w, counter = m.Variable([1.0, 2.0], name="w"), m.Variable(0, name="counter")
    pairs = m.train.GradientDescentOptimizer(0.1).compute_gradients(m.reduce_sum(w))
    return [(gradient is None, variable.name) for gradient, variable in pairs], counter.name


BUILT: dict[str, Callable[[Any], Any]] = {
    "a variable in parts": reused,
    "getters": recorded,
    "a counter": counted,
    "strings": lambda m: m.get_variable("s", [2], m.string).dtype.base_dtype.name,
    "a template": lambda m: m.make_template("t", lambda: m.get_variable("v", [1]))().name,
    "a reused default name": lambda m: opened(m, None, "s", reuse=True),
    "a wrong reuse": lambda m: opened(m, "s", reuse="yes"),
    "a wrong getter": lambda m: m.get_variable("v", [1], custom_getter=3),
    "a wrong partitioner": lambda m: m.get_variable("v", [1], partitioner=3),
    "a wrong dtype": lambda m: m.get_variable("v", dtype=m.float32, initializer=m.constant([1])),
    "a wrong shape": lambda m: m.Variable([1.0, 2.0]).set_shape([3]),
    "strings added": lambda m: m.scatter_add(m.Variable(["a"]), [0], ["b"]),
    "no iterations": lambda m: m.while_loop(lambda i: i < 3, lambda i: i + 1, [0], parallel_iterations=0),
    "boundaries": lambda m: m.train.piecewise_constant(m.constant(1), [1.5], [1.0, 2.0]),
    "rates": lambda m: m.train.piecewise_constant(m.constant(1), [1], [1.0, 2]),
    "no queue": lambda m: m.train.QueueRunner(),
    "Zeros": lambda m: m.zeros_initializer(m.int32).get_config(),
    "RandomNormal": lambda m: m.random_normal_initializer(1.0, 2.0, 3).get_config(),
    "VarianceScaling": lambda m: m.variance_scaling_initializer(2.0, "fan_out", seed=3).get_config(),
    "Orthogonal": lambda m: m.orthogonal_initializer(2.0, 3).get_config(),
}


def outcome(m: Any, build: Callable[[Any], Any]) -> Any:
    """The result of the program, or the class of its error."""
    with m.Graph().as_default():
        try:
            return build(m)
        except Exception as error:
            return type(error).__name__


@pytest.mark.parametrize("program", BUILT)
def test_graphs_are_built_alike(program: str) -> None:
    assert outcome(af, BUILT[program]) == outcome(tf, BUILT[program])


def rows(m: Any, values: list[float], indices: list[int]) -> Any:
    return m.IndexedSlices(m.constant(values), m.constant(indices))


UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda m, v: v.scatter_add(rows(m, [2.0, 3.0], [1, 1])),
    "sub": lambda m, v: v.scatter_sub(rows(m, [2.0, 3.0], [1, 1])),
    "mul": lambda m, v: v.scatter_mul(rows(m, [2.0, 3.0], [1, 1])),
    "div": lambda m, v: v.scatter_div(rows(m, [2.0], [0])),
    "min": lambda m, v: v.scatter_min(rows(m, [0.0, 7.0], [0, 1])),
    "max": lambda m, v: v.scatter_max(rows(m, [0.0, 7.0], [0, 1])),
    "update": lambda m, v: v.scatter_update(rows(m, [7.0], [2])),
    "nd_add": lambda m, v: v.scatter_nd_add([[1], [1]], [7.0, 1.0]),
    "nd_sub": lambda m, v: v.scatter_nd_sub([[0]], [7.0]),
    "nd_update": lambda m, v: v.scatter_nd_update([[2]], [7.0]),
}


async def updated(m: Any, update: Callable[[Any, Any], Any], **options: Any) -> Any:
    async def value_of(found: Any) -> Any:
        return await found if inspect.isawaitable(found) else found

    with m.Graph().as_default():
        v = m.Variable([1.0, 2.0, 4.0], **options)
        changed, session = update(m, v), m.Session()
        await value_of(session.run(v.initializer))
        return np.asarray(await value_of(session.run(changed))).tolist(), await value_of(session.close())


@pytest.mark.parametrize("name", UPDATES)
def test_rows_are_updated_alike(name: str) -> None:
    expected = asyncio.run(updated(tf, UPDATES[name], use_resource=True))
    assert asyncio.run(updated(af, UPDATES[name])) == expected
