"""The nine networks of ONNX's backend tests, inference, beside ONNX Runtime and eager PyTorch: batch 1 and batch 8.

All sides get the same model, with random weights. Each network is loaded, measured and closed before the next one. The
results must agree on all sides.
"""

import statistics
from collections.abc import AsyncIterator

from benchmarks import peers
from benchmarks.harness import Timing, alternate
from benchmarks.image_networks import NETWORKS, images, model
from benchmarks.image_networks.sides import with_aioflow, with_onnxruntime
from benchmarks.image_networks.with_torch import with_torch
from benchmarks.report import Claim, Row, timed_row

ONNX_RUNTIME = "ONNX Runtime"
OTHERS = (ONNX_RUNTIME, peers.TORCH)
BATCHES = (1, 8)


async def rows() -> AsyncIterator[Row]:
    """Measure each network, and then the geometric means."""
    for batch in BATCHES:
        timings = {}
        for network in NETWORKS:
            timings[network] = timing = await measured(network, batch)
            claims = [Claim("aioflow / faster of the two", timing.ratio_to_best(peers.AIOFLOW, OTHERS), 1.3)]
            yield timed_row(f"{network}, batch {batch}, inference", timing, claims)
        claims = [Claim(f"aioflow / {other}", mean([*timings.values()], other), 1) for other in OTHERS]
        yield Row(f"geometric means of {len(timings)} networks, batch {batch}", {}, claims)


async def measured(network: str, batch: int) -> Timing:
    """Time one network on all sides."""
    made, batch_of_images = model(network, batch), images(batch)
    sides = {
        peers.AIOFLOW: with_aioflow(made, batch_of_images),
        ONNX_RUNTIME: with_onnxruntime(made, batch_of_images),
        peers.TORCH: with_torch(made, batch_of_images),
    }
    return await alternate(sides, rounds=7, agree=1e-3)


def mean(timings: list[Timing], other: str) -> float | None:
    """Return the geometric mean of the ratios of aioflow's times to the other's; None if one is missing."""
    ratios = [timing.ratio(peers.AIOFLOW, other) for timing in timings]
    known = [ratio for ratio in ratios if ratio is not None]
    return statistics.geometric_mean(known) if len(known) == len(ratios) else None
