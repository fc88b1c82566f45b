"""A LeNet-style convolutional net on images of 28x28: SGD steps and inference.

aioflow convolves with oneDNN if it finds it, else with NumPy; if it does, both are measured. TensorFlow and PyTorch
contain their own oneDNN. The losses of the first three steps and the norms of the logits must agree on all sides.
"""

from collections.abc import AsyncIterator, Callable

from benchmarks import onednn, peers
from benchmarks.harness import Side, alternate
from benchmarks.lenet import Problem, with_aioflow, with_tensorflow, with_torch
from benchmarks.report import Row, timed_row

Build = Callable[[Problem], Side]

PROBLEM = Problem()


async def rows() -> AsyncIterator[Row]:
    """Measure training and inference."""
    yield await measure("SGD step", with_aioflow.training, with_tensorflow.training, with_torch.training)
    yield await measure("inference", with_aioflow.inference, with_tensorflow.inference, with_torch.inference)


async def measure(words: str, ours: Build, tensorflow: Build, torch: Build) -> Row:
    """Time one step on all sides."""
    others = {peers.TENSORFLOW: tensorflow(PROBLEM), peers.TORCH: torch(PROBLEM)}
    timing = await alternate(onednn.sides(lambda: ours(PROBLEM)) | others, agree=1e-4)
    return timed_row(f"{PROBLEM}, {words}", timing, onednn.claims(timing, 1, alone=3))
