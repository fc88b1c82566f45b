"""Every op that runs on a GPU does so in a session, whatever memory its inputs and outputs are in."""

import gc

import aioflow as af
from aioflow.graph.op import REGISTRY
from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.tensors.dtypes import DeviceKind
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from tests.support.every_op import agree, build, every_op


def on_gpu(name, sample):
    return name in REGISTRY and name not in (*PRIMITIVES, "swap_out") and DeviceKind.GPU in REGISTRY[name].kernels


@every_op(on_gpu, most=1)
async def test_a_session_gives_on_a_gpu_what_it_gives_on_a_cpu(name, sample):
    machine = Machine()
    gpu = FakeGpu(machine)
    graph, outputs, feeds = build(sample)
    for operation in graph.get_operations():
        operation.device = "/device:GPU:0"
    wanted = [tensor for tensor in outputs if tensor.dtype is not af.resource]
    config = {"allow_soft_placement": True, "optimize": False}
    async with af.Session(graph=graph, config=af.Config(gpus=[gpu], **config)) as session:
        found = await session.run(wanted, feeds)
    async with af.Session(graph=graph, config=af.Config(**config)) as session:
        expected = await session.run(wanted, feeds)
    for value, right in zip(found, expected, strict=True):
        assert type(value) is type(right)
        agree(value, right)
    del found
    gc.collect()
    machine.run()
    machine.check()
    assert gpu.used == 0
