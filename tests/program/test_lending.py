"""Results for other tasks, computed in memory that peers can map: the same bits, read-only, and nothing else there."""

from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow.program import blockwise, lending
from aioflow.resources.lendable import MOVED, LendableMemory
from aioflow.tensors.dtypes import Spec, TensorShape
from aioflow.testing.simulated_cluster import SimulatedCluster

HERE, THERE = "/job:worker/task:0", "/job:worker/task:1"
ROWS = 1 << 9
SIZE = MOVED // 4 // ROWS


class Lender:
    """Memory that is as good as memory for peers."""

    most = 1 << 30

    def __init__(self, room=1 << 30):
        self.taken = []
        self._room = room

    def take(self, nbytes):
        if nbytes > self._room:
            return None
        self.taken.append(np.full(nbytes, 0xFF, np.uint8))
        return self.taken[-1]

    def lent(self, array):
        return any(np.shares_memory(array, each) for each in self.taken)


@pytest.fixture
def lender(monkeypatch):
    return provided(monkeypatch, Lender())


def provided(monkeypatch, lender):
    memory = LendableMemory()
    memory.provide(lender)
    monkeypatch.setattr(lending, "LENDABLE", memory)
    monkeypatch.setattr(blockwise, "LENDABLE", memory)
    return lender


async def fetched(build, *values):
    """What another task gets of a value that build(*placeholders) makes on the first one."""
    with af.Graph().as_default():
        with af.device(HERE):
            feeds = [af.placeholder(af.float32, value.shape) for value in values]
            sent = build(*feeds)
        with af.device(THERE):
            total = sent + 0.0
        async with SimulatedCluster({"worker": 2}) as cluster, af.Session(cluster.target("worker", 0)) as session:
            return await session.run([total, af.reduce_max(sent)], dict(zip(feeds, values, strict=True)))


def matrices(rows=ROWS):
    draw = np.random.default_rng(0)
    return draw.standard_normal((40, rows)).astype("f4"), draw.standard_normal((40, SIZE)).astype("f4")


def product(a, b):
    return af.matmul(a, b, transpose_a=True)


def into_its_input(a, b):
    """A result that could be written into the array that dies there."""
    return af.tanh(product(a, b))


def steps(a, b):
    return af.tanh(product(a, b) * 2.0) + 1.0


@pytest.mark.parametrize("build", [product, into_its_input, steps])
async def test_a_large_value_for_another_task_is_computed_in_memory_for_peers_with_the_same_bits(
    monkeypatch, lender, build
):
    monkeypatch.setattr(blockwise, "SMALLEST", 1 << 12)
    found = await fetched(build, *matrices())
    assert [len(each) for each in lender.taken] == [MOVED]
    provided(monkeypatch, Lender(room=0))
    for one, other in zip(found, await fetched(build, *matrices()), strict=True):
        assert np.array_equal(one, other)


async def test_a_small_value_and_one_that_stays_in_its_task_take_other_memory(lender):
    await fetched(product, *matrices(ROWS - 1))
    await fetched(lambda a, b: af.reduce_sum(product(a, b)), *matrices())
    assert not lender.taken


async def test_a_value_in_memory_for_peers_is_never_written_to_again(lender):
    with af.Graph().as_default():
        with af.device(HERE):
            a, b = (af.placeholder(af.float32, value.shape) for value in matrices())
            sent = product(a, b)
            here = af.reduce_sum(af.negative(sent))  # the last reader could write its result into its input
        with af.device(THERE):
            total = af.reduce_sum(sent)
        async with SimulatedCluster({"worker": 2}) as cluster, af.Session(cluster.target("worker", 0)) as session:
            await session.run([total, here], dict(zip([a, b], matrices(), strict=True)))
    (memory,) = lender.taken
    a, b = matrices()
    np.testing.assert_allclose(memory.view("f4").reshape(ROWS, SIZE), a.T @ b, rtol=1e-4, atol=1e-4)


def test_a_result_in_memory_for_peers_is_read_only_unless_the_caller_gave_the_memory(lender):
    node = SimpleNamespace(output_specs=[Spec(af.float32, TensorShape([ROWS, SIZE]))])
    kernel = lending.lending(lambda x, out=None: np.negative(x, out=out), node)
    value = np.ones((ROWS, SIZE), np.float32)
    found = kernel(value)
    assert lender.lent(found)
    assert not found.flags.writeable
    room = np.empty_like(value)
    assert kernel(value, out=room) is room
    assert room.flags.writeable
    turned = kernel(np.asfortranarray(value))  # NumPy chooses the order of the result
    assert turned.flags.f_contiguous
    assert not lender.lent(turned)
    assert len(lender.taken) == 1
