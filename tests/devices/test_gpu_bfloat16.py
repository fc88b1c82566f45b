"""bfloat16 on a GPU: the ops that CuPy computes in it run there with the values of the CPU, the others on the CPU."""

import gc

import numpy as np
import pytest

import aioflow as af
from aioflow.devices.gpu import EXPRESSIONS, Gpu
from aioflow.graph.gpu_dtypes import BFLOAT16
from aioflow.graph.op import REGISTRY
from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.tensors.dtypes import DeviceKind, Spec, TensorShape
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_namespace import WITHOUT_BFLOAT16
from aioflow.testing.fake_streams import Machine

NAME = "/job:localhost/replica:0/task:0/device:GPU:0"
VALUES = np.array([[0.5, 1.25, 3.0], [2.0, 0.0078125, 7.5]], np.float32)


async def on(device, build, **options):
    """The values, as float32, and the launches of a graph whose operations ask for the device."""
    machine = Machine()
    with af.Graph().as_default() as graph, af.device(device):
        x, y = af.placeholder(af.bfloat16, [2, 3]), af.placeholder(af.bfloat16, [2, 3])
        fetches = build(x, y)
    config = af.Config(gpus=[FakeGpu(machine)], **options)
    async with af.Session(graph=graph, config=config) as session:
        feeds = {x: VALUES.astype(af.bfloat16.np), y: (VALUES[::-1] + 1).astype(af.bfloat16.np)}
        found = [await session.run(fetches, feeds) for _ in range(3)]
    gc.collect()
    machine.run()
    machine.check()
    return [np.asarray(value, np.float32) for value in found[-1]], machine.launches


def elementwise(x, y):
    return [
        af.tanh(x), af.exp(-x), af.log(y), af.sqrt(x), af.square(x), af.sigmoid(x), af.maximum(x, y), x + y, x - y,
        x * y, x / y, af.abs(-x), af.floor(x), af.cast(x < y, af.float32),
    ]  # fmt: skip


def products(x, y):
    return [af.matmul(x, y, transpose_b=True), af.cast(x, af.float32) * 3, af.cast(af.cast(y, af.float32), af.bfloat16)]


def chain(x, y):
    return [af.tanh(x * y + x) * af.exp(-x) - y]


@pytest.mark.parametrize("build", [elementwise, products, chain])
@pytest.mark.parametrize("options", [{}, {"fuse_elementwise": False}, {"cuda_graphs": True}])
async def test_values_in_bfloat16_are_those_of_the_cpu(build, options):
    found, launches = await on("/gpu:0", build, **options)
    wanted, _ = await on("/cpu:0", build)
    for value, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, right, rtol=2**-7)
    assert launches.total() > 0


async def test_chains_of_bfloat16_are_kernels_that_round_each_value():
    fused, launches = await on("/gpu:0", chain)
    alone, _ = await on("/gpu:0", chain, fuse_elementwise=False)
    np.testing.assert_array_equal(fused, alone)
    assert launches == {"aioflow_chain": 6}  # in each run one of x alone, and one of both


def test_only_listed_ops_take_bfloat16_on_a_gpu():
    spec = Spec(af.bfloat16, TensorShape([2, 3]))
    REGISTRY.complete()
    on_gpu = [name for name, op in REGISTRY.items() if DeviceKind.GPU in op.kernels and name not in PRIMITIVES]
    found = {name for name in on_gpu if REGISTRY[name].kernel_for(DeviceKind.GPU, [spec], [spec]) is not None}
    assert found <= BFLOAT16
    assert found >= {"add", "matmul", "cast", "tanh", "exp", "reshape"}
    assert set(REGISTRY) >= BFLOAT16
    assert BFLOAT16 & set(EXPRESSIONS) > {"add", "multiply", "tanh"}


async def test_other_ops_on_bfloat16_run_on_the_cpu_or_are_refused():
    found, _ = await on("/gpu:0", lambda x, y: [af.reduce_sum(x * y)], allow_soft_placement=True)
    np.testing.assert_allclose(found[0], (VALUES * (VALUES[::-1] + 1)).sum(), rtol=0.02)
    with pytest.raises(af.errors.InvalidArgumentError, match="reduce_sum has no kernel"):
        await on("/gpu:0", lambda x, y: [af.reduce_sum(x * y)])


def test_the_fake_gpu_refuses_what_cupy_lacks():
    gpu = Gpu(FakeGpu(Machine()), NAME)
    there = gpu.copy_in(VALUES.astype(af.bfloat16.np))
    with gpu:
        for name in ("clip", "all", "logical_not"):
            assert name in WITHOUT_BFLOAT16
            with pytest.raises(TypeError, match="takes no bfloat16"):
                getattr(gpu.xp, name)(there)
        with pytest.raises(TypeError, match="a GPU has no dtype float8_e5m2"):
            there.astype(af.float8_e5m2.np)
    gpu.close()
