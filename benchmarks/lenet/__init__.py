"""One LeNet-style net, written for each side: convolution 5x5x32, pool, convolution 5x5x64, pool, 512, 10.

All in float32, with ReLU, softmax cross-entropy, SGD, the same weights and the same batch, fed anew each step. aioflow
and TensorFlow are fed NumPy arrays, channels last. PyTorch gets tensors made before the clock starts, for its data
loaders yield tensors, and channels first, as is usual with it; channels last takes it as long.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

SIDE, CLASSES = 28, 10
SHAPES = ((5, 5, 1, 32), (5, 5, 32, 64), ((SIDE // 4) ** 2 * 64, 512), (512, CLASSES))
"""Of the weights of each layer: height, width, channels in and out of convolutions; inputs and outputs of the others"""


class Layer(NamedTuple):
    """First weights and bias."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True)
class Problem:
    """The batch, and what training goes by."""

    batch: int = 64
    rate: float = 0.01

    def __str__(self) -> str:
        return f"LeNet-style CNN {SIDE}x{SIDE}, batch {self.batch}"

    def layers(self) -> list[Layer]:
        """Fresh copies of each layer's first weights and bias."""
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
        """The batch: [batch, height, width, 1]."""
        return np.random.default_rng(2).standard_normal((self.batch, SIDE, SIDE, 1)).astype(np.float32)

    @cached_property
    def labels(self) -> npt.NDArray[np.int32]:
        """The batch's classes: [batch]."""
        return np.random.default_rng(3).integers(0, CLASSES, self.batch).astype(np.int32)


def summary(logits: Floats) -> float:
    """What sides compare of an inference: the logits' norm."""
    return float(np.linalg.norm(logits))
