"""One multi-layer perceptron, written for each side: float32, ReLU, softmax cross-entropy, SGD, same weights and batch.

Every side feeds the batch in each step and reads the loss back. The feeds are NumPy arrays; only PyTorch gets tensors
made before the measurement, since its data loaders yield tensors.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Problem:
    """The sizes of all layers from input to classes, and the batch."""

    sizes: tuple[int, ...]
    batch: int
    rate: float = 0.01
    name: str = ""

    def __str__(self) -> str:
        return f"MLP {self.name or '-'.join(map(str, self.sizes))}, batch {self.batch}"

    def weights(self) -> list[tuple[Floats, Floats]]:
        """Return new copies of the initial weights and biases of each layer."""
        draw = np.random.default_rng(1)
        return [
            ((draw.standard_normal((n, m)) * np.sqrt(2 / n)).astype(np.float32), np.zeros(m, np.float32))
            for n, m in zip(self.sizes, self.sizes[1:], strict=False)
        ]

    @cached_property
    def images(self) -> Floats:
        """The inputs of the batch: [batch, inputs]."""
        return np.random.default_rng(2).standard_normal((self.batch, self.sizes[0])).astype(np.float32)

    @cached_property
    def labels(self) -> npt.NDArray[np.int32]:
        """The classes of the batch: [batch]."""
        return np.random.default_rng(3).integers(0, self.sizes[-1], self.batch).astype(np.int32)
