"""What goes from worker to worker, how often, and what the master has to do with it: nothing but to begin the step."""

import asyncio
from collections import Counter

import numpy as np

import aioflow as af
from aioflow.plan.op_cost import Rates
from aioflow.tensors.dtypes import DeviceKind
from tests.stories.witness import FIRST, LATENCY, PS, SECOND, WORKERS, World, elapsed, marked, settled

SIZE = 1000
BYTES = SIZE * 4


def rows(name=None):
    """A value of each step, made on the device of the scope. No plan knows its size, so it is requested."""
    return af.random_uniform(af.placeholder_with_default(np.array([SIZE]), [1]), name=name)


async def one_step(session, world, fetches):
    """What a step gives, once everything about it is registered; the witness knows of nothing else."""
    await session.run(fetches)
    await settled()
    world.witness.forget()
    world.ran.clear()
    values = await session.run(fetches)
    await settled()
    return values


async def test_an_edge_between_devices_becomes_one_send_and_one_receive(session, world):
    """[P15 section 3.2.2] An edge from x to y is replaced by a Send on x's device and a Receive on y's."""
    with af.device(FIRST):
        x = rows()
    with af.device(SECOND):
        y = af.reduce_sum(marked(x))
    await one_step(session, world, y)
    [asked], [sent] = world.witness.heard("RecvTensor"), world.witness.heard("TensorSent")
    assert (asked.source, asked.target) == ("worker1", "worker0")
    assert (sent.source, sent.target, sent.values) == ("worker0", "worker1", BYTES)
    assert world.ran == {"worker1": 1}


async def test_all_who_use_a_tensor_on_a_device_share_one_transfer(session, world):
    """[P15 section 3.2.2] All users of a tensor on a device have a single Receive, so the data is sent once."""
    with af.device(FIRST):
        x = rows()
    with af.device(SECOND):
        users = [af.reduce_sum(x * float(n)) for n in range(5)]
    found = await one_step(session, world, users)
    np.testing.assert_allclose(found, found[1] * np.arange(5), rtol=1e-5)
    assert [sent.values for sent in world.witness.heard("TensorSent")] == [BYTES]


async def test_a_tensor_is_sent_once_to_each_device_that_uses_it(graph):
    """[P15 section 3.2.2] Once for each pair of a source and a destination device."""
    async with World(config=af.Config(device_count={"CPU": 2})) as world:
        with af.device(FIRST):
            x = rows()
        totals = []
        for device in (PS, f"{SECOND}/device:CPU:0", f"{SECOND}/device:CPU:1"):
            with af.device(device):
                totals += [af.reduce_sum(x), af.reduce_max(x)]
        async with af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session:
            await one_step(session, world, totals)
            heard = world.witness.heard("TensorSent")
            sent = Counter((sent.target, nbytes) for sent in heard for nbytes in sent.tensors)
            assert sent == {("ps0", BYTES): 1, ("worker1", BYTES): 2}


async def test_the_master_sends_one_order_to_each_worker_that_has_a_part_and_none_to_others(session, world):
    """[P15 section 3.2.2] The master issues a single Run request per step to each worker that has any nodes."""
    with af.device(FIRST):
        x = marked(1.0)
    with af.device(PS):
        y = marked(x)
    await one_step(session, world, y)
    assert [sent.target for sent in world.witness.heard("RunGraph")] in (["worker0", "ps0"], ["ps0", "worker0"])
    assert world.witness.heard(source="master0", target="worker1") == []


def zigzag(count):
    """A chain of so many nodes, each on another worker than the one before it."""
    with af.device(FIRST):
        x = rows()
    for n in range(count):
        with af.device((SECOND, FIRST)[n % 2]):
            x = x + 1.0
    with af.device(PS):
        return af.reduce_sum(x)


async def test_scheduling_nodes_and_transfers_is_left_to_the_workers(session, world):
    """[P15 section 3.2.2] Sends and Receives synchronise the workers; the master takes part in none of it."""
    said = {}
    for count in (4, 40):
        await one_step(session, world, zigzag(count))
        assert len(world.witness.heard("RecvTensor")) == count + 1
        said[count] = Counter((sent.verb, sent.target) for sent in world.witness.heard(source="master0"))
    assert said[4] == said[40]


