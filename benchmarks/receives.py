"""Memory saved by scheduling: values received just in time, nodes in another order, values recomputed or swapped to
host memory.

The part of one device really runs, and its peak is NumPy's traced allocations less those alive before and after. With
two devices, or a GPU, the peak is simulated from shapes and estimated times.
"""

import gc
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np

from aioflow.kernels.context import Context
from aioflow.plan.partition import partition
from aioflow.plan.passes.compress import Compression
from aioflow.plan.passes.flow import Flow
from aioflow.plan.passes.liveness import peak
from aioflow.plan.passes.memory_order import memory_order
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.order import order
from aioflow.plan.passes.prune import prune, trim
from aioflow.plan.passes.receives import delay_receives, received_bytes
from aioflow.plan.passes.recompute import recompute, swap
from aioflow.plan.passes.timeline import estimated
from aioflow.plan.placement.colocation import is_everywhere
from aioflow.program.assemble import assemble
from aioflow.resources.containers import Resources
from aioflow.tensors.dtypes import DeviceKind
from benchmarks import peers
from benchmarks.report import Claim, Row, size

LAYERS, WIDTH, BATCH = 24, 256, 1024
DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{number}" for number in range(2)]
LINK = 12e9
"""Bytes per second between a GPU and its host."""
DEEP = f"swish MLP, {LAYERS} layers of {WIDTH}, batch {BATCH}"


async def rows() -> AsyncIterator[Row]:
    """Measure one row for each way."""
    yield early_receives()
    wide, init = training(8, 1024, 64)
    title = "order of nodes: ReLU MLP, 8 layers of 1024, batch 64, SGD step"
    yield measured(title, wide, init, {"for memory": memory_order})
    deep, init = training(LAYERS, WIDTH, BATCH, swish=True)
    ways = {f"{most:.0%} more time": again(most) for most in (0.05, 0.1, 0.3)}
    yield measured(f"recomputation: {DEEP}, SGD step", memory_order(deep), init, ways)
    yield swapped(memory_order(deep, DeviceKind.GPU))


def early_receives() -> Row:
    """Return 64 values that one device has at once and another one needs one after the other."""
    flows = apart(64)
    before, after = [received_bytes(parts, transfer)[DEVICES[1]] for parts in (flows, delay_receives(flows, transfer))]
    figures = {"as soon as they are there": size(before), "just in time": size(after)}
    claim = Claim("just in time / as soon as possible", after / before, 0.5)
    return Row("peak bytes received, simulated: 64 early receives of 1 MiB", figures, [claim])


def transfer(count: int, source: str, target: str) -> float:
    """Return the seconds of a transfer between two machines."""
    return 1e-4 + count / 3e9


def apart(count: int) -> dict[str, Flow]:
    """Return the partitions of a step over two devices."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [512, 512])
        values = [x * float(number) for number in range(count)]
        here = set(graph.get_operations())
        start = total = af.placeholder(af.float32, [512, 512])
        for value in values:
            total = af.matmul(af.matmul(total, total), value)
    flow = prune((x, start), (total,), ())
    places = {node: DEVICES[node.operation not in here] for node in flow.nodes if not is_everywhere(node)}
    parts = partition(flow, places, dict.fromkeys(DEVICES, 1), Compression())
    return {part.device: part.flow for part in parts}


def training(layers: int, width: int, batch: int, swish: bool = False) -> tuple[Flow, Flow]:
    """Return the step of a deep perceptron, and the initialiser of its variables."""
    af = peers.aioflow()
    with af.Graph().as_default():
        x = value = af.placeholder(af.float32, [batch, width])
        for number in range(layers):
            weights = af.Variable(np.eye(width, dtype=np.float32), name=f"weights_{number}")
            value = af.matmul(value, weights)
            value = value * af.sigmoid(value) if swish else af.nn.relu(value)
        loss = af.reduce_mean(value)
        train = af.train.GradientDescentOptimizer(0.01).minimize(loss)
        init = prune((), (), (af.global_variables_initializer(),))
    return optimise(trim(order(prune((x,), (loss,), (train,))))), init


def again(most: float) -> Callable[[Flow], Flow]:
    """Return recomputation within that share of the time."""
    return lambda flow: recompute(flow, most=most)


def measured(title: str, flow: Flow, init: Flow, ways: dict[str, Callable[[Flow], Flow]]) -> Row:
    """Return the peaks of a step with and without the change."""
    before, loss = traced(flow, init)
    figures, claims, notes = {"as built": size(before)}, [], []
    for name, way in ways.items():
        changed = way(flow)
        after, same = traced(changed, init)
        np.testing.assert_allclose(loss, same, rtol=1e-5)
        figures[name] = f"{size(after)}   {after / before:.2f}x"
        notes.append(f"{name}: simulated {size(peak(flow))} -> {size(peak(changed))}")
        claims.append(Claim(f"{name} / as built", after / before, 1.0))
    return Row(f"peak bytes of values, {title}", figures, claims, notes)


class Step:
    """The part of a step that kernels use."""

    id = 1
    trace = None

    def times_run(self, name: str) -> int:
        """Return that the step is new."""
        return 0

    def check(self) -> None:
        """Return that the step has not ended."""


class Alone:
    """A device with one core."""

    name = DEVICES[0]
    kind = DeviceKind.CPU
    accounts = None

    def share_out(self, work: Callable[[int, int], object], size: int) -> None:
        """Run all of the work."""
        work(0, size)


def traced(flow: Flow, init: Flow) -> tuple[float, Any]:
    """Return NumPy's peak in the second of two steps beyond the bytes alive all the time, and the loss."""
    context = Context(np, Resources(), Step(), float("inf"), Alone())  # type: ignore[arg-type]
    feeds = [np.full(spec.shape.as_list(), 0.5, np.float32) for node in flow.feeds for spec in node.output_specs]
    run(init, context, [])
    run(flow, context, feeds)
    gc.collect()
    tracemalloc.start()
    try:
        begin, _ = tracemalloc.get_traced_memory()
        (loss,) = run(flow, context, feeds)
        return float(tracemalloc.get_traced_memory()[1] - begin), loss
    finally:
        tracemalloc.stop()


def run(flow: Flow, context: Context, feeds: list[Any]) -> Any:
    """Run a coroutine that never waits to its end."""
    program = assemble(flow, context, fused=True, stream=False)
    (unit,) = program.units
    by_slot = dict(zip(program.feeds, feeds, strict=True))
    coroutine = unit.begin(context, *[by_slot[slot] for slot in unit.inputs])
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the coroutine waits")


def swapped(flow: Flow) -> Row:
    """Return the memory that a GPU would save by swapping values out."""
    found = swap(flow, lambda count: 1e-5 + count / LINK, seconds=lambda node: estimated(node, ""))
    before, after = peak(flow, DeviceKind.GPU), peak(found, DeviceKind.GPU)
    moved = sum(node.definition.name == "swap_out" for node in found.nodes)
    figures = {"as built": size(before), "swapped": f"{size(after)}   {after / before:.2f}x"}
    return Row(f"peak bytes on a GPU, simulated, {DEEP}, SGD step", figures, [], [f"{moved} values are put away"])
