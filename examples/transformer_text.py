"""Train a small Transformer on the manual of Python, and let it write on, word by word.

The manual is that of the running interpreter. The loss is in bits per word: 10.6 bits if all words are equally likely,
7.8 if the net only knows how often each word occurs, fewer if it has learned which words follow each other.

The net writes in a single loop of the graph. The loop keeps the keys and values of all words so far, so that the net
looks at each word once, and puts each new word into a queue, from which the program prints it at once.
"""

import argparse
import asyncio
import math
import re
from collections import Counter
from collections.abc import Sequence
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from train_digits import add_loop_option, loop_factory

import aioflow as af

TEXT = "\n\n".join(topics.values())
FREQUENT = 1536
CONTEXT, BATCH = 128, 8
WIDTH, HEADS, BLOCKS = 128, 4, 2
EACH = WIDTH // HEADS
RATE = 0.002
PROMPT = "The value of"


def words_of(text: str) -> list[str]:
    """Return the words of a text.

    A word is letters with the space before them, a line break with the spaces after it, or a character that may repeat.
    """
    return [found.group() for found in re.finditer(r" ?[A-Za-z_]+|\n+ *|(.)\1*", text)]


class Vocabulary:
    """The frequent words of a text, and their numbers."""

    def __init__(self, text: str) -> None:
        self.words = [word for word, _ in Counter(words_of(text)).most_common(FREQUENT)]
        self._numbers = {word: number for number, word in enumerate(self.words)}

    def numbers(self, text: str) -> Any:
        """Return the numbers of the words of a text, int32 [n], without rare words."""
        return np.array([self._numbers[word] for word in words_of(text) if word in self._numbers], np.int32)


class Attention(af.layers.Layer):
    """Each word gets a mean of what those up to it offer, weighted by how well their keys match its query."""

    def __init__(self) -> None:
        super().__init__()
        self.inward = af.layers.Dense(3 * WIDTH, name="inward")
        self.outward = af.layers.Dense(WIDTH, name="outward")

    def call(self, x: af.Tensor) -> af.Tensor:
        """Return the result for all words of texts, [batch, CONTEXT, WIDTH]."""
        parts = af.reshape(self.inward(x), [-1, CONTEXT, 3, HEADS, EACH])
        query, keys, values = af.unstack(af.transpose(parts, [2, 0, 3, 1, 4]))
        scores = af.matmul(query, keys, transpose_b=True) / math.sqrt(EACH)
        unseen = 1 - af.linalg.band_part(af.ones([CONTEXT, CONTEXT]), -1, 0)
        seen = af.transpose(af.matmul(af.nn.softmax(scores - 1e9 * unseen), values), [0, 2, 1, 3])
        result: af.Tensor = self.outward(af.reshape(seen, [-1, CONTEXT, WIDTH]))
        return result

    def step(self, x: af.Tensor, place: af.Tensor, kept: af.Tensor) -> tuple[af.Tensor, af.Tensor]:
        """Return the result for the word at `place`, [1, WIDTH], and `kept` with its key and value.

        `kept` holds the keys and values of the words before it, [CONTEXT, 2, HEADS, EACH].
        """
        query, key, value = af.unstack(af.reshape(self.inward(x), [3, HEADS, EACH]))
        kept = af.tensor_scatter_update(kept, [[place]], [[key, value]])
        keys, values = af.unstack(af.transpose(kept[: place + 1], [1, 2, 0, 3]))
        scores = af.matmul(query[:, None], keys, transpose_b=True) / math.sqrt(EACH)
        return self.outward(af.reshape(af.matmul(af.nn.softmax(scores), values), [1, WIDTH])), kept


