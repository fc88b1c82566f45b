"""Devices that are not there, and flows to put on them."""

from collections.abc import Sequence

import aioflow as af
from aioflow.graph.op import op
from aioflow.plan.cost_model import CostModel
from aioflow.plan.op_cost import Site
from aioflow.plan.passes.flow import Flow, Node
from aioflow.plan.passes.prune import prune
from aioflow.tensors.dtypes import DeviceKind, Spec, TensorShape, float32

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
HERE = "/job:localhost/replica:0/task:0"


@op(name="test_work", stateful=True)
def work(inputs: Sequence[Spec], seconds: tuple[float, float] = (1e-6, 1e-6), elements: int = 1) -> Spec:
    """Takes so many seconds on a CPU and on a GPU, as far as `Told` knows, and makes so many elements."""
    return Spec(float32, TensorShape((elements,)))


@op(name="test_only_cpu", stateful=True)
def only_cpu(inputs: Sequence[Spec]) -> Spec:
    """Has a kernel for the CPU alone."""
    return Spec(float32, TensorShape(()))


@op(name="test_only_gpu", stateful=True)
def only_gpu(inputs: Sequence[Spec]) -> Spec:
    """Has a kernel for the GPU alone."""
    return Spec(float32, TensorShape(()))


for made, kinds in ((work, (CPU, GPU)), (only_cpu, (CPU,)), (only_gpu, (GPU,))):
    made.kernel(*kinds, fresh=True)(lambda xp, inputs: xp.zeros((), "f"))
    made.no_gradient("a test's own op has none")


class Told(CostModel):
    """Knows of `work` what it was told."""

    def seconds(self, node: Node, kind: DeviceKind, inputs: Sequence[Spec] | None = None) -> float:
        told: tuple[float, float] | None = node.attrs.get("seconds")
        return super().seconds(node, kind, inputs) if told is None else told[kind is GPU]


def sites(cpus: int = 2, gpus: int = 0, tasks: int = 1, memory: dict[str, int] | None = None) -> list[Site]:
    """So many devices in each task, with limits of memory by type and number."""
    names = [*[f"CPU:{i}" for i in range(cpus)], *[f"GPU:{i}" for i in range(gpus)]]
    return [
        Site.from_string(f"/job:localhost/replica:0/task:{task}/device:{name}", (memory or {}).get(name))
        for task in range(tasks)
        for name in names
    ]


def flow_of(*fetches: af.Tensor, feeds: Sequence[af.Tensor] = (), targets: Sequence[af.Operation] = ()) -> Flow:
    """What a call runs, nothing optimised."""
    return prune(feeds, fetches, targets)


def short(name: str) -> str:
    """`CPU:1` for the full name of a device here; the task before it for one elsewhere."""
    return name.removeprefix(f"{HERE}/device:").removeprefix("/job:localhost/replica:0/")
