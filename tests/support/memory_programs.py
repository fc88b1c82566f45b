"""Random programs whose values take much memory: chains, branches, products, reductions, loops, gradients."""

import random

import numpy as np

import aioflow as af

ROWS, COLUMNS = 128, 512


def _halves(a, b):
    left, right = af.split(a, 2, axis=1)
    return af.concat([right * 2.0, left], 1) + b


def _loop(a, b):
    return af.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, af.tanh(y) * 0.5 + b), [0, a])[1]


def _branch(a, b):
    return af.cond(af.reduce_sum(a) > 0, lambda: af.tanh(a) + b, lambda: af.exp(-af.square(a)))


STEPS = (
    lambda a, b: af.tanh(a) + b,
    lambda a, b: a * b,
    lambda a, b: af.sin(a * 0.3 + 1.0),
    lambda a, b: af.maximum(a, b),
    lambda a, b: af.exp(-af.square(a)),
    lambda a, b: af.matmul(a, af.matmul(a, b, transpose_a=True)) * 1e-3,
    lambda a, b: a - af.reduce_mean(b, 1, keepdims=True),
    lambda a, b: af.transpose(af.tanh(af.transpose(a))) + b,
    lambda a, b: af.map_fn(lambda row: af.tanh(row) * 2.0, a) * b,
    lambda a, b: af.add_n([a, b, af.sin(a)]),
    lambda a, b: af.nn.softmax(a) * b,
    lambda a, b: b * af.reduce_sum(af.nn.top_k(a, 8)[0], 1, keepdims=True),
    lambda a, b: af.reshape(af.reshape(a, [-1]) * 0.5, [-1, COLUMNS]) + b,
    lambda a, b: af.where(a > b, a, b),
    _halves,
    _loop,
    _branch,
)


def random_program(seed, is_open):
    """A graph, a tensor to fetch, and what to feed."""
    draw = random.Random(seed)
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None if is_open else ROWS, COLUMNS])
        values = [af.tanh(x)]
        for _ in range(draw.randint(4, 14)):
            values.append(draw.choice(STEPS)(draw.choice(values[-3:]), draw.choice(values)))
        y = values[-1]
        if draw.random() < 0.5:
            y = af.add_n([y, *[each for each in reversed(values) if draw.random() < 0.5]])
        fetch = af.reduce_sum(y)
        if draw.random() < 0.5:
            fetch = af.gradients(fetch, x)[0]
    return graph, fetch, {x: np.linspace(-1, 1, ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)}
