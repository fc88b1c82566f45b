"""Faults that tests put into kernels."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import Gate, faulty_kernel


@pytest.fixture
def graph():
    with af.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_a_kernel_fails_in_the_call_that_is_asked_for(graph, executor):
    x = af.placeholder(af.float32, [])
    y = af.tanh(x)
    with faulty_kernel("tanh", at=2, error=af.errors.DataLossError("a bit has flipped")) as fault:
        async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
            assert await session.run(y, {x: 0}) == 0
            with pytest.raises(af.errors.DataLossError, match="a bit has flipped") as caught:
                await session.run(y, {x: 0})
            assert caught.value.op == "tanh"
            assert await session.run(y, {x: 0}) == 0
    assert fault.calls == 3


async def test_without_a_number_every_call_fails(graph):
    x = af.placeholder(af.float32, [2])
    y = af.sin(x)
    with faulty_kernel("sin", error=ValueError("no sine today")):
        async with af.Session(graph=graph) as session:
            for _ in range(2):
                with pytest.raises(af.errors.InvalidArgumentError, match="no sine today"):
                    await session.run(y, {x: [1, 2]})


async def test_kernels_are_whole_again_after_the_block(graph):
    x = af.placeholder(af.float32, [])
    y = af.tanh(x)
    with faulty_kernel("tanh", error=ValueError()):
        pass
    async with af.Session(graph=graph) as session:
        np.testing.assert_allclose(await session.run(y, {x: 1}), np.tanh(1), rtol=1e-6)


async def test_a_gate_holds_a_kernel_that_waits(graph):
    queue = af.FIFOQueue(3, [af.int32], shapes=[[]])
    put, take, gate = queue.enqueue(7), queue.dequeue(), Gate()
    with faulty_kernel("queue_dequeue", gate=gate) as fault:
        async with af.Session(graph=graph) as session:
            await session.run(put)
            task = asyncio.create_task(session.run(take))
            await gate.arrived()
            assert (session.queue(queue).size, fault.calls) == (1, 0)
            gate.open()
            assert await task == 7


def test_what_does_not_wait_cannot_be_held():
    with pytest.raises(TypeError, match="tanh does not wait"), faulty_kernel("tanh", gate=Gate()):
        pass
    with pytest.raises(KeyError), faulty_kernel("no_such_op"):
        pass
