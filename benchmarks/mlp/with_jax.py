"""The MLP in JAX: one jitted function of parameters and batch that gives the loss and the new parameters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.mlp import Problem


@asynccontextmanager
async def training(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that trains once on the batch and returns its loss."""
    jax = peers.jax()
    update, parameters = peers.jax_sgd(loss, problem.rate), jax.device_put(problem.weights())

    def step() -> float:
        nonlocal parameters
        value, parameters = update(parameters, problem.images, problem.labels)
        return float(value)

    yield step


def loss(parameters: Any, images: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of the batch."""
    return peers.jax_cross_entropy(logits(parameters, images), labels)


def logits(parameters: Any, images: Any) -> Any:
    """Return the logits of the images."""
    jax = peers.jax()
    hidden = images
    for layer, (weights, bias) in enumerate(parameters):
        hidden = jax.nn.relu(hidden) if layer else hidden
        hidden = hidden @ weights + bias
    return hidden
