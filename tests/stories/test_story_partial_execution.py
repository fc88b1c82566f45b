"""Which part of a graph a step runs, and on which devices the user lets it."""

import asyncio

import pytest

import aioflow as af
from aioflow import errors
from tests.stories.witness import FIRST, LATENCY, PS, SECOND, elapsed, marked, settled


def figure():
    """The graph of the white paper's figure on partial execution: a and b make c, which d and f read; e reads d.

    f is on the second worker, d and e on the parameter server, the others on the first worker.
    """
    with af.device(FIRST):
        a = marked(1.0, name="a")
        b = marked(2.0, name="b")
        c = marked(a + b, name="c")
    with af.device(PS):
        d = marked(c, name="d")
        marked(d, name="e")
    with af.device(SECOND):
        marked(c, name="f")


async def test_only_what_an_output_needs_is_run(session, world):
    """[P15 section 4.2] Run executes the subgraph of its outputs: whoever has no part of that is not even asked."""
    figure()
    assert await session.run("f:0") == 3
    assert world.ran == {"worker0": 3, "worker1": 1}
    assert world.witness.heard("RegisterGraph", "RunGraph", target="ps0") == []


async def test_any_output_can_be_fed_and_what_it_would_need_is_not_run(session, world):
    """[P15 section 4.2] An input that names a node and a port takes the place of what the node would have made."""
    figure()
    assert await session.run("f:0", {"b:0": 10.0}) == 11
    assert world.ran == {"worker0": 2, "worker1": 1}
    world.ran.clear()
    assert await session.run("f:0", {"c:0": 5.0}) == 5
    assert world.ran == {"worker1": 1}


async def test_outputs_of_several_workers_come_back_together(session, world):
    """[P15 section 4.2] Each output is kept until the run is complete, and then returned to the client."""
    figure()
    assert await session.run(["a:0", "e:0", "f:0"], {"c:0": 4.0}) == [1, 4, 4]
    assert world.ran == {"worker0": 1, "ps0": 2, "worker1": 1}
    assert len(world.witness.heard("StepDone", target="client")) == 1


async def test_what_is_fed_travels_with_the_order_to_run_and_only_to_where_it_is_read(session, world):
    """[P15 section 4.2] A feed node takes its tensor from the call of Run, not from another device."""
    x = af.placeholder(af.float32, [1000])
    with af.device(SECOND):
        total = af.reduce_sum(x)
    with af.device(FIRST):
        other = marked(1.0)
    await session.run([total, other], {x: [1.0] * 1000})
    assert {sent.target: sent.values for sent in world.witness.heard("RunGraph")} == {"worker0": 0, "worker1": 4000}
    assert world.witness.heard("RecvTensor") == []


async def test_inputs_may_come_and_outputs_be_fetched_in_several_calls_of_one_step(graph, world):
    """[P15 section 4.2] Feeds meet their readers in the step's rendezvous, so they may also come while it runs."""
    first, second = af.placeholder(af.float32, []), af.placeholder(af.float32, [])
    with af.device(FIRST):
        a = marked(first)
    with af.device(SECOND):
        b = marked(a + second)
    async with af.Session(world.target("master", 0), graph=graph) as session:
        handle = await session.partial_run_setup([a, b], [first, second])
        assert await session.partial_run(handle, a, {first: 1.0}) == 1
        await settled()
        assert world.ran == {"worker0": 1}
        assert await session.partial_run(handle, b, {second: 2.0}) == 3
    assert world.ran == {"worker0": 1, "worker1": 1}


async def test_a_client_may_have_many_steps_of_different_subgraphs_under_way(session, world):
    """[P16 section 3.2] Each call is a step; steps run at the same time, and wait only for what they need."""
    with af.device(PS):
        queue = af.FIFOQueue(10, af.float32, shapes=[[]])
    x = af.placeholder(af.float32, [])
    with af.device(FIRST):
        produce = queue.enqueue(marked(x))
    with af.device(SECOND):
        consume = marked(queue.dequeue())
    consuming = [asyncio.ensure_future(session.run(consume)) for _ in range(20)]
    await settled()
    assert not any(step.done() for step in consuming)
    await asyncio.gather(*[session.run(produce, {x: n}) for n in range(20)])
    assert sorted(await asyncio.gather(*consuming)) == list(range(20))
    assert world.ran == {"worker0": 20, "worker1": 20}


