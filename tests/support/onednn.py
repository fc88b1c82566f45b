"""What oneDNN computes, compared with what NumPy computes without it."""

import contextlib
import os

import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.devices import onednn
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.tensors.dtypes import as_dtype
from tests.support.evaluate import evaluate

needs_library = pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed, or is switched off")


@contextlib.contextmanager
def switched_off():
    before = os.environ.get(onednn.SWITCH)
    os.environ[onednn.SWITCH] = "off"
    onednn.library.cache_clear()
    try:
        yield
    finally:
        os.environ.pop(onednn.SWITCH)
        if before is not None:
            os.environ[onednn.SWITCH] = before
        onednn.library.cache_clear()


def computed(build, arrays):
    """The value of build(*tensors), and its gradients for all of them, weighted by cosines."""
    with Graph().as_default():
        feeds = {placeholder(as_dtype(a.dtype), a.shape): a for a in arrays}
        y = build(*feeds)
        weights = np.cos(np.arange(y.shape.num_elements())).reshape(y.shape.as_list()).astype(np.float32)
        return evaluate([y, *gradients([y], list(feeds), [constant(weights)])], feeds)


def agree(build, *arrays):
    """Both give the same."""
    ours = computed(build, arrays)
    with switched_off():
        theirs = computed(build, arrays)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
