"""Learn from the source of Python's standard library which words are alike, and print the neighbours of some.

Each word predicts the words beside it [Mikolov et al. 2013]. Words that predict the same are alike, as "read" and
"write" are. The loss is a sampled softmax: in each step it compares the right words with a few others, not with all.
"""

import argparse
import asyncio
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from train_digits import add_loop_option, loop_factory

import aioflow as af

VOCABULARY = 3000
WIDTH = 64
WINDOW = 4
BATCH, OTHERS = 1024, 64
FREQUENT = 1e-4
SHOWN = ("first", "read", "error", "key", "server", "thread")
NEIGHBOURS = 5


class Text(NamedTuple):
    """The words of a text as numbers, int32 [n], and the words that the numbers stand for, the most frequent first."""

    numbers: Any
    words: Sequence[str]


def load_text() -> Text:
    """Return the words of all modules that are not packages. Rare words are left out, and frequent ones mostly."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    source = " ".join(file.read_text(encoding="utf-8", errors="ignore") for file in files)
    found = re.findall("[a-z]{2,}", source.lower())
    counts = Counter(found).most_common(VOCABULARY)
    places = {word: place for place, (word, _) in enumerate(counts)}
    numbers = np.array([places[word] for word in found if word in places], np.int32)
    shares = np.array([count for _, count in counts]) / len(found)
    kept = np.random.default_rng(1).random(len(numbers)) < np.sqrt(FREQUENT / shares)[numbers]
    return Text(numbers[kept], [word for word, _ in counts])


def pairs(numbers: Any) -> Iterator[tuple[Any, Any]]:
    """Yield words and as many words beside them without end, int32 [BATCH] and [BATCH, 1], drawn at random."""
    random = np.random.default_rng(1)
    distances = np.array([distance for distance in range(-WINDOW, WINDOW + 1) if distance])
    while True:
        places = random.integers(WINDOW, len(numbers) - WINDOW, BATCH)
        yield numbers[places], numbers[places + random.choice(distances, BATCH)][:, None]


class Model(NamedTuple):
    """A graph with its placeholders, its loss and its operations."""

    graph: af.Graph
    words: af.Tensor
    beside: af.Tensor
    loss: af.Tensor
    train: af.Operation
    neighbours: af.Tensor
    init: af.Operation


def build() -> Model:
    """Build the graph. `neighbours` has the words whose vectors have the smallest angles to those of `words`."""
    graph = af.Graph()
    with graph.as_default():
        af.set_random_seed(1)
        words = af.placeholder(af.int32, [None], name="words")
        beside = af.placeholder(af.int32, [None, 1], name="beside")
        vectors = af.Variable(af.random_uniform([VOCABULARY, WIDTH], -0.1, 0.1), name="vectors")
        weights = af.Variable(af.zeros([VOCABULARY, WIDTH]), name="weights")
        biases = af.Variable(af.zeros([VOCABULARY]), name="biases")
        found = af.nn.embedding_lookup(vectors, words)
        losses = af.nn.sampled_softmax_loss(weights, biases, beside, found, OTHERS, VOCABULARY)
        directions = af.nn.l2_normalize(vectors, 1)
        _, nearest = af.nn.top_k(af.matmul(af.gather(directions, words), directions, transpose_b=True), NEIGHBOURS + 1)
        return Model(
            graph=graph,
            words=words,
            beside=beside,
            loss=af.reduce_mean(losses),
            train=af.train.AdagradOptimizer(0.2).minimize(af.reduce_sum(losses)),
            neighbours=nearest[:, 1:],
            init=af.global_variables_initializer(),
        )


async def train(session: af.Session, model: Model, text: Text, steps: int) -> None:
    """Train for `steps` steps. After each tenth of them, print the mean loss."""
    step = session.make_callable([model.loss, model.train], feeds=[model.words, model.beside])
    batches, every = pairs(text.numbers), max(1, steps // 10)
    losses: list[float] = []
    while len(losses) < steps:
        loss, _ = await step(*next(batches))
        losses.append(loss)
        if len(losses) % every == 0:
            print(f"step {len(losses)}  loss {np.mean(losses[-every:]):.3f}", flush=True)


async def main(steps: int) -> None:
    """Train, then print the neighbours."""
    text, model = load_text(), build()
    async with af.Session(graph=model.graph) as session:
        await session.run(model.init)
        await train(session, model, text, steps)
        shown = [text.words.index(word) for word in SHOWN]
        for word, near in zip(SHOWN, await session.run(model.neighbours, {model.words: shown}), strict=True):
            print(f"{word}: {', '.join(text.words[number] for number in near)}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=3000, help="steps of training (default: %(default)s)")
    add_loop_option(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.steps))
