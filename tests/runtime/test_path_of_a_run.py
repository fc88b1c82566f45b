"""How many files of the package a run passes through: a newcomer reads no more to understand it."""

from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow.devices import openmp
from tests.support.called_files import called_files

ONES = np.ones(3, np.float32)
"""A value that needs no conversion."""


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch):
    """A busy machine does not make a light step take long, which would run it on a thread from then on."""
    monkeypatch.setattr("aioflow.waiting.tasks.time", SimpleNamespace(perf_counter=lambda: 0.0))


async def test_a_warm_run_of_a_light_graph_passes_through_at_most_ten_files():
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None])
        scale = af.Variable(np.float32(2))
        y = af.tanh(x * scale) + 1.0
    async with af.Session(graph=graph) as session:
        await session.run(scale.initializer)
        for _ in range(2):
            await session.run(y, {x: ONES})
        openmp.take()  # as if no heavy step had run before
        with called_files() as files:
            found = await session.run(y, {x: ONES})
    np.testing.assert_allclose(found, np.tanh(np.full(3, 2.0)) + 1, rtol=1e-6)
    assert "session/session.py" in files
    assert len(files) <= 10, sorted(files)


async def test_a_warm_callable_passes_through_at_most_ten_files():
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None])
        y = af.reduce_sum(x * x)
    async with af.Session(graph=graph) as session:
        square = session.make_callable(y, [x])
        for _ in range(2):
            await square(ONES)
        with called_files() as files:
            assert await square(ONES) == 3
    assert len(files) <= 10, sorted(files)
