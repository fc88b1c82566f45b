"""SGD steps of a large MLP: nearly all of the time is spent in matrix products of some library.

aioflow multiplies with oneDNN if it finds it, else with NumPy; if it does, both are measured. The losses of the first
three steps must agree on all sides.
"""

from collections.abc import AsyncIterator

from benchmarks import onednn, peers
from benchmarks.harness import alternate
from benchmarks.mlp import Problem, with_aioflow, with_jax, with_numpy, with_tensorflow, with_torch
from benchmarks.report import Row, timed_row

PROBLEM = Problem((1024, 1024, 1024, 10), 256)


async def rows() -> AsyncIterator[Row]:
    """Measure the large MLP."""
    others = {
        peers.TENSORFLOW: with_tensorflow.training(PROBLEM),
        peers.TORCH: with_torch.training(PROBLEM),
        peers.JAX: with_jax.training(PROBLEM),
        peers.NUMPY: with_numpy.training(PROBLEM),
    }
    timing = await alternate(onednn.sides(lambda: with_aioflow.training(PROBLEM)) | others, agree=1e-4)
    yield timed_row(f"{PROBLEM}, SGD step", timing, onednn.claims(timing, 1))
