"""Every op that runs on a GPU gives on a real one what it gives on a CPU, alone and in a CUDA graph."""

import numpy as np
import pytest

import aioflow as af
from aioflow.devices.cuda import CudaDriver
from aioflow.devices.gpu import EXPRESSIONS, ChainLink, Gpu, make_chain_kernel
from aioflow.graph.op import REGISTRY
from aioflow.program import capture
from aioflow.tensors.dtypes import DeviceKind
from tests.devices.test_gpu_chains import VALUES, View
from tests.devices.test_gpu_kernels import NAME
from tests.devices.test_gpu_ops import on_gpu
from tests.support.every_op import build, every_op
from tests.support.gpus import RealGpus, needs_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.real, needs_gpu]
RTOL = {2: 1e-2, 4: 2e-4, 8: 1e-8}
"""{bytes of a real number: the relative difference that other orders of sums and other functions make}."""


def agree(found, right):
    """Compare values of a GPU with those of a CPU: its functions differ in their last bits."""
    found, right = np.asarray(found), np.asarray(right)
    assert found.dtype == right.dtype
    assert found.shape == right.shape
    if right.dtype.kind not in "fc" and right.dtype != af.bfloat16.np:
        np.testing.assert_array_equal(found, right)
        return
    rtol = RTOL[right.real.dtype.itemsize]
    wide = np.complex128 if right.dtype.kind == "c" else np.float64
    finite = right[np.isfinite(right)].astype(wide)
    scale = float(np.abs(finite).max()) if finite.size else 1.0
    np.testing.assert_allclose(found.astype(wide), right.astype(wide), rtol=rtol, atol=rtol * min(scale, 1.0) * 0.1)


async def values(graph, wanted, feeds, times=1, **config):
    """What so many runs of a session give."""
    options = {"allow_soft_placement": True, "optimize": False}
    async with af.Session(graph=graph, config=af.Config(**options, **config)) as session:
        return [await session.run(wanted, feeds) for _ in range(times)]


@every_op(on_gpu, most=2)
async def test_an_op_gives_on_a_gpu_what_it_gives_on_a_cpu(name, sample):
    graph, outputs, feeds = build(sample)
    wanted = [tensor for tensor in outputs if tensor.dtype is not af.resource]
    (expected,) = await values(graph, wanted, feeds, device_count={"CPU": 1, "GPU": 0})
    for operation in graph.get_operations():
        operation.device = "/device:GPU:0"
    for options in ({}, {"cuda_graphs": True}):
        for found in await values(graph, wanted, feeds, 1 + 2 * len(options), gpus=[CudaDriver(0)], **options):
            for value, right in zip(found, expected, strict=True):
                assert type(value) is type(right)
                agree(value, right)


@pytest.fixture(autouse=True)
def single_kernels_are_captured(monkeypatch):
    monkeypatch.setattr(capture, "FEWEST", 1)


@pytest.fixture(autouse=True)
def memory_is_free_in_the_end():
    gpus = RealGpus()
    yield
    gpus.check()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_each_op_in_a_chain_is_what_its_kernel_gives(name, dtype):
    count = EXPRESSIONS[name].count("{1}") > 0
    pairs = np.array([(a, b) for a in VALUES for b in VALUES], dtype).T
    arrays = [np.ascontiguousarray(row) for row in pairs[: 1 + count]]
    definition = REGISTRY[name]
    view = View(arrays)
    with np.errstate(all="ignore"):
        expected = definition.kernel_for(DeviceKind.CPU, view.input_specs).bind(definition, view, np)(*arrays)
    gpu = Gpu(CudaDriver(0), NAME)
    there = [gpu.copy_in(array) for array in arrays]
    with gpu:
        made = make_chain_kernel(gpu.xp, [ChainLink(name, range(len(arrays)))], len(arrays), [len(arrays)])(*there)
    found = gpu.peek(made)
    del there, made
    assert gpu.close()
    agree(found, expected)
