"""The benchmark of training on a GPU compares like with like: the step by hand is that of the graph."""

import numpy as np
import pytest

from aioflow.devices.gpu import Gpu
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from benchmarks import gpu_convnet
from benchmarks.gpu import GPU
from benchmarks.gpu_convnet import by_graph, by_hand
from benchmarks.lenet import Problem


@pytest.mark.parametrize("block", [gpu_convnet.BLOCK, 1 << 18])
async def test_both_steps_have_the_same_losses(monkeypatch, block):
    monkeypatch.setattr(gpu_convnet, "BLOCK", block)
    problem = Problem(batch=7, rate=0.05)
    step = by_hand(np, problem)
    async with by_graph(problem, "/cpu:0") as graph_step:
        ours = [await graph_step() for _ in range(3)]
    theirs = [step() for _ in range(3)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert len({float(loss) for loss in theirs}) == 3


async def test_both_steps_multiply_as_many_matrices_on_a_gpu():
    problem = Problem(batch=7)
    machine, other = Machine(), Machine()
    async with by_graph(problem, GPU, gpus=[FakeGpu(machine)]) as graph_step:
        await graph_step()
        before = products(machine)
        ours = await graph_step()
        launched = products(machine) - before
    gpu = Gpu(FakeGpu(other), "/job:localhost/replica:0/task:0/device:GPU:0")
    with gpu:
        step = by_hand(gpu.xp, problem)
        step()
        before = products(other)
        theirs = float(step())
        assert products(other) - before == launched > 0
    gpu.close()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def products(machine):
    return machine.launches["matmul"] + machine.launches["dot"]