async def test_no_value_goes_through_the_master_but_feeds_and_fetches(session, world):
    """[P16 section 3.3] Send and Recv pass tensors from task to task directly."""
    x = af.placeholder(af.float32, [])
    with af.device(FIRST):
        large = rows() + x
    with af.device(SECOND):
        total = af.reduce_sum(large)
    await session.run(total, {x: 0.0})
    await settled()
    world.witness.forget()
    await session.run(total, {x: 0.0})
    assert world.witness.values("worker0", "worker1") == BYTES
    through = [sent.values for sent in world.witness.heard() if "master0" in (sent.source, sent.target)]
    assert sum(through) == 4 * 4  # the feed and the fetch, to the master and from it
    assert max(through) == 4


async def test_a_step_of_a_large_graph_begins_with_one_small_message_to_each_task(session, world):
    """[P16 section 3.3] The parts are cached where they run: a step on a large graph costs one small message a task."""
    sizes = []
    for count in (10, 1000):
        x = marked(1.0)
        for n in range(count):
            with af.device((FIRST, SECOND)[n * 2 // count]):
                x = af.tanh(x)
        await one_step(session, world, x)
        sizes += [sent.size for sent in world.witness.heard("RunGraph")]
        assert world.witness.heard("RegisterGraph") == []
    assert len(sizes) in (4, 6)
    assert max(sizes) < 200


async def test_a_receiver_that_comes_first_waits_for_the_value(session, world):
    """[P16 section 3.3] Recv blocks until the value for its key is there."""
    with af.device(FIRST):
        queue = af.FIFOQueue(1, af.float32, shapes=[[]])
        late = queue.dequeue() * 2.0
    with af.device(SECOND):
        found = late + 1.0
    put = queue.enqueue(3.0)
    running = asyncio.ensure_future(session.run(found))
    await asyncio.sleep(60)
    assert world.witness.heard("TensorSent", "PushTensors") == []
    assert not running.done()
    await session.run(put)
    assert await running == 7


async def test_steps_at_the_same_time_do_not_get_each_others_values(session):
    """[P16 section 3.3] The key under which a value is sent is that of its step."""
    x = af.placeholder(af.float32, [])
    with af.device(FIRST):
        y = x * 2.0
    with af.device(SECOND):
        z = y + x
    found = await asyncio.gather(*[session.run(z, {x: n}) for n in range(100)])
    assert found == [3 * n for n in range(100)]


async def test_devices_of_one_task_exchange_values_without_the_network(graph):
    """[P15 section 3.3] Only pairs of Send and Receive in different worker processes use the network."""
    async with World(config=af.Config(device_count={"CPU": 2})) as world:
        with af.device(f"{FIRST}/device:CPU:0"):
            x = rows()
        with af.device(f"{FIRST}/device:CPU:1"):
            total = af.reduce_sum(x)
        async with af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session:
            await one_step(session, world, total)
            assert world.witness.heard("RecvTensor") == []
            assert world.witness.values("worker0") == 4


async def test_a_value_needs_one_way_and_back_between_two_workers(session, world):
    """[P15 section 3.3] Data moves from the worker that has it to the one that needs it, and over no third."""
    with af.device(FIRST):
        x = rows()
    with af.device(SECOND):
        total = af.reduce_sum(x)
    await one_step(session, world, total)
    took = await elapsed(session.run(total))
    assert took <= 6.5 * LATENCY  # client, master, worker, asking, sending, and the fetch back over the master
    assert world.witness.heard("TensorSent", source="master0") == []


# Placement


async def test_what_reads_a_large_value_is_placed_where_that_is(session, world):
    """[P15 section 3.2.1] A node's device is where it ends soonest, the transfer of its inputs counted."""
    with af.device(SECOND):
        large = af.random_uniform([1 << 18])
    assert 0 <= await one_step(session, world, af.reduce_min(large)) < 1e-3
    assert world.witness.heard("TensorSent", "PushTensors") == []
    assert world.witness.values() == 4 + 4  # the fetch, to the master and to the client


async def test_long_computations_that_do_not_need_each_other_are_placed_on_several_workers(graph):
    """[P15 section 3.2.1] The simulation knows when each device is busy: what is independent goes to another."""
    slow = af.CostModel(rates={DeviceKind.CPU: Rates(per_call=0.1, bytes_per_second=1e9, operations_per_second=1e9)})
    async with World(config=af.Config(cost_model=slow)) as world:
        ends = []
        for n in range(3):
            x = af.constant(float(n))
            for _ in range(5):
                x = marked(x)
            ends.append(x)
        async with af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session:
            assert await one_step(session, world, ends) == [0, 1, 2]
            assert world.ran == dict.fromkeys(["ps0", "worker0", "worker1"], 5)
