"""Generation of text by a Transformer with a key/value cache: 4 blocks, 256 wide, 8 heads, one token at a time.

Each token attends to the keys and values of those before it, which are kept, and the likeliest next token is the next
input. aioflow and TensorFlow run a while_loop that keeps keys and values in its variables. PyTorch runs eagerly in
inference mode, with its layer norm, linear layers and attention, and writes into a cache made once. The sums of the
written tokens must agree on all sides. A step writes 64 tokens after an empty prompt; the figures are per step.
"""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import onednn, peers
from benchmarks.harness import Step, Timing, alternate
from benchmarks.report import Claim, Row, timed_row

WIDTH, HEADS, BLOCKS, TOKENS, WORDS = 256, 8, 4, 64, 1000
EACH = WIDTH // HEADS
EPSILON = 1e-5
DRAW = np.random.default_rng(1)


def _weights(inputs: int, outputs: int) -> Any:
    return DRAW.standard_normal((inputs, outputs), np.float32) / np.float32(np.sqrt(inputs))


WORD_ROWS, PLACE_ROWS, PREDICT = _weights(WORDS, WIDTH), _weights(TOKENS, WIDTH), _weights(WIDTH, WORDS)
WEIGHTS = [
    {
        "attend": _weights(WIDTH, 3 * WIDTH),
        "project": _weights(WIDTH, WIDTH),
        "widen": _weights(WIDTH, 4 * WIDTH),
        "narrow": _weights(4 * WIDTH, WIDTH),
    }
    for _ in range(BLOCKS)
]
GAIN, SHIFT = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)


async def rows() -> AsyncIterator[Row]:
    """Measure the generation."""
    sides = onednn.sides(aioflow) | {peers.TENSORFLOW: tensorflow(), peers.TORCH: torch()}
    timing = await alternate(sides, rounds=9, agree=1e-6)
    row = timed_row(f"{TOKENS} tokens by {BLOCKS} blocks of {WIDTH}, {HEADS} heads, key/value cache", timing, [])
    yield Row(row.title, row.figures | rates(timing), claims(timing))


@asynccontextmanager
async def aioflow() -> AsyncIterator[Step]:
    """Yield a step that writes a text and returns the sum of its tokens."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        total = written(af)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        yield session.make_callable(total)


@asynccontextmanager
async def tensorflow() -> AsyncIterator[Step]:
    """Yield the same graph in TensorFlow."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        total = written(tf)
        session.run(tf.global_variables_initializer())
        yield session.make_callable(total)


def written(m: Any) -> Any:
    """Build the loop that writes, and return the sum of the tokens."""
    blocks = [{name: m.Variable(value).read_value() for name, value in block.items()} for block in WEIGHTS]
    words, places, predict = [m.Variable(value).read_value() for value in (WORD_ROWS, PLACE_ROWS, PREDICT)]
    gain, shift = m.Variable(GAIN).read_value(), m.Variable(SHIFT).read_value()

    def norm(x: Any) -> Any:
        mean, variance = m.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * m.rsqrt(variance + EPSILON) * gain + shift

    def step(place: Any, token: Any, total: Any, *kept: Any) -> Any:
        x, after = m.gather(words, [token]) + m.gather(places, [place]), []
        for block, before in zip(blocks, kept, strict=True):
            query, key, value = m.unstack(m.reshape(m.matmul(norm(x), block["attend"]), [3, HEADS, EACH]))
            now = m.tensor_scatter_update(before, [[place]], [[key, value]])
            keys, values = m.unstack(m.transpose(now[: place + 1], [1, 2, 0, 3]))
            scores = m.nn.softmax(m.matmul(query[:, None] * (1 / math.sqrt(EACH)), keys, transpose_b=True))
            x += m.matmul(m.reshape(m.matmul(scores, values), [1, WIDTH]), block["project"])
            x += m.matmul(m.nn.relu(m.matmul(norm(x), block["widen"])), block["narrow"])
            after.append(now)
        token = m.argmax(m.matmul(norm(x), predict)[0], output_type=m.int32)
        return (place + 1, token, total + token, *after)

    nothing = [m.zeros([TOKENS, 2, HEADS, EACH])] * BLOCKS
    return m.while_loop(lambda place, *_: place < TOKENS, step, [0, 0, 0, *nothing], back_prop=False)[2]


@asynccontextmanager
async def torch() -> AsyncIterator[Step]:
    """Yield a step of PyTorch that writes a text and returns the sum of its tokens."""
    module = peers.torch()
    given = module.from_numpy
    words, places, gain, shift = map(given, (WORD_ROWS, PLACE_ROWS, GAIN, SHIFT))
    blocks = [{name: given(value.T.copy()) for name, value in block.items()} for block in WEIGHTS]
    predict = given(PREDICT.T.copy())
    functions = module.nn.functional
    kept = [module.zeros(2, HEADS, TOKENS, EACH) for _ in blocks]

    def norm(x: Any) -> Any:
        return functions.layer_norm(x, (WIDTH,), gain, shift, EPSILON)

    def step(token: Any, place: int) -> Any:
        x = words[token] + places[place]
        for block, cache in zip(blocks, kept, strict=True):
            query, *pair = functions.linear(norm(x), block["attend"]).view(3, HEADS, 1, EACH)
            for part, new in zip(cache, pair, strict=True):
                part[:, place : place + 1] = new
            keys, values = cache[:, :, : place + 1]
            seen = functions.scaled_dot_product_attention(query, keys, values)
            x = x + functions.linear(seen.view(WIDTH), block["project"])
            x = x + functions.linear(functions.linear(norm(x), block["widen"]).relu(), block["narrow"])
        return functions.linear(norm(x), predict).argmax()

    @module.inference_mode()  # type: ignore[untyped-decorator]
    def write() -> Any:
        token, total = module.tensor(0), 0
        for place in range(TOKENS):
            token = step(token, place)
            total += token
        return total.item()

    yield write


def rates(timing: Timing) -> dict[str, str]:
    """Return the tokens per second of each side, beside the seconds of a step."""
    return {f"{side}, tokens/s": f"{TOKENS / (timing.seconds(side) or math.inf):,.0f}" for side in timing.rounds}


def claims(timing: Timing) -> list[Claim]:
    """Compare with PyTorch."""
    return [Claim("tokens/s, aioflow / PyTorch", timing.ratio(peers.TORCH, peers.AIOFLOW), 1, at_least=True)]
