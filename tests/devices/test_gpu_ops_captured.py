"""Every op of a GPU gives the same in a CUDA graph, or is launched alone as before."""

import gc

import pytest

import aioflow as af
from aioflow.program import capture
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from tests.devices.test_gpu_ops import on_gpu
from tests.support.every_op import agree, build, every_op


@pytest.fixture(autouse=True)
def single_kernels_are_captured(monkeypatch):
    monkeypatch.setattr(capture, "FEWEST", 1)


@every_op(on_gpu, most=1)
async def test_an_op_gives_in_a_graph_what_it_gives_alone(name, sample):
    machine = Machine()
    graph, outputs, feeds = build(sample)
    for operation in graph.get_operations():
        operation.device = "/device:GPU:0"
    wanted = [tensor for tensor in outputs if tensor.dtype is not af.resource]
    found = []
    for graphs in (True, False):
        config = af.Config(gpus=[FakeGpu(machine)], allow_soft_placement=True, optimize=False, cuda_graphs=graphs)
        async with af.Session(graph=graph, config=config) as session:
            found.append([await session.run(wanted, feeds) for _ in range(3)])
    for captured, alone in zip(*found, strict=True):
        for value, right in zip(captured, alone, strict=True):
            assert type(value) is type(right)
            agree(value, right)
    del session
    gc.collect()
    machine.run()
    machine.check()
