"""Whole graphs on the fake GPU, one kernel at a time: what has no kernel there runs on the host beside it."""

import gc

import numpy as np
import pytest

import aioflow as af
from aioflow.devices.gpu import Gpu
from aioflow.kernels.context import Context
from aioflow.resources.containers import Resources
from aioflow.tensors.dtypes import DeviceKind
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from tests.support.evaluate import FirstStep, View

NAME = "/job:localhost/replica:0/task:0/device:GPU:0"
random = np.random.default_rng(7)


class Step(FirstStep):
    """All that kernels of variables ask of the step."""

    def check(self):
        """It has not ended."""


class OnGpu:
    """Runs the operations of a graph in the order they were built."""

    def __init__(self, gpu):
        resources = Resources()
        self.gpu = gpu
        self.contexts = {
            DeviceKind.GPU: Context(gpu.xp, resources, Step(), device=gpu),
            DeviceKind.CPU: Context(np, resources, Step()),
        }
        self.ran = set()

    def run(self, fetches, feeds=None):
        """The values of the fetches in host memory, without a look at the GPU on the way."""
        values = dict(feeds or {})
        for operation in needed(fetches):
            if not all(output in values for output in operation.outputs) or not operation.outputs:
                values.update(zip(operation.outputs, self.outputs(operation, values), strict=True))
        return [self.host(values[fetch]) for fetch in fetches if isinstance(fetch, af.Tensor)]

    def outputs(self, operation, values):
        """What its kernel makes, on the GPU if there is one for it."""
        definition, view = operation.definition, View(operation)
        kind = DeviceKind.GPU
        kernel = definition.kernel_for(kind, view.input_specs, view.output_specs)
        if kernel is None:
            kind = DeviceKind.CPU
            kernel = definition.kernel_for(kind, view.input_specs)
        context = self.contexts[kind]
        hosts = definition.host_inputs(len(operation.inputs))
        inputs = [
            self.host(values[tensor]) if host or kind is DeviceKind.CPU else self.there(values[tensor])
            for tensor, host in zip(operation.inputs, hosts, strict=True)
        ]
        self.ran.add((operation.type, kind))
        with self.gpu, np.errstate(all="ignore"):
            call = kernel.bind(definition, view, context.xp)
            made = call(context, *inputs) if kernel.context else call(*inputs)
        return [made] if len(operation.outputs) == 1 else list(made or ())

    def there(self, value):
        return self.gpu.copy_in(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value

    def host(self, value):
        return value._data.copy() if self.gpu.holds(value) else value


def needed(fetches):
    """The operations that the fetches need, sources first."""
    found = {}

    def visit(operation):
        if operation not in found:
            for source in [*[tensor.op for tensor in operation.inputs], *operation.control_inputs]:
                visit(source)
            found[operation] = None

    for fetch in fetches:
        visit(fetch.op if isinstance(fetch, af.Tensor) else fetch)
    return found


@pytest.fixture
def gpu():
    machine = Machine(strict=True)
    gpu = Gpu(FakeGpu(machine), NAME)
    yield gpu
    gc.collect()
    gpu.close()
    machine.run()
    machine.check()


def perceptron():
    x, labels = af.placeholder(af.float64, [None, 6]), af.placeholder(af.int32, [None])
    w1, b1 = af.Variable(random.standard_normal((6, 5))), af.Variable(np.zeros(5))
    w2 = af.Variable(random.standard_normal((5, 3)))
    logits = af.matmul(af.nn.relu(af.matmul(x, w1) + b1), w2)
    loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return loss, {x: random.standard_normal((8, 6)), labels: random.integers(0, 3, 8).astype(np.int32)}


def convolution():
    images = af.placeholder(af.float64, [None, 6, 6, 2])
    filters = af.Variable(random.standard_normal((3, 3, 2, 4)))
    seen = af.nn.relu(af.nn.conv2d(images, filters, [1, 1, 1, 1], "SAME"))
    pooled = af.nn.max_pool(seen, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    weights = af.Variable(random.standard_normal((36, 2)))
    scores = af.matmul(af.reshape(pooled, [-1, 36]), weights)
    return af.reduce_mean(af.square(scores)), {images: random.standard_normal((3, 6, 6, 2))}


def lookup():
    rows = af.placeholder(af.int32, [None])
    table = af.Variable(random.standard_normal((10, 4)))
    return af.reduce_sum(af.square(af.nn.embedding_lookup(table, rows))), {rows: np.array([1, 3, 1, 9], np.int32)}


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: af.train.GradientDescentOptimizer(0.1),
        lambda: af.train.MomentumOptimizer(0.1, 0.9),
        lambda: af.train.AdamOptimizer(0.01),
    ],
)
@pytest.mark.parametrize("model", [perceptron, convolution, lookup])
async def test_training_on_a_gpu_has_the_losses_of_training_on_a_cpu(gpu, model, optimizer):
    with af.Graph().as_default() as graph:
        loss, feeds = model()
        train = optimizer().minimize(loss)
        init = af.global_variables_initializer()
    there = OnGpu(gpu)
    there.run([init])
    async with af.Session(graph=graph) as session:
        await session.run(init)
        for _ in range(3):
            (ours,) = there.run([loss], feeds)
            theirs = await session.run(loss, feeds)
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)
            there.run([train], feeds)
            await session.run(train, feeds)
    assert any(name.startswith(("apply", "sparse_apply", "scatter")) and kind == "GPU" for name, kind in there.ran)
