"""A model that is saved and restored, for the tests of savers."""

import os

import numpy as np

import aioflow as af
from aioflow.checkpoint import Checkpoint


class Model:
    """A matrix that grows by 1 with each step, and the number of steps."""

    def __init__(self, **options):
        with af.Graph().as_default() as self.graph:
            self.weights = af.Variable(np.zeros((3, 2), np.float32), name="weights")
            self.steps = af.train.create_global_step()
            self.train = af.group(self.weights.assign_add(np.ones((3, 2), np.float32)), self.steps.assign_add(1))
            self.init = af.global_variables_initializer()
            self.saver = af.train.Saver(**options)

    def session(self):
        return af.Session(graph=self.graph)

    async def at(self, session):
        """The step, which all elements of the matrix are equal to."""
        weights, steps = await session.run([self.weights, self.steps])
        assert np.all(weights == steps), f"not from one moment: {weights} at step {steps}"
        return int(steps)


def saved_step(path):
    found = Checkpoint.open(path)
    weights, steps = found.read("weights"), found.read("global_step")
    assert np.all(weights == steps)
    return int(steps)


def entries(path):
    """What is there, but the file that names the last checkpoints."""
    return sorted(set(os.listdir(path)) - {"checkpoint"})
