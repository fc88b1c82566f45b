"""One LeNet-style net, written for each side: convolution 5x5x32, pool, convolution 5x5x64, pool, 512, 10.

All in float32, with ReLU, softmax cross-entropy, SGD, the same weights and the same batch, fed again in each step.
aioflow and TensorFlow are fed NumPy arrays, channels last. PyTorch gets tensors made before the measurement, since its
data loaders yield tensors, and channels first, as is usual with it; channels last takes it as long.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

SIDE, CLASSES = 28, 10
SHAPES = ((5, 5, 1, 32), (5, 5, 32, 64), ((SIDE // 4) ** 2 * 64, 512), (512, CLASSES))
"""Shapes of each layer's weights: height, width, channels in and out of convolutions; inputs and outputs of others."""


class Layer(NamedTuple):
    """Initial weights and bias."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True)
class Problem:
    """The batch and the settings of the training."""

    batch: int = 64
    rate: float = 0.01

    def __str__(self) -> str:
        return f"LeNet-style CNN {SIDE}x{SIDE}, batch {self.batch}"

    def layers(self) -> list[Layer]:
        """Return new copies of each layer's initial weights and bias."""
        draw = np.random.default_rng(1)
        return [
            Layer(
                (draw.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:-1]))).astype(np.float32),
                np.zeros(shape[-1], np.float32),
            )
            for shape in SHAPES
        ]

    @cached_property
    def images(self) -> Floats:
        """The images of the batch: [batch, height, width, 1]."""
        return np.random.default_rng(2).standard_normal((self.batch, SIDE, SIDE, 1)).astype(np.float32)

    @cached_property
    def labels(self) -> npt.NDArray[np.int32]:
        """The classes of the batch: [batch]."""
        return np.random.default_rng(3).integers(0, CLASSES, self.batch).astype(np.int32)


def summary(logits: Floats) -> float:
    """Return the value that sides compare of an inference: the norm of the logits."""
    return float(np.linalg.norm(logits))
