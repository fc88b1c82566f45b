import numpy as np
import pytest

from aioflow.devices.gpu import EXPRESSIONS, ChainLink, Gpu, fusible, make_chain_kernel
from aioflow.graph.op import REGISTRY
from aioflow.tensors.dtypes import DeviceKind, bool_, float32, float64, int32, spec_of
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from tests.devices.test_gpu_kernels import NAME

VALUES = np.array([-2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.25, np.inf, -np.inf, np.nan])


@pytest.fixture
def gpu():
    gpu = Gpu(FakeGpu(Machine(strict=True)), NAME)
    yield gpu
    gpu.close()


def computed(gpu, links, arrays, results):
    there = [gpu.copy_in(array) for array in arrays]
    with gpu:
        made = make_chain_kernel(gpu.xp, links, len(arrays), results)(*there)
    return [part._data for part in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_each_op_in_a_chain_is_what_its_kernel_gives(gpu, name, dtype):
    count = EXPRESSIONS[name].count("{1}") > 0
    pairs = np.array([(a, b) for a in VALUES for b in VALUES], dtype).T
    arrays = [np.ascontiguousarray(row) for row in pairs[: 1 + count]]
    (made,) = computed(gpu, [ChainLink(name, range(len(arrays)))], arrays, [len(arrays)])
    definition = REGISTRY[name]
    kernel = definition.kernel_for(DeviceKind.GPU, View(arrays).input_specs)
    with gpu, np.errstate(all="ignore"):
        call = kernel.bind(definition, View(arrays), np)
        expected = call(*arrays)
    assert made.dtype == dtype
    np.testing.assert_allclose(made, expected, rtol=1e-6)


class View:
    """A node of arrays whose shapes are known."""

    def __init__(self, arrays):
        self.name = "x"
        self.attrs = {}
        self.input_specs = [spec_of(array) for array in arrays]
        self.output_specs = [spec_of(arrays[0])]

    def constant(self, index):
        return None


def test_a_chain_is_one_launch_and_keeps_what_is_asked_for(gpu):
    x, y = np.arange(6.0).reshape(2, 3), np.array(2.0)
    links = [
        ChainLink("multiply", (0, 1)),
        ChainLink("add", (2, 0)),
        ChainLink("tanh", (3,)),
        ChainLink("subtract", (4, 2)),
    ]
    third, last = computed(gpu, links, [x, y], [3, 5])
    np.testing.assert_allclose(third, x * 2 + x)
    np.testing.assert_allclose(last, np.tanh(x * 2 + x) - x * 2)
    assert gpu.driver.machine.launches == {"aioflow_chain": 1}


def test_chains_are_of_floats_of_one_dtype():
    assert fusible("add", [float32, float32, float32])
    assert fusible("tanh", [float64, float64])
    assert not fusible("add", [int32, int32, int32])
    assert not fusible("equal", [float32, float32, bool_])
    assert not fusible("matmul", [float32, float32, float32])
