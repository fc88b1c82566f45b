"""A graph of its own for a test, and a small model with known weights."""

import pytest

import aioflow as af
from aioflow import layers
from tests.layers.by_hand import FIRST


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def model(graph):
    async with af.Sequential([layers.Dense(8, activation="tanh", input_shape=[6]), layers.Dense(3)]) as model:
        model.compile("sgd", af.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"])
        await model.set_weights(FIRST)
        yield model
