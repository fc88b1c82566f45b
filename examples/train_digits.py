"""Train a small net to read handwritten digits, in a few seconds.

A fifth of the images is held out. The last line of the output is the accuracy on them.
"""

import argparse
import asyncio
import importlib.util
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

import aioflow as af

DATA = Path(__file__).parent / "data" / "digits.npz"
SPLIT_SEED = 0
BATCH = 32
NOISE = 0.3
BRIGHTEST = 16


class Digits(NamedTuple):
    """Images, float32 [n, 64] from 0 to 1, and their digits, int32 [n]."""

    images: Any
    labels: Any

    def batches(self, random: np.random.Generator) -> Iterator["Digits"]:
        """Yield all digits once, in random order, in batches."""
        order = random.permutation(len(self.labels))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            yield Digits(self.images[chosen], self.labels[chosen])


def load_digits() -> tuple[Digits, Digits]:
    """Return the digits to train on, and the fifth that is held out: the same every time."""
    with np.load(DATA, allow_pickle=False) as file:
        images = file["images"].astype(np.float32) / BRIGHTEST
        labels = file["labels"].astype(np.int32)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    test, train = np.split(order, [len(order) // 5])
    return Digits(images[train], labels[train]), Digits(images[test], labels[test])


class Model(NamedTuple):
    """A graph with its placeholders, losses and operations."""

    graph: af.Graph
    images: af.Tensor
    labels: af.Tensor
    noise: af.Tensor
    probabilities: af.Tensor
    accuracy: af.Tensor
    loss: af.Tensor
    train: af.Operation
    init: af.Operation


def build(steps: int, seed: int = 1) -> Model:
    """Build the graph of the net, its loss, and a training step whose learning rate falls to 0 within `steps` steps."""
    graph = af.Graph()
    with graph.as_default():
        af.set_random_seed(seed)
        images = af.placeholder(af.float32, [None, 64], name="images")
        labels = af.placeholder(af.int32, [None], name="labels")
        noise = af.placeholder_with_default(0.0, [], name="noise")
        logits = net(images, noise)
        loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        hits = af.equal(af.argmax(logits, axis=1, output_type=af.int32), labels)
        step = af.train.create_global_step()
        rate = af.train.polynomial_decay(0.1, step, steps, end_learning_rate=0.0)
        return Model(
            graph=graph,
            images=images,
            labels=labels,
            noise=noise,
            probabilities=af.nn.softmax(logits),
            accuracy=af.reduce_mean(af.cast(hits, af.float32)),
            loss=loss,
            train=af.train.MomentumOptimizer(rate, 0.9).minimize(loss, global_step=step),
            init=af.global_variables_initializer(),
        )


def net(images: af.Tensor, noise: af.Tensor) -> af.Tensor:
    """Return the logits of the ten digits: one hidden layer. `noise` is the dropout rate of its outputs."""
    with af.name_scope("hidden"):
        hidden = af.nn.relu(dense(af.nn.dropout(images, rate=noise / 3), 64, 128))
    with af.name_scope("logits"):
        return dense(af.nn.dropout(hidden, rate=noise), 128, 10)


def dense(inputs: af.Tensor, size: int, outputs: int) -> af.Tensor:
    """Return inputs times weights plus a bias. The initial weights keep the scale of the inputs."""
    weights = af.Variable(af.random_normal([size, outputs], stddev=math.sqrt(2 / size)), name="weights")
    bias = af.Variable(af.zeros([outputs]), name="bias")
    return af.matmul(inputs, weights) + bias


class Progress(NamedTuple):
    """Progress of the training: number of done steps, of all steps, and the last loss."""

    step: int
    steps: int
    loss: float


def steps_of(digits: Digits, epochs: int) -> int:
    """Return the number of steps in `epochs` epochs."""
    return epochs * math.ceil(len(digits.labels) / BATCH)


Report = Callable[[Progress], None]


async def train(session: af.Session, model: Model, digits: Digits, epochs: int, report: Report) -> None:
    """Train for `epochs` epochs; calls `report` after each step."""
    run_step = session.make_callable([model.loss, model.train], feeds=[model.images, model.labels, model.noise])
    random = np.random.default_rng(1)
    steps, step = steps_of(digits, epochs), 0
    for _ in range(epochs):
        for images, labels in digits.batches(random):
            loss, _ = await run_step(images, labels, NOISE)
            step += 1
            report(Progress(step, steps, float(loss)))


class ProgressBar:
    """Shows progress: a bar on a terminal, else a line for every tenth."""

    WIDTH = 30

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._started = time.perf_counter()
        self._drawn = -math.inf

    def __call__(self, progress: Progress) -> None:
        """Show the progress."""
        last = progress.step == progress.steps
        if self._terminal:
            now = time.perf_counter()
            if last or now - self._drawn > 0.05:
                self._drawn = now
                self._stream.write(f"\r{self._bar(progress)}{self._text(progress)} " + "\n" * last)
                self._stream.flush()
        elif last or progress.step * 10 // progress.steps > (progress.step - 1) * 10 // progress.steps:
            print(self._text(progress), file=self._stream, flush=True)

    def _bar(self, progress: Progress) -> str:
        filled = self.WIDTH * progress.step // progress.steps
        return f"[{'#' * filled}{'.' * (self.WIDTH - filled)}] "

    def _text(self, progress: Progress) -> str:
        rate = progress.step / max(time.perf_counter() - self._started, 1e-9)
        return f"step {progress.step}/{progress.steps}  loss {progress.loss:.4f}  {rate:.0f} steps/s"


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the factory of the event loop: uvloop's if that is wanted and installed, else asyncio's."""
    if name == "uvloop" and importlib.util.find_spec("uvloop"):
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


def add_loop_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--loop`."""
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop", help="default: uvloop if installed")


async def main(epochs: int) -> None:
    """Train the net, then test it on the held-out images."""
    seen, unseen = load_digits()
    model = build(steps_of(seen, epochs))
    async with af.Session(graph=model.graph) as session:
        await session.run(model.init)
        await train(session, model, seen, epochs, ProgressBar())
        accuracy = await session.run(model.accuracy, {model.images: unseen.images, model.labels: unseen.labels})
    print(f"test accuracy {accuracy:.3f}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=100, help="number of epochs (default: %(default)s)")
    add_loop_option(parser)
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    return options


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.epochs))
