"""Train a net on the source of Python's standard library, character by character, and let it write new text.

The text is that of the running interpreter. The loss is in bits per character: 6.6 bits if all characters are equally
likely, fewer if the net predicts better.
"""

import argparse
import asyncio
import itertools
import math
import string
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from train_digits import add_loop_option, loop_factory

import aioflow as af

MODULES = """
    argparse ast calendar collections/__init__ configparser csv dataclasses difflib doctest enum fractions functools
    heapq inspect json/decoder optparse os pickle platform plistlib pprint random shutil statistics subprocess tarfile
    tempfile textwrap threading tokenize traceback typing uuid weakref
"""
ALPHABET = "".join(sorted(string.digits + string.ascii_letters + string.punctuation + " \n"))
STREAMS, WINDOW = 32, 50
UNITS = 256
PROMPT = "\n\ndef "


def load_text() -> str:
    """Return the concatenated source of the modules."""
    library = Path(sysconfig.get_path("stdlib"))
    return "".join((library / f"{module}.py").read_text(encoding="utf-8") for module in MODULES.split())


def encoded(text: str) -> Any:
    """Return the index of each character in the alphabet, int32 [n], without characters that are not in it."""
    places = {character: place for place, character in enumerate(ALPHABET)}
    return np.array([places[character] for character in text if character in places], np.int32)


def windows(codes: Any) -> Iterator[tuple[Any, Any]]:
    """Yield characters and their successors, [STREAMS, WINDOW]; each row continues the same row of the last window."""
    streams = codes[: len(codes) // STREAMS * STREAMS].reshape(STREAMS, -1)
    for start in range(0, streams.shape[1] - WINDOW, WINDOW):
        yield streams[:, start : start + WINDOW], streams[:, start + 1 : start + WINDOW + 1]


class Model(NamedTuple):
    """A graph with its placeholders, losses and operations."""

    graph: af.Graph
    characters: af.Tensor
    following: af.Tensor
    before: Any
    after: Any
    bits: af.Tensor
    written: af.Tensor
    train: af.Operation
    init: af.Operation


def build(seed: int = 1) -> Model:
    """Build the graph of the net: an LSTM cell that reads the characters, and a layer that predicts the next one.

    `before` and `after` are the state of the cell before the first and after the last character.
    """
    graph = af.Graph()
    with graph.as_default():
        af.set_random_seed(seed)
        characters = af.placeholder(af.int32, [None, None], name="characters")
        following = af.placeholder(af.int32, [None, None], name="following")
        before = af.nn.rnn_cell.LSTMStateTuple(*(af.placeholder(af.float32, [None, UNITS]) for _ in "ch"))
        cell = af.nn.rnn_cell.LSTMCell(UNITS)
        outputs, after = af.nn.dynamic_rnn(cell, af.one_hot(characters, len(ALPHABET)), initial_state=before)
        weights = af.Variable(af.random_normal([UNITS, len(ALPHABET)], stddev=1 / math.sqrt(UNITS)), name="weights")
        logits = af.tensordot(outputs, weights, 1) + af.Variable(af.zeros([len(ALPHABET)]), name="bias")
        loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=following, logits=logits))
        return Model(
            graph=graph,
            characters=characters,
            following=following,
            before=before,
            after=after,
            bits=loss / math.log(2),
            written=af.multinomial(1.25 * logits[:, -1], 1, output_dtype=af.int32),
            train=af.train.AdamOptimizer(0.004).minimize(loss),
            init=af.global_variables_initializer(),
        )


async def train(session: af.Session, model: Model, steps: int) -> None:
    """Train for `steps` steps. After each twentieth of them, print the mean loss in bits per character."""
    feeds = [model.characters, model.following, *model.before]
    run_step = session.make_callable([model.bits, model.after, model.train], feeds=feeds)
    codes, every = encoded(load_text()), max(1, steps // 20)
    taken: list[float] = []
    while len(taken) < steps:
        state = nothing(STREAMS)
        for characters, following in itertools.islice(windows(codes), steps - len(taken)):
            bits, state, _ = await run_step(characters, following, *state)
            taken.append(bits)
            if len(taken) % every == 0:
                print(f"step {len(taken)}  {np.mean(taken[-every:]):.3f} bits per character", flush=True)


async def write(session: af.Session, model: Model, length: int) -> str:
    """Return the prompt and its continuation: the net reads each character that it draws."""
    run_step = session.make_callable([model.written, model.after], feeds=[model.characters, *model.before])
    text, state, characters = PROMPT, nothing(1), encoded(PROMPT)[np.newaxis]
    for _ in range(length):
        characters, state = await run_step(characters, *state)
        text += ALPHABET[characters.item()]
    return text


def nothing(streams: int) -> Any:
    """Return the initial state of a cell."""
    return [np.zeros([streams, UNITS], np.float32)] * 2


async def main(steps: int, length: int) -> None:
    """Train, then write."""
    model = build()
    async with af.Session(graph=model.graph) as session:
        await session.run(model.init)
        await train(session, model, steps)
        print(await write(session, model, length))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1000, help="steps of training (default: %(default)s)")
    parser.add_argument("--length", type=int, default=600, help="characters to write (default: %(default)s)")
    add_loop_option(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.steps, options.length))
