"""SGD steps of ResNet-50 on 8 images of 64x64, normalised by the moments of the batch.

aioflow and TensorFlow build the same graph, channels last; PyTorch calls functions, channels first, as is usual with
it. The losses of the first three steps must agree on all sides.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks import peers, training_sides
from benchmarks.harness import Step, alternate
from benchmarks.report import Claim, Row, timed_row

BATCH, SIDE, CLASSES = 8, 64, 1000
RATE, EPSILON = 0.01, 1e-3
GAIN = 0.2
"""The first factor of the last normalisation in each block. Smaller than 1, so that rounding does not grow."""
STAGES: Final = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))
"""For each stage the number of its blocks, the channels within a block, and the stride of the first."""
IMAGES: Final = np.random.default_rng(1).standard_normal((BATCH, SIDE, SIDE, 3), np.float32)
LABELS: Final = np.random.default_rng(2).integers(0, CLASSES, BATCH)


class Convolution(NamedTuple):
    """A square window that pads half its size on each side; each channel of the result is normalised."""

    size: int
    inputs: int
    outputs: int
    stride: int = 1

    @property
    def padding(self) -> int:
        """The number of zeros on each side."""
        return self.size // 2


class Block(NamedTuple):
    """Three convolutions, and another one of the input that is added to them, if that has other channels."""

    first: Convolution
    second: Convolution
    third: Convolution
    shortcut: Convolution | None


def blocks() -> Iterator[Block]:
    """Yield the blocks of all stages."""
    inputs = 64
    for count, channels, first in STAGES:
        outputs = 4 * channels
        for stride in (first, *[1] * (count - 1)):
            shortcut = Convolution(1, inputs, outputs, stride) if inputs != outputs else None
            second, third = Convolution(3, channels, channels, stride), Convolution(1, channels, outputs)
            yield Block(Convolution(1, inputs, channels), second, third, shortcut)
            inputs = outputs


STEM: Final = Convolution(7, 3, 64, 2)


class Weights:
    """Draws the same weights on each side, since each side asks for them in the same order."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(3)

    def filters(self, of: Convolution) -> Any:
        """Return filters [height, width, inputs, outputs]."""
        return self._normal((of.size, of.size, of.inputs, of.outputs))

    def dense(self) -> Any:
        """Return the weights of the last layer."""
        return self._normal((2048, CLASSES))

    def _normal(self, shape: tuple[int, ...]) -> Any:
        return self._draw.standard_normal(shape, np.float32) * np.float32(np.sqrt(1 / np.prod(shape[:-1])))


async def rows() -> AsyncIterator[Row]:
    """Measure the training step."""
    sides = {
        peers.AIOFLOW: training_sides.aioflow(training, IMAGES),
        peers.TENSORFLOW: training_sides.tensorflow(training, IMAGES),
        peers.TORCH: torch(),
    }
    timing = await alternate(sides, rounds=5, agree=1e-3)
    claim = Claim("aioflow / PyTorch", timing.ratio(peers.AIOFLOW, peers.TORCH), 1)
    yield timed_row(f"ResNet-50, batch {BATCH}, {SIDE}x{SIDE}, SGD step", timing, [claim])


def training(m: Any) -> tuple[Any, Any, Any]:
    """Build the placeholder for images, the loss, and a training step, in the current graph."""
    weights, images = Weights(), m.placeholder(m.float32, IMAGES.shape)
    x = m.nn.relu(normalised(m, weights, images, STEM))
    x = m.nn.max_pool(x, ksize=3, strides=2, padding="SAME")
    for block in blocks():
        y = m.nn.relu(normalised(m, weights, x, block.first))
        y = m.nn.relu(normalised(m, weights, y, block.second))
        y = normalised(m, weights, y, block.third, GAIN)
        x = m.nn.relu(y + (normalised(m, weights, x, block.shortcut) if block.shortcut else x))
    logits = m.matmul(m.reduce_mean(x, [1, 2]), m.Variable(weights.dense())) + m.Variable(np.zeros(CLASSES, np.float32))
    loss = m.reduce_mean(m.nn.sparse_softmax_cross_entropy_with_logits(labels=LABELS, logits=logits))
    return images, loss, m.train.GradientDescentOptimizer(RATE).minimize(loss)


def normalised(m: Any, weights: Weights, x: Any, of: Convolution, gain: float = 1.0) -> Any:
    """Return a convolution of x, each channel normalised and multiplied with `gain`."""
    around = [[0, 0], [of.padding] * 2, [of.padding] * 2, [0, 0]]
    y = m.nn.conv2d(x, m.Variable(weights.filters(of)), strides=of.stride, padding=around)
    scale, shift = m.Variable(np.full(of.outputs, gain, np.float32)), m.Variable(np.zeros(of.outputs, np.float32))
    return m.nn.fused_batch_norm(y, scale, shift, epsilon=EPSILON)[0]


@asynccontextmanager
async def torch() -> AsyncIterator[Step]:
    """Yield a step of PyTorch that trains once on the images and returns its loss."""
    module = peers.torch()
    net = net_of_torch()
    optimizer = module.optim.SGD(net.parameters(), lr=RATE)
    images, labels = module.from_numpy(IMAGES).permute(0, 3, 1, 2).contiguous(), module.from_numpy(LABELS)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = module.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    yield step


def net_of_torch() -> Any:
    """Return the network as a module."""
    nn, weights = peers.torch().nn, Weights()
    layers = [*convolution(weights, STEM), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    layers += [block_of_torch(weights, block) for block in blocks()]
    last = nn.Linear(2048, CLASSES)
    fill(last.weight, weights.dense().T)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)


def block_of_torch(weights: Weights, block: Block) -> Any:
    """Return a block as a module."""
    nn = peers.torch().nn

    class Residual(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            first, second = convolution(weights, block.first), convolution(weights, block.second)
            third = convolution(weights, block.third, GAIN)
            self.path = nn.Sequential(*first, nn.ReLU(True), *second, nn.ReLU(True), *third)
            self.shortcut = nn.Sequential(*convolution(weights, block.shortcut)) if block.shortcut else nn.Identity()

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.path(x) + self.shortcut(x), inplace=True)

    return Residual()


def convolution(weights: Weights, of: Convolution, gain: float = 1.0) -> tuple[Any, Any]:
    """Return a convolution and the normalisation after it, which multiplies each channel with `gain`."""
    nn = peers.torch().nn
    made = nn.Conv2d(of.inputs, of.outputs, of.size, of.stride, of.padding, bias=False)
    fill(made.weight, weights.filters(of).transpose(3, 2, 0, 1))
    normalise = nn.BatchNorm2d(of.outputs, EPSILON)
    nn.init.constant_(normalise.weight, gain)
    return made, normalise


def fill(parameter: Any, values: Any) -> None:
    """Set a parameter of PyTorch."""
    torch = peers.torch()
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))
