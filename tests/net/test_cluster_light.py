"""Shares of a step that are over at once: they belong to their session and their step as others do."""

import asyncio
import json

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.control.lossy import lossy_encode_top_k, lossy_residual
from aioflow.kernels.state.run_state import restore_run_counts, run_counts
from aioflow.testing.simulated_cluster import SimulatedCluster

MASTER, OTHER = "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def cluster():
    async def fail(x):
        await asyncio.sleep(0.5)  # when the other share is over
        raise ValueError("boom")

    async with SimulatedCluster({"worker": 2}, latency=1e-3, py_funcs={"fail": fail}) as cluster:
        yield cluster


def session(cluster, graph):
    return af.Session(cluster.target("worker", 0), graph=graph)


async def test_how_often_operations_ran_is_told_of_the_own_session_alone(cluster, graph):
    told = af.placeholder(af.string, [])
    with af.device(OTHER):
        x = af.random_uniform([], seed=1)
        counts, restored = run_counts(), restore_run_counts(told)
    async with session(cluster, graph) as mine, session(cluster, graph) as others:
        first = [await mine.run(x) for _ in range(3)]
        await others.run(x)
        found = json.loads(await mine.run(counts))
        assert found == {x.op.name: 3}
        await mine.run(restored, {told: json.dumps(dict.fromkeys(found, 0))})
        assert [await mine.run(x) for _ in range(3)] == first
        assert json.loads(await others.run(counts)) == {x.op.name: 1}


async def test_what_a_share_at_once_has_changed_is_taken_back_if_another_fails(cluster, graph):
    x = af.placeholder(af.float32, [8])
    with af.device(OTHER):
        encoded, fresh = [lossy_encode_top_k(x, lossy_residual(), 0.25) for _ in range(2)]
    with af.device(MASTER):
        bad = af.py_func("fail", [0.0], af.float32)
    values = {x: np.arange(1.0, 9.0, dtype=np.float32)}
    async with session(cluster, graph) as opened:
        with pytest.raises(errors.OpError, match="boom"):
            await opened.run([encoded, bad], values)
        np.testing.assert_array_equal(await opened.run(encoded, values), await opened.run(fresh, values))
