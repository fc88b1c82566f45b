"""Random programs over three tasks give what they give in one process, whatever is cancelled and whoever fails."""

import asyncio
import dataclasses

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.plan.placement.colocation import is_state
from aioflow.testing import VirtualTimeLoop, no_pending_tasks
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.programs import START, UNARY, Block, Constant, Loop, Slope, Unary, Wait, blocks, built
from tests.support.scale import amount

DEVICES = ["/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1", ""]
CHOICES = st.lists(st.sampled_from(DEVICES), min_size=1, max_size=40)


def travelling(thing):
    """A program without what cannot leave the process: the function that a Wait holds."""
    if isinstance(thing, Wait):
        return Unary(UNARY[0], thing.x)
    if dataclasses.is_dataclass(thing):
        return type(thing)(*[travelling(getattr(thing, field.name)) for field in dataclasses.fields(thing)])
    return tuple(map(travelling, thing)) if isinstance(thing, tuple) else thing


def scattered(choices):
    """A device function: operations ask for the tasks of that list, over and over; those of state for none."""
    count = iter(range(10**9))

    def device(operation):
        if any(is_state(tensor.spec) for tensor in [*operation.inputs, *operation.outputs]):
            return ""
        return choices[next(count) % len(choices)]

    return device


def simulated(program):
    """What `program(cluster)` comes to in virtual time. Nothing of it is left, on any task."""

    async def run():
        with no_pending_tasks():
            async with SimulatedCluster({"ps": 1, "worker": 2}, latency=1e-3) as cluster:
                found = await program(cluster)
                await asyncio.sleep(1.0)
                for server in cluster.servers.values():
                    assert not server._worker.step_table.open
                return found

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run())


async def values_of(program, session):
    await session.run(program.init)
    found = await session.run([*program.results, *program.derivatives], {program.x: START})
    return found + await session.run([state.read_value() for state in program.states])


def check_program(block, order, choices, tolerance=0.0):
    program = built(block, order, scattered(choices))
    alone = built(block, order)

    async def over(cluster):
        async with af.Session(cluster.target("worker", 0), graph=program.graph) as session:
            return await values_of(program, session)

    async def inside(cluster):
        async with af.Session(graph=alone.graph) as session:
            return await values_of(alone, session)

    for value, expected in zip(simulated(over), simulated(inside), strict=True):
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance, strict=True)


@settings(max_examples=amount(6, 15))
@given(blocks().map(travelling), CHOICES)
def test_branches_loops_and_state_are_the_same_over_tasks(block, choices):
    check_program(block, 0, choices)


LOOP = Loop((0, 0, 0), Block((Constant(-0.7),), (0, 0, 0), 0), None, 0, None, 0, 1, False, True)
GRADIENT_OF_LOOPS = Block((Unary("sin", 5), Slope(0, 0), LOOP, Constant(-0.7), Constant(-0.7)), (2, 7), 0)


@settings(max_examples=amount(4, 8))
@given(blocks(depth=2).map(travelling), CHOICES)
@example(GRADIENT_OF_LOOPS, ["/job:ps/task:0", "/job:ps/task:0", "/job:worker/task:0"])
def test_gradients_are_the_same_over_tasks(block, choices):
    """Except for rounding: the partial gradients of a tensor are added device by device."""
    check_program(block, 1, choices, tolerance=1e-12)


RESTARTED = Block((Constant(-0.7), Slope(0, 0)), (0, 0), 0)


@settings(max_examples=amount(8, 20))
@given(blocks().map(travelling), CHOICES, st.floats(0.0, 0.05), st.sampled_from(["cancel", "limit", "crash", "part"]))
@example(RESTARTED, [DEVICES[2], DEVICES[1], DEVICES[0], DEVICES[0], DEVICES[1]], 0.021484375, "crash")
def test_however_a_step_ends_nothing_of_it_is_left_and_the_session_goes_on(block, choices, after, how):
    program = built(block, 0, scattered(choices))

    async def run(cluster):
        async with af.Session(cluster.target("worker", 0), graph=program.graph) as session:
            await session.run(program.init)
            options = af.RunOptions(timeout=after or 1e-3) if how == "limit" else None
            task = asyncio.ensure_future(session.run(program.results, {program.x: START}, options))
            await asyncio.sleep(after)
            if how == "cancel":
                task.cancel()
            elif how == "crash":
                await cluster.crash("worker", 1)
            elif how == "part":
                cluster.network.part("worker1", "worker0")
                cluster.network.part("worker1", "ps0")
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            assert not isinstance(outcome, Exception) or isinstance(outcome, errors.OpError)
            if how == "crash":
                await cluster.start("worker", 1)
            elif how == "part":
                cluster.network.heal("worker1", "worker0")
                cluster.network.heal("worker1", "ps0")
                await asyncio.sleep(10)
            for _ in range(2):  # the first may find that a task has restarted
                with_new = asyncio.ensure_future(session.run(program.init))
                (outcome,) = await asyncio.gather(with_new, return_exceptions=True)
            assert outcome is None
            return await session.run(program.results, {program.x: START})

    simulated(run)
