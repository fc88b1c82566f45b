"""The MLP by hand: first in plain NumPy, then with large results written into buffers kept from step to step."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np

from benchmarks.harness import Step
from benchmarks.mlp import Floats, Problem


@asynccontextmanager
async def training(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that trains once on the batch and returns its loss."""
    layers, rows = problem.weights(), np.arange(problem.batch)

    def step() -> np.float32:
        inputs, logits = forward(layers, problem.images)
        loss, delta = cross_entropy(logits, problem.labels, rows)
        for (weights, bias), hidden in zip(reversed(layers), reversed(inputs), strict=True):
            gradient = hidden.T @ delta
            sums = delta.sum(axis=0)
            if hidden is not problem.images:
                delta = (delta @ weights.T) * (hidden > 0)
            weights -= problem.rate * gradient
            bias -= problem.rate * sums
        return loss

    yield step


@asynccontextmanager
async def inference(problem: Problem) -> AsyncIterator[Step]:
    """Yield a coroutine function from images to logits, which never waits."""
    layers = problem.weights()

    async def infer(images: Floats) -> Floats:
        return forward(layers, images)[1]

    yield infer


def forward(layers: list[tuple[Floats, Floats]], images: Floats) -> tuple[list[Floats], Floats]:
    """Return the inputs of each layer, and the logits."""
    inputs, hidden = [images], images
    for weights, bias in layers[:-1]:
        hidden = np.maximum(hidden @ weights + bias, 0)
        inputs.append(hidden)
    weights, bias = layers[-1]
    return inputs, hidden @ weights + bias


def cross_entropy(logits: Floats, labels: np.ndarray, rows: np.ndarray) -> tuple[np.float32, Floats]:
    """Return the mean loss and its gradient by the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    sums = powers.sum(axis=1, keepdims=True)
    loss = (np.log(sums[:, 0]) - shifted[rows, labels]).mean()
    delta = powers / sums
    delta[rows, labels] -= 1
    delta /= len(rows)
    return loss, delta


@asynccontextmanager
async def training_in_place(problem: Problem) -> AsyncIterator[Step]:
    """The same step with `out=` for all large results: it allocates only for the softmax."""
    layers, rows = problem.weights(), np.arange(problem.batch)
    hiddens = [np.empty((problem.batch, n), np.float32) for n in problem.sizes[1:]]
    deltas = [np.empty((problem.batch, n), np.float32) for n in problem.sizes]
    gradients = [np.empty_like(weights) for weights, _ in layers]

    def step() -> np.float32:
        hidden = problem.images
        for (weights, bias), out in zip(layers, hiddens, strict=True):
            if hidden is not problem.images:
                np.maximum(hidden, 0, out=hidden)
            np.matmul(hidden, weights, out=out)
            hidden = np.add(out, bias, out=out)
        loss, delta = cross_entropy(hidden, problem.labels, rows)
        for layer in reversed(range(len(layers))):
            delta = backward(layer, delta)
        return loss

    def backward(layer: int, delta: Floats) -> Floats:
        (weights, bias), gradient = layers[layer], gradients[layer]
        hidden, out = hiddens[layer - 1] if layer else problem.images, deltas[layer]
        np.matmul(hidden.T, delta, out=gradient)
        sums = delta.sum(axis=0)
        if layer:
            np.multiply(np.matmul(delta, weights.T, out=out), hidden > 0, out=out)
        np.subtract(weights, np.multiply(gradient, problem.rate, out=gradient), out=weights)
        bias -= problem.rate * sums
        return out

    yield step
