"""SGD steps of a transformer block: layer norm, attention of 8 heads, and two dense layers with gelu between them.

The block is 256 wide, and gets 8 sequences of 128 tokens. Each half adds to its input. The loss is the mean square of
the outputs. aioflow and TensorFlow build the same graph of products, softmax and element-wise operations, but for layer
norm and gelu, which are one op each in aioflow; PyTorch uses its layer norm, its attention in one op and its gelu; jax
is one jitted function. The losses of the first three steps must agree on all sides.
"""

import functools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import numpy as np

from benchmarks import onednn, peers, training_sides
from benchmarks.harness import Step, alternate
from benchmarks.report import Row, timed_row

WIDTH, HEADS, TOKENS, BATCH, HIDDEN = 256, 8, 128, 8, 1024
EACH = WIDTH // HEADS
RATE = 0.1
EPSILON = 1e-5
DRAW = np.random.default_rng(1)
TEXTS = DRAW.standard_normal((BATCH, TOKENS, WIDTH), np.float32)
CUBE, SCALE = 0.044715, float(np.sqrt(2 / np.pi))
"""The constants of gelu by tanh."""


def _weights(inputs: int, outputs: int) -> Any:
    return DRAW.standard_normal((inputs, outputs), np.float32) / np.float32(np.sqrt(inputs))


WEIGHTS: Final[Mapping[str, Any]] = {
    "first_gain": np.ones(WIDTH, np.float32),
    "first_shift": np.zeros(WIDTH, np.float32),
    "attend": _weights(WIDTH, 3 * WIDTH),
    "project": _weights(WIDTH, WIDTH),
    "second_gain": np.ones(WIDTH, np.float32),
    "second_shift": np.zeros(WIDTH, np.float32),
    "widen": _weights(WIDTH, HIDDEN),
    "widen_bias": np.zeros(HIDDEN, np.float32),
    "narrow": _weights(HIDDEN, WIDTH),
    "narrow_bias": np.zeros(WIDTH, np.float32),
}


async def rows() -> AsyncIterator[Row]:
    """Measure the block."""
    sides = onednn.sides(functools.partial(training_sides.aioflow, training, TEXTS)) | {
        peers.TENSORFLOW: training_sides.tensorflow(training, TEXTS),
        peers.TORCH: torch(),
        peers.JAX: jax(),
    }
    timing = await alternate(sides, agree=1e-4)
    title = f"transformer block {WIDTH}, {HEADS} heads, {TOKENS} tokens, batch {BATCH}, SGD step"
    yield timed_row(title, timing, onednn.claims(timing, 1))


def training(m: Any) -> tuple[Any, Any, Any]:
    """Build the placeholder for texts, the loss, and a training step, in the current graph."""
    texts = m.placeholder(m.float32, TEXTS.shape)
    weights = {name: m.Variable(value, name=name).read_value() for name, value in WEIGHTS.items()}
    attended = texts + attention(m, weights, normalised(m, texts, weights["first_gain"], weights["first_shift"]))
    inputs = normalised(m, attended, weights["second_gain"], weights["second_shift"])
    hidden = gelu(m, dense(m, inputs, weights["widen"]) + weights["widen_bias"])
    outputs = attended + dense(m, hidden, weights["narrow"]) + weights["narrow_bias"]
    loss = m.reduce_mean(m.square(outputs))
    return texts, loss, m.train.GradientDescentOptimizer(RATE).minimize(loss)


def normalised(m: Any, x: Any, gain: Any, shift: Any) -> Any:
    """Return the layer norm over the last axis. TensorFlow has no operation for it."""
    if hasattr(m.nn, "layer_normalization"):
        return m.nn.layer_normalization(x, shift, gain, variance_epsilon=EPSILON)
    mean, variance = m.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * m.rsqrt(variance + EPSILON) * gain + shift


def dense(m: Any, x: Any, weights: Any) -> Any:
    """Return the product of the last axis with the weights."""
    inputs, outputs = weights.shape.as_list()
    return m.reshape(m.matmul(m.reshape(x, [-1, inputs]), weights), [BATCH, TOKENS, outputs])


