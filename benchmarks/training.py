"""SGD steps of two small MLPs: aioflow, TensorFlow, PyTorch, JAX, and NumPy by hand.

A small step is bookkeeping: its time is the engine's cost per op. A medium step is matrix products and memory traffic.
The losses of the first three steps must agree on all sides.
"""

from collections.abc import AsyncIterator

from benchmarks import peers
from benchmarks.harness import Timing, alternate
from benchmarks.mlp import Problem, with_aioflow, with_jax, with_numpy, with_tensorflow, with_torch
from benchmarks.report import Claim, Row, timed_row

SMALL = Problem((64, 32, 10), 32)
MEDIUM = Problem((784, 256, 128, 10), 128)
IN_PLACE = "NumPy with out="


async def rows() -> AsyncIterator[Row]:
    """Measure the small and the medium MLP."""
    small = await measure(SMALL)
    by_hand = Claim("aioflow / NumPy by hand", small.ratio(peers.AIOFLOW, peers.NUMPY), 1.25)
    yield timed_row(f"{SMALL}, SGD step", small, [*speedups(small, 3), by_hand, against_jax(small)])
    medium = await measure(MEDIUM)
    yield timed_row(f"{MEDIUM}, SGD step", medium, [*speedups(medium, 1.2), against_jax(medium)])


async def measure(problem: Problem) -> Timing:
    """Time one training step on all sides."""
    sides = {
        peers.AIOFLOW: with_aioflow.training(problem),
        peers.TENSORFLOW: with_tensorflow.training(problem),
        peers.TORCH: with_torch.training(problem),
        peers.JAX: with_jax.training(problem),
        peers.NUMPY: with_numpy.training(problem),
        IN_PLACE: with_numpy.training_in_place(problem),
    }
    return await alternate(sides, agree=1e-4)


def speedups(timing: Timing, limit: float) -> list[Claim]:
    """Return the claims of speedups over each peer."""
    return [
        Claim(f"{peer} / aioflow", timing.ratio(peer, peers.AIOFLOW), limit, at_least=True)
        for peer in (peers.TENSORFLOW, peers.TORCH)
    ]


def against_jax(timing: Timing) -> Claim:
    """Return the claim to be no slower than JAX."""
    return Claim("aioflow / jax.jit", timing.ratio(peers.AIOFLOW, peers.JAX), 1)
