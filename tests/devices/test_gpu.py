"""The contract of devices on real GPUs, and what can be asked of CuPy without one."""

import importlib.util
import itertools

import numpy as np
import pytest

from aioflow import errors
from aioflow.devices.cuda import CudaDriver, device_count
from aioflow.devices.gpu import Gpu
from aioflow.devices.transfer import move
from aioflow.tensors.dtypes import as_dtype
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

    def keep_busy(self, gpu):
        with gpu:
            x = gpu.xp.ones((4096, 4096), np.float32)
            for _ in range(50):
                gpu.xp.matmul(x, x)

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


SHAPES = [
    ((3, 4), (4, 5)), ((1, 4), (4, 1)), ((3, 1), (1, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)), ((2, 3, 3, 4), (2, 3, 4, 5)), ((3, 0), (0, 5)), ((0, 4), (4, 5)), ((2, 3, 4), (1, 4, 5)),
    ((64, 200), (200, 300)),
]  # fmt: skip
TOLERANCES = {
    "float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-5, "float64": 1e-12, "complex64": 1e-5, "complex128": 1e-12,
}  # fmt: skip


@needs_gpu
@pytest.mark.gpu
@pytest.mark.real
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_products_by_cublas_are_those_of_numpy(gpus, dtype):
    random, gpu = np.random.default_rng(3), gpus[0]
    wide = np.complex128 if dtype.startswith("complex") else np.float64

    def placed(x, turned):
        x = gpu.copy_in(np.ascontiguousarray(x.swapaxes(-1, -2)) if turned else x)
        return x.swapaxes(-1, -2) if turned else x

    for shapes, turned, into in itertools.product(SHAPES, itertools.product([False, True], repeat=2), [False, True]):
        a, b = [random.standard_normal(shape).astype(as_dtype(dtype).np) for shape in shapes]
        expected = np.matmul(a.astype(wide), b.astype(wide))
        x, y = placed(a, turned[0]), placed(b, turned[1])
        with gpu:
            out = gpu.xp.full(expected.shape, 7, x.dtype) if into else None
            made = gpu.xp.matmul(x, y, out=out)
        assert out is None or made is out
        found = gpu.peek(made).astype(wide)
        np.testing.assert_allclose(found, expected, rtol=TOLERANCES[dtype], atol=10 * TOLERANCES[dtype])


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