async def test_steps_at_the_same_time_overlap(session):
    """[P16 section 3.2] Concurrent execution: the time of many steps is not that of one after the other."""
    with af.device(FIRST):
        x = marked(1.0)
    with af.device(SECOND):
        y = marked(x)
    await session.run(y)
    one = await elapsed(session.run(y))
    assert one >= 4 * LATENCY
    assert await elapsed(asyncio.gather(*[session.run(y) for _ in range(50)])) <= 1.1 * one


# Device constraints


@pytest.mark.parametrize(("device", "host"), [(PS, "ps0"), (FIRST, "worker0"), (SECOND, "worker1")])
async def test_a_node_runs_on_the_task_it_is_asked_to_run_on(session, world, device, host):
    """[P15 section 4.3] A constraint may name a task: the node runs there and nowhere else."""
    with af.device(device):
        y = marked(1.0)
    await session.run(y)
    assert world.ran == {host: 1}


async def test_a_constraint_may_leave_open_which_task_of_a_job(session, world):
    """[P15 section 4.3] Constraints are partial: any device of a job may be chosen, and none of another."""
    with af.device("/job:ps"):
        x = marked(1.0)
    with af.device("/job:worker"):
        y = [marked(x) for _ in range(3)]
    await session.run(y)
    assert world.ran["ps0"] == 1
    assert world.ran["worker0"] + world.ran["worker1"] == 3


async def test_a_node_may_be_asked_to_be_where_another_is(session, world):
    """[P15 section 4.3] A node can be colocated with a variable, by its name, wherever that is."""
    with af.device(PS):
        weights = af.Variable(1.0, name="variable13")
    with af.colocate_with(weights.op):
        beside = marked(2.0)
    await session.run(beside)
    assert world.ran == {"ps0": 1}


async def test_what_colocated_nodes_ask_for_holds_for_all_of_them(session, world):
    """[P15 section 4.3] The feasible devices of a group of colocated nodes are those that all of them allow."""
    first = marked(1.0)
    with af.colocate_with(first.op):
        second = marked(2.0)
    with af.colocate_with(second.op), af.device("/job:worker"):
        third = marked(3.0)
    with af.colocate_with(first.op), af.device("/task:1"):
        fourth = marked(4.0)
    await session.run([first, second, third, fourth])
    assert world.ran == {"worker1": 4}


async def test_a_constraint_that_nothing_meets_is_refused_by_name(session, world):
    """[P15 section 4.3] A node for which no device is feasible cannot be placed."""
    x = af.constant(1.0)
    with af.device("/job:worker/device:GPU:0"):
        y = marked(x, name="lonely")
    with pytest.raises(errors.InvalidArgumentError, match="GPU") as caught:
        await session.run(y)
    assert caught.value.op == "lonely"
    with af.device("/job:nobody"):
        z = marked(x, name="stranger")
    with pytest.raises(errors.InvalidArgumentError, match="nobody") as caught:
        await session.run(z)
    assert caught.value.op == "stranger"
    assert world.ran == {}


async def test_constraints_that_exclude_each_other_are_refused_and_the_session_goes_on(session, world):
    """[P15 section 4.3] Colocated nodes whose constraints have no device in common cannot be placed."""
    with af.device(FIRST):
        x = af.Variable(1.0, name="x")
    with af.device(SECOND):
        y = af.Variable(1.0, name="y")
    with af.colocate_with(x.op), af.colocate_with(y.op):
        z = marked(1.0, name="torn")
    with pytest.raises(errors.InvalidArgumentError, match=r"'x'.* and 'y' must be on one device"):
        await session.run(z)
    await session.run([x.initializer, y.initializer])
    assert await session.run([x, y]) == [1, 1]
