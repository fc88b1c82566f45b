"""Simulated hosts whose work takes time on a virtual clock."""

import asyncio
import math

import pytest

import aioflow as af
from aioflow.testing.processors import Costs, Processor
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.scale import amount

LATENCY = 50e-6


def test_a_processor_does_one_thing_after_the_other():
    processor = Processor(Costs(message=2.0, byte=0.5, node=3.0))
    assert processor.handle(b"ab", 10.0) == 13.0
    assert processor.handle(b"", 11.0) == 15.0
    processor.run_nodes(2, 12.0)
    assert processor.handle(b"", 30.0) == 32.0
    assert processor.send(b"abcd", 40.0) == 44.0
    assert processor.worked == 3.0 + 2.0 + 6.0 + 2.0 + 4.0
    assert processor.sent == 1


async def seconds_of_a_step(workers, costs):
    with af.Graph().as_default() as graph:
        operations = []
        for worker in range(workers):
            with af.device(f"/job:worker/task:{worker}"):
                operations.append(af.no_op())
    async with (
        SimulatedCluster({"worker": workers}, latency=LATENCY, costs=costs) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        step = session.make_callable(operations)
        await step()
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        await step()
        return asyncio.get_running_loop().time() - began


async def test_without_costs_a_step_takes_the_time_of_its_messages_however_many_workers_there_are():
    few, many = [await seconds_of_a_step(workers, None) for workers in (2, 12)]
    assert few == pytest.approx(many) == pytest.approx(4 * LATENCY)


async def test_with_costs_the_master_takes_time_for_each_worker():
    costs = Costs(message=1e-3, byte=0.0, node=0.0)
    few, many = [await seconds_of_a_step(workers, costs) for workers in (2, 12)]
    assert many - few == pytest.approx(10 * 2e-3, rel=0.15)


async def test_the_time_of_a_null_step_grows_with_the_logarithm_of_the_workers():
    most = amount(50, 300)
    one, few, many = [await seconds_of_a_step(workers, Costs()) for workers in (1, 10, most)]
    assert many < one * (1 + math.log2(most))
    assert many < 3 * few
