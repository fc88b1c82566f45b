"""A LeNet-style convolutional net on images of 28x28: SGD steps and inference.

aioflow convolves with oneDNN if it finds it, else with NumPy; if it does, both are measured. TensorFlow and PyTorch
contain their own oneDNN. The losses of the first three steps and the norms of the logits must agree on all sides.
"""

from collections.abc import AsyncIterator, Callable, Mapping

from benchmarks import onednn, peers
from benchmarks.harness import Side, alternate
from benchmarks.lenet import Problem, with_aioflow, with_jax, with_tensorflow, with_torch
from benchmarks.report import Row, timed_row

Build = Callable[[Problem], Side]

PROBLEM = Problem()


async def rows() -> AsyncIterator[Row]:
    """Measure training and inference."""
    trained = {
        peers.TENSORFLOW: with_tensorflow.training,
        peers.TORCH: with_torch.training,
        peers.JAX: with_jax.training,
    }
    yield await measure("SGD step", with_aioflow.training, trained)
    inferred = {
        peers.TENSORFLOW: with_tensorflow.inference,
        peers.TORCH: with_torch.inference,
        peers.JAX: with_jax.inference,
    }
    yield await measure("inference", with_aioflow.inference, inferred)


async def measure(words: str, ours: Build, builds: Mapping[str, Build]) -> Row:
    """Time one step on all sides."""
    others = {peer: build(PROBLEM) for peer, build in builds.items()}
    timing = await alternate(onednn.sides(lambda: ours(PROBLEM)) | others, agree=1e-4)
    return timed_row(f"{PROBLEM}, {words}", timing, onednn.claims(timing, 1, alone=3))
