"""The programming model over a cluster: sessions that are extended and run, operations, tensors, state."""

import numpy as np
import pytest

import aioflow as af
from tests.stories.witness import FIRST, PS, SECOND, marked, settled

ROWS = np.arange(1000, dtype=np.float32)


async def test_a_graph_is_set_up_once_and_each_of_many_runs_sends_no_more_than_the_order_to_run(session, world):
    """[P15 section 2] Sessions: a session is given its graph once, to run it thousands of times."""
    x = af.placeholder(af.float32, [])
    with af.device(SECOND):
        y = x * 2.0
    await session.run(y, {x: 1.0})
    await settled()
    world.witness.forget()
    for n in range(100):
        assert await session.run(y, {x: n}) == 2 * n
    assert [sent.verb for sent in world.witness.heard(source="client")] == ["RunCallable"] * 100
    assert [sent.verb for sent in world.witness.heard(source="master0", target="worker1")] == ["RunGraph"] * 100


async def test_extending_a_session_sends_only_what_is_new(session, world):
    """[P15 section 2] Sessions: Extend adds nodes to the graph that the session manages."""
    with af.device(FIRST):
        large = af.constant(ROWS) + 1.0
    await session.run(af.reduce_sum(large))
    [created] = world.witness.heard("CreateSession")
    world.witness.forget()
    np.testing.assert_array_equal(await session.run(large * 2.0), (ROWS + 1) * 2)
    [extended] = world.witness.heard("ExtendSession")
    assert created.values > ROWS.nbytes
    assert extended.values < 1000
    assert world.witness.heard("CreateSession") == []


async def test_a_variable_survives_runs_where_it_is_and_is_updated_without_leaving(session, world):
    """[P15 section 2] Variables: tensors end with their run, but for those that variables hold."""
    with af.device(PS):
        rows = af.Variable(ROWS)
        double = rows.assign(rows * 2.0).op
    await session.run(rows.initializer)
    world.witness.forget()
    for _ in range(3):
        await session.run(double)
    assert world.witness.values() == 0
    np.testing.assert_array_equal(await session.run(rows), ROWS * 8)


async def test_a_client_talks_to_its_master_and_the_master_to_the_workers(session, world):
    """[P15 section 3] The client uses the master, and the master has workers do the work."""
    with af.device(FIRST):
        y = marked(1.0)
    with af.device(SECOND):
        z = marked(y)
    assert await session.run(z) == 1
    assert world.ran == {"worker0": 1, "worker1": 1}
    assert {sent.target for sent in world.witness.heard(source="client")} == {"master0"}
    assert {(sent.source, sent.target) for sent in world.witness.heard("RunGraph")} == {
        ("master0", "worker0"), ("master0", "worker1"),
    }  # fmt: skip


async def test_a_device_is_named_by_its_job_its_task_its_kind_and_its_number(session):
    """[P15 section 3] Devices: each worker has devices, whose names say whose they are."""
    await session.run(af.constant(1.0))
    tasks = ["ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1"]
    assert [device.name for device in session.list_devices()] == [f"/job:{task}/device:CPU:0" for task in tasks]


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1, -2], [3, 4]], np.int8),
        np.array([2**63], np.uint64),
        np.array([True, False]),
        np.array([1.5, np.nan, -np.inf], np.float16),
        np.array([1 + 2j], np.complex64),
        np.zeros((0, 3), np.float64),
        np.array(2.5, np.float32),
        np.array([b"", b"some bytes", bytes(range(256))], object),
    ],
    ids=lambda value: str(value.dtype),
)
async def test_a_tensor_of_any_type_and_shape_arrives_as_it_was_sent(session, value):
    """[P16 section 3.1] Tensors are dense arrays of primitive types, strings of any length among them."""
    x = af.placeholder(value.dtype, value.shape)
    with af.device(FIRST):
        sent = af.concat([x, x], 0) if value.ndim else af.stack([x, x])
    with af.device(SECOND):
        found = sent[value.shape[0] :] if value.ndim else sent[1]
    found = await session.run(af.identity(found), {x: value})
    np.testing.assert_array_equal(found, value, strict=True)


async def test_what_one_worker_assigns_the_other_reads(session):
    """[P16 section 3.1] Variables: reads and assignments of one buffer, through a handle that both have."""
    with af.device(PS):
        count = af.Variable(1.0)
    with af.device(FIRST):
        delta = marked(5.0)
    add = count.assign_add(delta).op
    with af.device(SECOND):
        doubled = count.read_value() * 2.0
    await session.run(count.initializer)
    await session.run(add)
    assert await session.run(doubled) == 12


async def test_state_stays_where_it_is_whoever_asks_for_an_update(session, world):
    """[P16 section 3.3] An operation on state runs on the device that has the state: what is sent is the update."""
    with af.device(PS):
        rows = af.Variable(ROWS)
    with af.device(FIRST):
        update = af.scatter_add(rows, [7], [marked(2.0)])
    await session.run(rows.initializer)
    await settled()
    world.witness.forget()
    await session.run(update.op)
    assert world.witness.values("ps0") == 0
    assert world.witness.values(target="ps0") <= 8
    assert (await session.run(rows))[7] == 9