def attention(m: Any, weights: Mapping[str, Any], x: Any) -> Any:
    """Return the attention of all tokens to all."""
    all_heads = m.reshape(dense(m, x, weights["attend"]), [BATCH, TOKENS, 3, HEADS, EACH])
    query, key, value = m.unstack(m.transpose(all_heads, [2, 0, 3, 1, 4]))
    scores = m.nn.softmax(m.matmul(query, key, transpose_b=True) * (1 / EACH**0.5))
    seen = m.transpose(m.matmul(scores, value), [0, 2, 1, 3])
    return dense(m, m.reshape(seen, [BATCH, TOKENS, WIDTH]), weights["project"])


def gelu(m: Any, x: Any) -> Any:
    """Return gelu by tanh. TensorFlow 1 has no operation for it."""
    if hasattr(m.nn, "layer_normalization"):
        return m.nn.gelu(x, approximate=True)
    return 0.5 * x * (1.0 + m.tanh(SCALE * (x + CUBE * x * x * x)))


@asynccontextmanager
async def torch() -> AsyncIterator[Step]:
    """Yield a step of PyTorch that trains once on the texts and returns its loss."""
    module = peers.torch()
    weights = {name: module.from_numpy(value.copy()).requires_grad_() for name, value in WEIGHTS.items()}
    optimizer = module.optim.SGD(list(weights.values()), lr=RATE)
    texts = module.from_numpy(TEXTS)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = torch_loss(module.nn.functional, weights, texts)
        loss.backward()
        optimizer.step()
        return loss.item()

    yield step


def torch_loss(functions: Any, w: Mapping[str, Any], texts: Any) -> Any:
    """Return the mean square of the outputs."""
    x = functions.layer_norm(texts, (WIDTH,), w["first_gain"], w["first_shift"], EPSILON)
    query, key, value = (x @ w["attend"]).view(BATCH, TOKENS, 3, HEADS, EACH).permute(2, 0, 3, 1, 4)
    seen = functions.scaled_dot_product_attention(query, key, value)
    attended = texts + seen.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH) @ w["project"]
    x = functions.layer_norm(attended, (WIDTH,), w["second_gain"], w["second_shift"], EPSILON)
    hidden = functions.gelu(x @ w["widen"] + w["widen_bias"], approximate="tanh")
    return (attended + hidden @ w["narrow"] + w["narrow_bias"]).square().mean()


@asynccontextmanager
async def jax() -> AsyncIterator[Step]:
    """Yield a jitted step that trains once on the texts and returns its loss."""
    module = peers.jax()
    update = peers.jax_sgd(jax_loss, RATE)
    parameters = module.device_put(dict(WEIGHTS))

    def step() -> float:
        nonlocal parameters
        value, parameters = update(parameters, TEXTS)
        return float(value)

    yield step


def jax_loss(w: Mapping[str, Any], texts: Any) -> Any:
    """Return the mean square of the outputs."""
    module = peers.jax()
    numpy = module.numpy

    def norm(x: Any, gain: Any, shift: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * module.lax.rsqrt(x.var(-1, keepdims=True) + EPSILON) * gain + shift

    x = norm(texts, w["first_gain"], w["first_shift"]) @ w["attend"]
    query, key, value = x.reshape(BATCH, TOKENS, 3, HEADS, EACH).transpose(2, 0, 3, 1, 4)
    scores = module.nn.softmax(query @ key.swapaxes(-1, -2) / numpy.sqrt(EACH).astype(numpy.float32))
    seen = (scores @ value).transpose(0, 2, 1, 3).reshape(BATCH, TOKENS, WIDTH)
    attended = texts + seen @ w["project"]
    x = norm(attended, w["second_gain"], w["second_shift"]) @ w["widen"] + w["widen_bias"]
    hidden = 0.5 * x * (1.0 + numpy.tanh(SCALE * (x + CUBE * x * x * x)))
    return numpy.mean(numpy.square(attended + hidden @ w["narrow"] + w["narrow_bias"]))
