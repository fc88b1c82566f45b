"""Peak live bytes of arrays in one training step of a 20-layer MLP, in the steady state, against eager PyTorch.

Both sides count parameters, gradients, activations and temporaries from their allocators; not the batch, which the
caller owns, and not the initial weights, which the benchmark provides. aioflow's bytes are NumPy's allocations, which
tracemalloc counts exactly (less the interpreter's own objects alive before the step); PyTorch's are the allocations and
releases that its profiler records.
"""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import excuse
from benchmarks.mlp import Problem, with_aioflow, with_torch
from benchmarks.report import Claim, Row, size

PROBLEM = Problem((512,) * 20 + (10,), 1024, name="20 layers of 512")
WARM = 3


async def rows() -> AsyncIterator[Row]:
    """Measure the two peaks."""
    figures: dict[str, str] = {}
    peaks: dict[str, float] = {}
    losses: dict[str, float] = {}
    for name, measure in ((peers.AIOFLOW, aioflow), (peers.TORCH, pytorch)):
        try:
            peaks[name], losses[name] = await measure()
            figures[name] = size(peaks[name])
        except Exception as error:
            figures[name] = excuse(error)
    both = len(peaks) == len(figures)
    if both:
        np.testing.assert_allclose(losses[peers.AIOFLOW], losses[peers.TORCH], rtol=1e-3)
    ratio = peaks[peers.AIOFLOW] / peaks[peers.TORCH] if both else None
    yield Row(f"peak live bytes, {PROBLEM}, SGD step", figures, [Claim("aioflow / PyTorch", ratio, 1.1)], [parts()])


def parts() -> str:
    """Return the smallest possible peak."""
    parameters = sum(weights.nbytes + bias.nbytes for weights, bias in PROBLEM.weights())
    layer = PROBLEM.batch * PROBLEM.sizes[0] * 4
    return f"parameters {size(parameters)}; one layer's activations {size(layer)}, {len(PROBLEM.sizes) - 2} are kept"


async def aioflow() -> tuple[float, float]:
    """Return the peak, and the loss of the measured step."""
    _ = PROBLEM.images, PROBLEM.labels  # created here, so that the batch is not counted
    model = with_aioflow.training_graph(PROBLEM)
    gc.collect()
    tracemalloc.start()
    try:
        async with with_aioflow.stepping(PROBLEM, model) as step:
            for _ in range(WARM):
                await step()
            others = interpreter_bytes()
            tracemalloc.reset_peak()
            loss = await step()
            return float(tracemalloc.get_traced_memory()[1] - others), float(loss)
    finally:
        tracemalloc.stop()


def interpreter_bytes() -> int:
    """Return the traced bytes that are not NumPy's arrays."""
    gc.collect()
    alive, _ = tracemalloc.get_traced_memory()
    arrays = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    return alive - sum(trace.size for trace in arrays.traces)


async def pytorch() -> tuple[float, float]:
    """Return the peak, and the loss of the measured step."""
    return await asyncio.to_thread(profiled)


def profiled() -> tuple[float, float]:
    """Build and train under the profiler, which records every allocation from the first parameter on."""
    torch = peers.torch()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step = with_torch.trainer(PROBLEM)
        for _ in range(WARM):
            step()
        with torch.profiler.record_function("measured step"):
            loss = step()
    return float(peak(profile.profiler.kineto_results.events(), "measured step")), loss


def peak(events: list[Any], span: str) -> int:
    """Return the most bytes alive from the beginning of the span on."""
    begin = next(event.start_ns() for event in events if event.name() == span)
    alive = most = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda event: event.start_ns()):
        alive += event.nbytes()
        most = max(most, alive) if event.start_ns() >= begin else most
    return most
