"""Branches and loops nested 1 to 30 deep, with their gradient: building and the first run, beside TensorFlow."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from benchmarks import peers
from benchmarks.harness import excuse
from benchmarks.report import Claim, Row, span

DEPTHS = (1, 5, 10, 20, 30)
LINEAR = 3.0
"""The limit for the time per level at the largest depth, as a multiple of that at 5: gradients pass values through all
levels.
"""


def loops(af: Any, depth: int, x: Any) -> Any:
    """Nest loops of three operations each."""
    if not depth:
        return af.tanh(x)
    return af.while_loop(lambda i, v: i < 1, lambda i, v: (i + 1, loops(af, depth - 1, v * 1.01)), [0, x])[1]


def branches(af: Any, depth: int, x: Any) -> Any:
    """Nest branches; the outer one is taken."""
    if not depth:
        return af.tanh(x)
    return af.cond(x > -1e9, lambda: branches(af, depth - 1, x * 1.01), lambda: x * 2.0)


async def rows() -> AsyncIterator[Row]:
    """Measure a row for each kind of nest."""
    for name, build in (("while_loop", loops), ("cond", branches)):
        for with_gradient in (False, True):
            yield await nest(name, build, with_gradient)


async def nest(name: str, build: Callable[[Any, int, Any], Any], with_gradient: bool) -> Row:
    """Return the seconds by depth on both sides, the best of three."""
    ours = {depth: min([await aioflow(build, depth, with_gradient) for _ in range(3)]) for depth in DEPTHS}
    figures = {peers.AIOFLOW: told(ours)}
    ratio = None
    try:
        theirs = {depth: min(tensorflow(build, depth, with_gradient) for _ in range(3)) for depth in DEPTHS}
        figures[peers.TENSORFLOW] = told(theirs)
        ratio = ours[DEPTHS[-1]] / theirs[DEPTHS[-1]]
    except Exception as error:
        figures[peers.TENSORFLOW] = excuse(error)
    growth = ours[DEPTHS[-1]] / DEPTHS[-1] / (ours[5] / 5)
    claims = [
        Claim("aioflow, time per level at 30 / at 5", growth, LINEAR),
        Claim("aioflow / TensorFlow at 30", ratio, 1.0),
    ]
    return Row(f"nested {name}{' with its gradient' * with_gradient}, build and first run", figures, claims)


def told(seconds: dict[int, float]) -> str:
    """Return the seconds by depth."""
    return ", ".join(f"{depth}: {span(each)}" for depth, each in seconds.items())


async def aioflow(build: Callable[[Any, int, Any], Any], depth: int, with_gradient: bool) -> float:
    """Return the seconds to build the graph and run it once."""
    af = peers.aioflow()
    began = time.perf_counter()
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [])
        y = build(af, depth, x)
        fetch = af.gradients(y, x)[0] if with_gradient else y
    async with af.Session(graph=graph) as session:
        await session.run(fetch, {x: 0.3})
    return time.perf_counter() - began


def tensorflow(build: Callable[[Any, int, Any], Any], depth: int, with_gradient: bool) -> float:
    """Return the same for TensorFlow."""
    tf = peers.tensorflow()
    began = time.perf_counter()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        y = build(tf, depth, x)
        fetch = tf.gradients(y, x)[0] if with_gradient else y
        with tf.Session() as session:
            session.run(fetch, {x: 0.3})
    return time.perf_counter() - began
