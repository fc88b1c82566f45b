"""The net in JAX, channels last: one jitted function of parameters and batch."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.lenet import Problem, summary


@asynccontextmanager
async def training(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that trains once on the batch and returns its loss."""
    jax = peers.jax()
    update, parameters = peers.jax_sgd(loss, problem.rate), jax.device_put(problem.layers())

    def step() -> float:
        nonlocal parameters
        value, parameters = update(parameters, problem.images, problem.labels)
        return float(value)

    yield step


@asynccontextmanager
async def inference(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that computes the logits of the batch."""
    jax = peers.jax()
    parameters, call = jax.device_put(problem.layers()), jax.jit(logits)
    yield lambda: summary(np.asarray(call(parameters, problem.images)))


def loss(parameters: Any, images: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of the batch."""
    return peers.jax_cross_entropy(logits(parameters, images), labels)


def logits(parameters: Any, images: Any) -> Any:
    """Return the logits of the images."""
    jax = peers.jax()
    *convolutions, first, last = parameters
    hidden = images
    for filters, bias in convolutions:
        hidden = jax.lax.conv_general_dilated(
            hidden, filters, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        hidden = jax.nn.relu(hidden + bias)
        hidden = jax.lax.reduce_window(hidden, -np.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    weights, bias = first
    hidden = jax.nn.relu(hidden.reshape(hidden.shape[0], -1) @ weights + bias)
    weights, bias = last
    return hidden @ weights + bias
