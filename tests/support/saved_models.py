"""Saved models for tests: `y = x * factor + bias`, in versions that differ in the factor."""

import asyncio

import numpy as np

import aioflow as af
from aioflow.graph.op import op
from aioflow.tensors.dtypes import Array, DeviceKind, Namespace, Spec
from aioflow.testing import Gate

GATES: dict[str, Gate] = {}
"""The gates of `gate_by_name`, which a test puts here: a saved graph cannot hold a gate itself."""


@op(name="test_gate_by_name", waits=True)
def gate_by_name(x: Spec, gate: str) -> Spec:
    """`x`, once the gate of that name is open."""
    return x


@gate_by_name.kernel(DeviceKind.CPU)
async def _(xp: Namespace, x: Array, *, gate: str) -> Array:
    if gate in GATES:
        await GATES[gate].wait()
    return x


gate_by_name.no_gradient("a test's gate has none")


def rows(*values):
    return np.array([[value] for value in values], np.float32)


class Line:
    """The graph of `y = x * factor + bias`, with further signatures."""

    def __init__(self, factor=1.0, gate="", container=None):
        self.graph = af.Graph()
        with self.graph.as_default():
            self.x = af.placeholder(af.float32, [None, 1], name="x")
            with self.graph.container(container or ""):
                self.factor = af.Variable(np.full([1], factor, np.float32), name="factor")
            self.bias = af.Variable(af.zeros([1]), name="bias", trainable=False)
            self.product = self.x * self.factor
            shown = gate_by_name(self.product, gate) if gate else self.product
            self.y = af.identity(shown + self.bias, name="y")
            self.total = af.reduce_sum(self.y, name="total")
            self.more = af.reduce_any(self.y < 8.0)
            self.init = af.global_variables_initializer()
            self.update = self.factor.assign_add([1.0])

    @property
    def signatures(self):
        made = af.saved_model.Signature
        return {
            "serving_default": made({"x": self.x}, {"y": self.y}),
            "total": made({"x": self.x}, {"total": self.total, "y": self.y}),
            "grow": made({"x": self.x}, {"x": self.y, "more": self.more}, repeat_while="more"),
        }

    async def save(self, directory, version, **more):
        async with af.Session(graph=self.graph) as session:
            await session.run(self.init)
            return await af.saved_model.save(session, directory, self.signatures, version=version, **more)


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)
