"""What is done to the graph so that less is computed, sent, and kept."""

import dataclasses
import itertools

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.op_cost import Rates
from aioflow.tensors.dtypes import DeviceKind
from tests.stories.witness import FIRST, PS, SECOND, WORKERS, World, settled

SIZE = 1000
BYTES = SIZE * 4
NUMBERS = np.linspace(-3, 3, SIZE, dtype=np.float32)


@pytest.fixture
def opened(graph, world):
    """A session whose settings are changed so."""

    def opened(**settings):
        config = dataclasses.replace(WORKERS, **settings)
        return af.Session(world.target("master", 0), graph=graph, config=config)

    return opened


def transfers(world):
    """The bytes of each value that went from the first worker to the second."""
    sent = world.witness.heard("TensorSent", "PushTensors", source="worker0", target="worker1")
    return [nbytes for message in sent for nbytes in message.tensors]


async def test_a_computation_that_layers_of_a_program_built_twice_is_done_and_sent_once(session, world):
    """[P15 section 5.1] Copies of an operation with the same inputs are made one, and its users refer to that."""
    x = af.placeholder(af.float32, [SIZE])

    def layer():
        with af.device(FIRST):
            hidden = af.exp(af.negative(x))
        with af.device(SECOND):
            return af.reduce_sum(hidden)

    totals = [layer() for _ in range(4)]
    found = await session.run(totals, {x: NUMBERS})
    np.testing.assert_allclose(found, [np.exp(-NUMBERS).sum()] * 4, rtol=1e-5)
    assert transfers(world) == [BYTES]


async def test_operations_that_may_differ_each_time_are_not_taken_for_copies(session, world):
    """[P15 section 5.1] Only what surely computes the same is made one: random numbers are not."""
    totals = []
    for _ in range(2):
        with af.device(FIRST):
            x = af.random_uniform([SIZE])
        with af.device(SECOND):
            totals.append(af.reduce_sum(x))
    first, second = await session.run(totals)
    assert first != second
    assert transfers(world) == [BYTES] * 2


async def test_the_master_computes_what_is_constant_before_any_worker_sees_it(session, world):
    """[P16 section 5] The master optimises the graph before it is partitioned: constants are folded."""
    x = af.placeholder(af.float32, [])
    registered = []
    for count in (1, 300):
        with af.device(FIRST):
            y = af.constant(0.5)
            for _ in range(count):
                y = af.cos(y)
        with af.device(SECOND):
            z = y * x
        world.witness.forget()
        assert 0.5 < await session.run(z, {x: 1.0}) < 1
        registered.append(sum(sent.size for sent in world.witness.heard("RegisterGraph")))
    assert registered[1] < registered[0] + 300


async def test_values_are_asked_for_just_before_they_are_needed(graph):
    """[P15 section 5.2] Receives would all start at once: control edges delay them until their results are needed."""
    count, size = 32, (1 << 18) + 1  # smaller values are pushed
    slow = af.CostModel(rates={DeviceKind.CPU: Rates(per_call=1e-2, bytes_per_second=1e9, operations_per_second=1e9)})
    with af.device(FIRST):
        early = af.unstack(af.random_uniform([count, size]))
    with af.device(SECOND):
        total = af.constant(0.0)
        for value in early:
            total = af.tanh(af.reduce_max(value) + total)
    requests = {}
    async with World(config=af.Config(cost_model=slow)) as world:
        for delayed in (False, True):
            config = dataclasses.replace(WORKERS, schedule_receives=delayed)
            async with af.Session(world.target("master", 0), graph=graph, config=config) as session:
                world.witness.forget()
                await session.run(total)
                said = world.witness.heard("RecvTensor", "TensorSent")
                assert sum(len(sent.tensors) for sent in said) == count
                before = itertools.takewhile(lambda sent: sent.verb == "RecvTensor", said)
                requests[delayed] = sum(sent.keys for sent in before)  # so many were asked for before any was there
                await settled()
    assert requests[False] == count
    assert requests[True] <= 4


@pytest.mark.parametrize(("codec", "share"), [("bfloat16", 2), ("bfloat16_truncated", 2), ("float16", 2), ("int8", 4)])
async def test_between_workers_numbers_travel_in_fewer_bytes(opened, world, codec, share):
    """[P15 section 5.5] Lossy compression: 32-bit numbers are sent as 16 bits, for learning tolerates it."""
    x = af.placeholder(af.float32, [SIZE])
    with af.device(FIRST):
        y = af.sin(x)
    with af.device(SECOND):
        z = af.cos(y)
    async with opened(compression={"workers": codec}) as session:
        found = await session.run(z, {x: NUMBERS})
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, np.cos(np.sin(NUMBERS)), atol=0.01)
        assert np.abs(found - np.cos(np.sin(NUMBERS))).max() > 1e-6
        [sent] = transfers(world)
        assert BYTES / share <= sent <= BYTES / share + 32


async def test_the_lower_half_is_cut_off_and_filled_in_with_zeros(opened, world):
    """[P15 section 5.5] The conversion keeps the upper 16 bits of a float; on the other side there are zeros."""
    x = af.placeholder(af.float32, [SIZE])
    with af.device(FIRST):
        y = af.abs(x)
    with af.device(SECOND):
        z = af.negative(y)
    async with opened(compression={"workers": "bfloat16_truncated"}) as session:
        found = await session.run(z, {x: NUMBERS})
        upper = np.abs(NUMBERS).view(np.uint32) & 0xFFFF0000
        np.testing.assert_array_equal(found, -upper.view(np.float32))
        assert transfers(world) == [BYTES // 2]


async def test_what_does_not_leave_its_worker_and_what_counts_or_decides_is_exact(graph):
    """[P15 section 5.5] Compression is for values between machines: feeds, fetches, counts are what they are."""
    x = af.placeholder(af.float32, [SIZE])
    with af.device(f"{FIRST}/device:CPU:0"):
        y = af.abs(x)
        count = af.reduce_sum(af.cast(x > 0.0, af.int32)) + af.constant([1, 2])
    with af.device(f"{FIRST}/device:CPU:1"):
        beside = af.negative(y)
    with af.device(PS):
        counted = count * 1000001
    config = dataclasses.replace(WORKERS, compression={"workers": "bfloat16"})
    async with (
        World(config=af.Config(device_count={"CPU": 2})) as world,
        af.Session(world.target("master", 0), graph=graph, config=config) as session,
    ):
        near, far, fetched = await session.run([beside, counted, y], {x: NUMBERS})
        np.testing.assert_array_equal(near, -np.abs(NUMBERS))
        np.testing.assert_array_equal(fetched, np.abs(NUMBERS))
        np.testing.assert_array_equal(far, [501 * 1000001, 502 * 1000001])


async def test_one_edge_can_be_marked_and_the_others_left_as_they_are(session, world):
    """[P15 section 5.5] Conversion nodes are inserted where they are wanted: on the gradients, say."""
    x = af.placeholder(af.float32, [SIZE])
    with af.device(FIRST):
        exact, lossy = af.sin(x), af.lossy(af.cos(x), "bfloat16")
    with af.device(SECOND):
        both = af.stack([exact, lossy])
    found = await session.run(both, {x: NUMBERS})
    np.testing.assert_allclose(found[0], np.sin(NUMBERS), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.cos(NUMBERS), atol=0.005)
    assert sorted(transfers(world)) == [BYTES // 2, BYTES]
