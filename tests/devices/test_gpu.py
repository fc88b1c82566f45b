"""The contract of devices on real GPUs, and what can be asked of CuPy without one."""

import importlib.util

import numpy as np
import pytest

from aioflow import errors
from aioflow.devices.cuda import CudaDriver, device_count
from aioflow.devices.gpu import Gpu
from aioflow.devices.transfer import move
from aioflow.testing.fake_namespace import ABSENT
from tests.support.device_contract import CPU, DeviceTests

NAME = "/job:localhost/replica:0/task:0/device:GPU:"
needs_gpu = pytest.mark.skipif(device_count() == 0, reason="CuPy is not installed, or sees no GPU")
needs_cupy = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")


@pytest.fixture
def gpus():
    second = 1 if device_count() > 1 else 0  # one GPU is two devices then
    made = [Gpu(CudaDriver(index), f"{NAME}{number}") for number, index in enumerate((0, second))]
    yield made
    for gpu in made:
        assert gpu.close()


@needs_gpu
@pytest.mark.gpu
@pytest.mark.real
class TestGpu(DeviceTests):
    """What the fake GPU does, real ones do."""

    async def test_memory_that_is_used_up_is_resource_exhausted(self, gpu):
        x = await move(np.ones(1000), CPU, gpu)
        with pytest.raises(errors.ResourceExhaustedError, match="GPU:0"), gpu:
            gpu.xp.empty(1 << 50, np.uint8)
        with gpu:
            x = x + 1
        np.testing.assert_array_equal(await move(x, gpu, CPU), np.full(1000, 2))

    async def test_convolution_gives_what_the_cpu_gives(self, gpu):
        import aioflow as af
        from tests.support.evaluate import View, evaluate

        random = np.random.default_rng(1)
        x, w = random.standard_normal((2, 8, 8, 3)), random.standard_normal((3, 3, 3, 4))
        with af.Graph().as_default():
            y = af.nn.conv2d(af.constant(x), af.constant(w), [1, 1, 1, 1], "SAME")
        view = View(y.op)
        kernel = y.op.definition.kernel_for(gpu.kind, view.input_specs, view.output_specs)
        images, filters = await move(x, CPU, gpu), await move(w, CPU, gpu)
        with gpu:
            made = kernel.bind(y.op.definition, view, gpu.xp)(images, filters)
        np.testing.assert_allclose(await move(made, gpu, CPU), evaluate(y), rtol=1e-9)


@needs_cupy
@pytest.mark.gpu
def test_the_fake_namespace_lacks_what_cupy_lacks():
    import cupy

    for name in ABSENT - {"random"}:
        found = cupy
        for part in name.split("."):
            found = getattr(found, part, None)
        assert found is None, f"CuPy has {name}"


def test_a_process_without_gpus_counts_none():
    assert device_count() >= 0