class Block(af.layers.Layer):
    """Attention, then two dense layers; each adds to its normalized input."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.attention = af.layers.LayerNormalization(), Attention()
        self.thought = af.Sequential(
            [af.layers.LayerNormalization(), af.layers.Dense(4 * WIDTH, activation="relu"), af.layers.Dense(WIDTH)]
        )

    def call(self, x: af.Tensor) -> af.Tensor:
        """Return the result for all words of texts."""
        x += self.attention(self.before(x))
        x += self.thought(x)
        return x

    def step(self, x: af.Tensor, place: af.Tensor, kept: af.Tensor) -> tuple[af.Tensor, af.Tensor]:
        """Return the result for one word, and what is kept of it."""
        seen, kept = self.attention.step(self.before(x), place, kept)
        x += seen
        x += self.thought(x)
        return x, kept


class Writer(af.Model):
    """Predicts the next word after each one of a text."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = af.layers.Embedding(words, WIDTH)
        self.places = af.layers.Embedding(CONTEXT, WIDTH)
        self.blocks = [Block() for _ in range(BLOCKS)]
        self.predict_next = af.Sequential([af.layers.LayerNormalization(), af.layers.Dense(words)])

    def call(self, inputs: af.Tensor, training: bool = False) -> af.Tensor:
        """Return the logits after each word of texts, int32 [batch, CONTEXT]."""
        x: af.Tensor = self.words(inputs) + self.places(af.range(CONTEXT))
        for layer in (*self.blocks, self.predict_next):
            x = layer(x)
        return x

    def step(self, word: af.Tensor, place: af.Tensor, kept: list[af.Tensor]) -> tuple[af.Tensor, list[af.Tensor]]:
        """Return the logits after the word at `place`, and what each block keeps of the text so far."""
        x, after = self.words(word[None]) + self.places(place[None]), []
        for block, before in zip(self.blocks, kept, strict=True):
            x, now = block.step(x, place, before)
            after.append(now)
        return self.predict_next(x), after


def windows(numbers: Any) -> af.data.Dataset:
    """Return pieces of a text without end, drawn at random, and the words that follow each of theirs: [BATCH, CONTEXT].

    Both are int32.
    """

    def cut(starts: Any) -> tuple[Any, Any]:
        places = starts[:, None] + np.arange(CONTEXT)
        return numbers[places], numbers[places + 1]

    starts = af.data.Dataset.range(0, len(numbers) - CONTEXT, 8)
    return starts.shuffle(len(numbers), seed=1).repeat().batch(BATCH).map(cut).prefetch(2)


def bits(labels: af.Tensor, logits: af.Tensor) -> af.Tensor:
    """Return the bits that the next words take."""
    return af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits) / math.log(2)


async def train(model: Writer, numbers: Any, steps: int) -> af.callbacks.History:
    """Train for `steps` steps, with a learning rate that falls to 0. Returns the mean losses of each tenth of them."""
    rate = af.train.cosine_decay(RATE, af.train.create_global_step(), steps)
    model.compile(af.train.AdamOptimizer(rate), loss=bits)
    epochs = min(10, steps)
    return await model.fit(windows(numbers), epochs=epochs, steps_per_epoch=steps // epochs, verbose=2)


def writing(model: Writer, prompt: Any, length: int, spread: float = 0.6) -> tuple[af.FIFOQueue, af.Operation]:
    """Build the loop that writes: a queue that gets all words of a text, and the operation that runs the loop.

    The text begins with the prompt. The smaller `spread` is, the likelier are the words that are drawn.
    """
    queue = af.FIFOQueue(8, [af.int32], shapes=[[]])

    def write(place: af.Tensor, word: af.Tensor, kept: list[af.Tensor]) -> tuple[af.Tensor, af.Tensor, list[af.Tensor]]:
        logits, kept = model.step(word, place, kept)
        drawn = af.multinomial(logits / spread, 1, output_dtype=af.int32)[0, 0]
        given = af.gather(prompt, af.minimum(place + 1, len(prompt) - 1))
        with af.control_dependencies([queue.enqueue(word)]):
            return place + 1, af.where(place + 1 < len(prompt), given, drawn), kept

    nothing = [af.zeros([CONTEXT, 2, HEADS, EACH])] * BLOCKS
    places, _, _ = af.while_loop(lambda place, *_: place < length, write, [0, prompt[0], nothing], back_prop=False)
    with af.control_dependencies([places]):
        return queue, queue.close()


async def main(steps: int, length: int) -> None:
    """Train, then write."""
    af.set_random_seed(1)
    vocabulary = Vocabulary(TEXT)
    model = Writer(len(vocabulary.words))
    async with af.Session() as session, asyncio.TaskGroup() as group:
        await train(model, vocabulary.numbers(TEXT), steps)
        queue, write = writing(model, vocabulary.numbers(PROMPT), length)
        group.create_task(session.run(write))
        async for number in session.queue(queue):
            print(vocabulary.words[number], end="", flush=True)
    print()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=600, help="steps of training (default: %(default)s)")
    parser.add_argument("--length", type=int, default=CONTEXT, help="words to write (default: %(default)s, the most)")
    add_loop_option(parser)
    options = parser.parse_args(arguments)
    if not 1 <= options.length <= CONTEXT or options.steps < 1:
        parser.error(f"--length is from 1 to {CONTEXT}, and --steps at least 1")
    return options


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.steps, options.length))
