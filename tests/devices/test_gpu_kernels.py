"""Every kernel that says it runs on a GPU does so on the fake one: on its arrays alone, without looking at values."""

import contextlib
import functools

import numpy as np

from aioflow.devices.gpu import Gpu
from aioflow.kernels.context import Context
from aioflow.kernels.control.control_flow import DEAD
from aioflow.resources.containers import Resources
from aioflow.tensors.dtypes import DeviceKind
from aioflow.tensors.tensor_list import TensorList, is_gap
from aioflow.testing.fake_arrays import FakeArray
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from tests.support.evaluate import FirstStep, View, evaluate
from tests.support.every_op import OURS, agree, build, every_op, exact, open_sizes

NAME = "/job:localhost/replica:0/task:0/device:GPU:0"


ELSEWHERE = {
    "swap_in": "it takes what swap_out makes, which is not an array",
    "swap_out": "what it makes is not an array",
}


def on_gpu(name, sample):
    return name in OURS and name not in ELSEWHERE and DeviceKind.GPU in OURS[name].kernels


@contextlib.contextmanager
def a_gpu():
    machine = Machine(strict=True)
    gpu = Gpu(FakeGpu(machine), NAME)
    yield gpu
    gpu.close()
    machine.run()
    machine.check()


def placed(gpu, value, host=False):
    """The value as a kernel of the GPU takes it."""
    if isinstance(value, TensorList):
        return TensorList.of([item if is_gap(item) else placed(gpu, item) for item in value.elements()])
    if host or value is DEAD or not hasattr(value, "dtype"):
        return value
    return gpu.copy_in(np.asarray(value))


def fetched(value):
    """The value as it is on a CPU."""
    if isinstance(value, TensorList):
        return [item if is_gap(item) else fetched(item) for item in value.elements()]
    return value._data if isinstance(value, FakeArray) else value


def kernels(operation):
    """The GPU kernels of an operation that may be chosen for it."""
    view = View(operation)
    specs = [*view.input_specs, *view.output_specs]
    if operation.definition.kernel_for(DeviceKind.GPU, view.input_specs, view.output_specs) is None:
        return
    for kernel in operation.definition.kernels[DeviceKind.GPU]:
        if kernel.dtypes is None or all(spec.dtype in kernel.dtypes for spec in specs[: len(view.input_specs)]):
            yield view, kernel


@every_op(on_gpu, variants=[exact, open_sizes])
def test_gpu_kernels_give_what_the_cpu_gives(name, sample, sizes):
    graph, _, feeds = build(sample, sizes)
    with a_gpu() as gpu:
        for operation in [op for op in graph.get_operations() if op.type == name]:
            gives_what_the_cpu_gives(gpu, operation, feeds)


def gives_what_the_cpu_gives(gpu, operation, feeds):
    inputs = evaluate(list(operation.inputs), feeds)
    expected = evaluate(list(operation.outputs), feeds)
    hosts = operation.definition.host_inputs(len(inputs))
    for view, kernel in kernels(operation):
        arguments = [placed(gpu, value, host) for value, host in zip(inputs, hosts, strict=True)]
        with gpu:
            call = kernel.bind(operation.definition, view, gpu.xp)
            if kernel.context:
                call = functools.partial(call, Context(gpu.xp, Resources(), FirstStep()))
            made = call(*arguments)
        made = [made] if len(expected) == 1 else list(made or ())
        on_host = operation.definition.host_outputs(len(expected))
        for value, theirs, host, tensor in zip(made, expected, on_host, operation.outputs, strict=True):
            lives_there(value, host, tensor)
            same(fetched(value), theirs)


def lives_there(value, host, tensor):
    if hasattr(value, "dtype") and value is not DEAD:
        assert isinstance(value, FakeArray) is not host, f"{value!r} is not in {'host' if host else 'GPU'} memory"
        assert value.dtype == tensor.dtype.np


def same(ours, theirs):
    if isinstance(theirs, TensorList):
        theirs = fetched(theirs)
    if isinstance(ours, list):
        for mine, other in zip(ours, theirs, strict=True):
            same(mine, other)
    elif hasattr(theirs, "dtype"):
        assert ours.shape == theirs.shape
        agree(ours, theirs, rtol=1e-6 if theirs.dtype.itemsize < 8 else 1e-9)
    else:
        assert ours is theirs or ours == theirs
