"""A convolution is computed in blocks of channels where a neighbour on the same images can be computed with it."""

import numpy as np
import pytest

import aioflow as af
from aioflow.devices import onednn
from aioflow.plan.passes.flow import verify
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.prune import prune

pytestmark = pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed, or is switched off")


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def convolved(x, channels, **attrs):
    shape = [3, 3, x.shape.as_list()[-1], channels]
    return af.nn.conv2d(x, af.Variable(np.zeros(shape, x.dtype.np)), 1, "SAME", **attrs)


def images(*sizes, dtype=np.float32):
    return af.placeholder(dtype, sizes or [None, 32, 32, 3])


def blocked(*fetches):
    nodes = verify(optimise(prune((), fetches, ()))).nodes
    return [node.attrs["blocked"] for node in nodes if node.definition.name == "fused_conv2d"]


def pooled(x, padding="SAME"):
    return af.nn.max_pool(x, 2, 2, padding)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: convolved(images(), 16), [False]),
        (lambda: pooled(convolved(images(), 16)), [True]),
        (lambda: pooled(convolved(images(), 24)), [False]),
        (lambda: convolved(convolved(images(), 32), 40), [True, True]),
        (lambda: convolved(convolved(images(), 8), 16), [False, False]),
        (lambda: af.concat([convolved(images(), 16), convolved(images(), 32)], -1), [True, True]),
        (lambda: af.concat([convolved(images(), 16), convolved(images(), 24)], -1), [False, False]),
        (lambda: af.concat([convolved(images(), 16), convolved(images(), 16)], 1), [False, False]),
        (lambda: pooled(convolved(images(None, None, 32, 3), 16)), [False]),
        (lambda: af.tanh(convolved(images(), 16)), [False]),
    ],
)
def test_convolutions_beside_nodes_of_known_sizes_and_whole_blocks_are_marked(build, expected):
    assert blocked(build()) == expected


def test_convolutions_with_fed_weights_and_in_groups_are_not_marked():
    x = images(None, 32, 32, 32)
    fed = af.nn.conv2d(x, af.placeholder(np.float32, [3, 3, 32, 32]), 1, "SAME")
    assert blocked(pooled(fed)) == []
    w = af.Variable(np.zeros([3, 3, 16, 32], np.float32))
    pieces = [af.nn.conv2d(part, w, 1, "SAME") for part in af.split(x, 2, -1)]
    assert blocked(pooled(af.concat(pieces, -1))) == [True, True]
