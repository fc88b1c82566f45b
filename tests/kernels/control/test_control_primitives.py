"""Hand-made conditionals and loops: what is dead, which iteration runs when, what is left behind."""

import asyncio
import gc
import weakref

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.frame_levels import Levels, deciders
from aioflow.plan.passes.prune import prune
from aioflow.testing import Gate
from tests.support.doubles import light, waiting
from tests.support.handmade import constant_in, loop
from tests.support.scale import amount


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["tokens", "regions"])
def config(request):
    return af.Config(executor=request.param)


@pytest.fixture
async def session(graph, config):
    async with af.Session(graph=graph, config=config) as session:
        yield session


# Conditionals


@pytest.mark.parametrize(("taken", "expected"), [(True, (9.0, 1)), (False, (-3.0, 0))])
async def test_merge_hands_on_the_branch_that_is_taken_and_its_number(session, taken, expected):
    p = af.placeholder(af.bool_, [])
    no, yes = af.switch(af.constant(3.0), p)
    assert await session.run(af.merge([af.negative(no), af.square(yes)]), {p: taken}) == expected


async def test_merge_takes_feeds_and_constants_and_the_first_of_two_live_inputs(session):
    x, y = af.placeholder(af.float32, []), af.placeholder(af.float32, [])
    assert await session.run(af.merge([x, y]), {x: 1.0, y: 2.0}) == (1.0, 0)
    dead = af.switch(x, True)[0]
    assert await session.run(af.merge([dead, af.constant(5.0)]), {x: 1.0}) == (5.0, 1)
    assert await session.run(af.merge([dead, af.constant(5.0) * 2.0]), {x: 1.0}) == (10.0, 1)


async def test_merge_does_not_wait_for_inputs_it_does_not_need_but_for_control_inputs(session, graph):
    slow, held = Gate(), Gate()

    def gated(gate):
        async def wait(value):
            await gate.wait()
            return value

        return waiting(af.constant(1.0), wait)

    late, soon = af.square(gated(slow)), af.constant(3.0) * 1.0
    with graph.control_dependencies([gated(held)]):
        merged = af.merge([late, soon])[0]
    after, done = [], asyncio.Event()

    async def look(value):
        after.append(float(value))
        done.set()

    seen = af.py_func(look, [merged], [])
    run = asyncio.create_task(session.run([merged, seen]))
    await slow.arrived()
    await held.arrived()
    assert after == []
    held.open()
    await done.wait()
    assert not run.done()
    slow.open()
    assert await run == [3.0, None]


async def test_what_has_no_value_cannot_be_fetched_but_can_be_run(session):
    p = af.placeholder(af.bool_, [])
    no, yes = af.switch(af.constant(3.0), p)
    square = af.square(yes, name="square")
    with pytest.raises(af.errors.InvalidArgumentError, match=r"square:0 has no value.*merge") as caught:
        await session.run(square, {p: False})
    assert caught.value.op == "square"
    assert await session.run(square.op, {p: False}) is None
    assert await session.run([no, square.op], {p: False}) == [3.0, None]
    both = af.merge([square, af.tanh(square)])
    with pytest.raises(af.errors.InvalidArgumentError, match="merge:1 has no value"):
        await session.run(both[1], {p: False})


async def test_a_control_edge_from_a_switch_is_not_dead_but_one_from_an_identity_of_its_output_is(session, graph):
    seen = []
    p = af.placeholder(af.bool_, [])
    no, yes = af.switch(1.0, p)
    targets = []
    for name, pivot in (("switch", yes.op), ("no", af.identity(no)), ("yes", af.identity(yes))):
        with graph.control_dependencies([pivot]):
            targets.append(af.py_func(lambda name=name: seen.append(name), [], []))
    await session.run(targets, {p: False})
    assert sorted(seen) == ["no", "switch"]


async def test_a_control_trigger_and_what_follows_it_run_whatever_is_dead(session, graph):
    p = af.placeholder(af.bool_, [])
    no, yes = af.switch(1.0, p)
    with graph.control_dependencies([af.identity(no), af.identity(yes)]):
        trigger, dead = af.control_trigger(), af.no_op()
    values = []
    for before in (trigger, dead):
        with graph.control_dependencies([before]):
            values.append(af.constant(2.0))
    assert await session.run(values[0], {p: True}) == 2.0
    with pytest.raises(af.errors.InvalidArgumentError, match="has no value"):
        await session.run(values[1], {p: True})


async def test_conditionals_nest(session):
    p, q = af.placeholder(af.bool_, []), af.placeholder(af.bool_, [])
    no, yes = af.switch(af.constant(3.0), p)
    inner = af.switch(yes, af.switch(q, p)[1])
    merged = af.merge([no, af.merge([inner[0] * 10.0, inner[1] * 100.0])[0]])[0]
    values = [await session.run(merged, {p: a, q: b}) for a in (False, True) for b in (False, True)]
    assert values == [3.0, 3.0, 30.0, 300.0]


async def test_a_switch_is_told_one_truth(session):
    p = af.placeholder(af.bool_)
    with pytest.raises(af.errors.InvalidArgumentError, match="rank 0"):
        await session.run(af.switch(1.0, p, name="choice")[0], {p: [True, False]})


# Loops


@pytest.mark.parametrize("limit", [0, 1, 7])
@pytest.mark.parametrize("parallel", [1, 2, 10])
async def test_a_loop_runs_until_its_condition_is_false(session, limit, parallel):
    n, step = af.placeholder(af.int32, []), af.placeholder(af.int32, [])
    count, total = loop(
        lambda i, s: i < constant_in(n),
        lambda i, s: (i + 1, s + i * constant_in(step)),
        0,
        0,
        parallel_iterations=parallel,
    )
    assert await session.run([count, total], {n: limit, step: 3}) == [limit, 3 * sum(range(limit))]


async def test_loops_nest_and_share_what_is_constant_in_both(session):
    n = af.placeholder(af.int32, [])
    limit = af.enter(n, "outer", is_constant=True)

    def body(i, total):
        inner = loop(lambda j, s: j < constant_in(i, "inner"), lambda j, s: (j + 1, s + j * constant_in(i, "inner")),
                     i * 0, total, name="inner", parallel_iterations=2)  # fmt: skip
        twice = loop(lambda k: k < constant_in(limit, "other"), lambda k: (k + 1,), i * 0, name="other")
        return i + 1, inner[1] + twice[0]

    _, total = loop(lambda i, s: i < limit, body, 0, 0, name="outer")
    assert await session.run(total, {n: 6}) == sum(i * j for i in range(6) for j in range(i)) + 36


@pytest.mark.parametrize("taken", [True, False])
async def test_a_loop_on_a_branch_that_is_not_taken_dies_with_the_loops_in_it(session, taken):
    p, seen = af.placeholder(af.bool_, []), []
    no, yes = af.switch(af.constant(3), p)

    def body(i):
        return (i + loop(lambda j: j < constant_in(i, "inner"), look, i * 0, name="inner")[0] * 0 + 1,)

    def look(j):
        effects.append(af.py_func(lambda j: seen.append(int(j)), [j], []))
        return (j + 1,)

    effects = []
    limit = constant_in(yes, "outer")
    result = loop(lambda i: i < limit, body, yes * 0, name="outer")[0]
    merged = af.merge([no * 100, result])
    assert await session.run([*merged, effects[0]], {p: taken}) == ([3, 1, None] if taken else [300, 0, None])
    assert seen == ([0, 0, 1] if taken else [])


async def test_an_exit_hands_out_the_value_of_the_iteration_in_which_it_is_alive(session):
    first = af.enter(0, "loop")
    i = af.merge([first, first])[0]
    done, going = af.switch(i, af.loop_cond(i < 5))
    early = af.exit(af.switch(going, af.equal(going, 2))[1])
    never = af.exit(af.switch(going, af.equal(going, 7))[1])
    i.op.update_input(1, af.next_iteration(going + 1))
    last = af.exit(done)
    assert await session.run([early, last]) == [2, 5]
    assert await session.run(af.merge([never, last])) == (5, 1)


async def test_a_frame_without_a_loop_hands_through(session):
    x = af.placeholder(af.float32, [])
    assert await session.run(af.exit(af.enter(x, "frame") * af.enter(2.0, "frame", is_constant=True)), {x: 3.0}) == 6.0


async def test_a_variable_is_updated_in_every_iteration(session, graph):
    v = af.Variable(1.0)

    def body(i):
        with graph.control_dependencies([v.assign(v * 2.0)]):
            return (i + 1,)

    last = loop(lambda i: i < 5, body, 0, parallel_iterations=1)[0]
    with graph.control_dependencies([last]):
        read = v.read_value()
    await session.run(v.initializer)
    assert await session.run(read) == 32.0


# Iterations in flight


@pytest.mark.parametrize("parallel", [1, 2, 10])
async def test_so_many_iterations_are_under_way_at_the_same_time(graph, config, parallel):
    gate, begun = Gate(), []

    async def wait(i):
        begun.append(int(i))
        await gate.wait()
        return i

    slow = []

    def body(i):
        slow.append(waiting(i, wait))
        return (i + 1,)

    last = loop(lambda i: i < 15, body, 0, parallel_iterations=parallel)[0]
    async with af.Session(graph=graph, config=config) as session:
        run = asyncio.create_task(session.run([last, slow[0].op]))
        await gate.arrived(parallel)
        for _ in range(50):
            await asyncio.sleep(0)
        assert begun == list(range(parallel))
        gate.open()
        assert await run == [15, None]
    assert begun == list(range(15))


async def test_a_later_iteration_may_end_first_and_results_are_handed_on_in_order(session):
    gates = [Gate() for _ in range(4)]

    async def wait(i):
        await gates[int(i)].wait()
        return i

    def body(i, text):
        return i + 1, af.string_join([text, af.as_string(waiting(i, wait))])

    text = loop(lambda i, _: i < 4, body, 0, "")[1]
    run = asyncio.create_task(session.run(text))
    for gate in reversed(gates):
        await gate.arrived()
        gate.open()
    assert await run == b"0123"


async def test_an_error_says_in_which_iteration_it_happened_and_stops_the_others(graph, config):
    gate, stopped = Gate(), []

    async def wait(i):
        if i == 3:
            await gate.arrived(3)
            raise ValueError("three is wrong")
        try:
            await gate.wait()
        finally:
            stopped.append(int(i))
        return i

    slow = []

    def body(i):
        slow.append(waiting(i, wait, name="slow"))
        return (i + 1,)

    outer = loop(lambda k: k < 2, lambda k: (k + loop(lambda i: i < 9, body, k * 0, name="inner")[0],), 0)[0]
    async with af.Session(graph=graph, config=config) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match="three is wrong") as caught:
            await session.run([outer, slow[0].op])
        assert caught.value.op.endswith("slow")
        assert any("in iteration 3 of 'inner', in iteration 0 of 'loop'" in note for note in caught.value.__notes__)
        assert sorted(stopped)[:3] == [0, 1, 2]
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_in_the_middle_of_a_loop_leaves_nothing(graph, config):
    gate = Gate()

    async def wait(i):
        if i > 5:
            await gate.wait()
        return i

    last = loop(lambda i: i < 100, lambda i: (waiting(i, wait) + 1,), 0)[0]
    async with af.Session(graph=graph, config=config) as session:
        run = asyncio.create_task(session.run(last))
        await gate.arrived()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await session.run(af.constant(1.0)) == 1.0


async def test_a_long_loop_keeps_no_memory_of_iterations_that_are_done(session):
    alive, most, kept = 0, 0, []

    def look(value):
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        made = np.array(value)
        kept.append(weakref.ref(made, gone))
        return made

    def gone(reference):
        nonlocal alive
        alive -= 1

    limit = af.placeholder(af.int32, [])
    last = constant_in(limit)
    count, x = loop(lambda i, x: i < last, lambda i, x: (i + 1, light(x, look)), 0, np.zeros(1))
    gc.disable()  # nothing is left to it
    iterations = amount(2_000, 10_000)
    try:
        assert await session.run([count, x], {limit: iterations}) == [iterations, 0.0]
    finally:
        gc.enable()
    assert most < 15


async def test_a_loop_of_primitives_alone_lets_the_event_loop_turn(session):
    first = af.enter(True, "loop")
    value = af.merge([first, first])[0]
    done, going = af.switch(value, af.loop_cond(value))
    value.op.update_input(1, af.next_iteration(going))
    run = asyncio.create_task(session.run(af.exit(done)))
    for _ in range(20):
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


# What else runs in loops


async def draws(graph, config, nested):
    """The numbers that one random operation draws in the iterations of a loop, in two runs."""
    seen, effects = [], []

    def body(i):
        draw = af.random_uniform([2], seed=7)
        effects.append(af.py_func(lambda draw: seen.append(draw.tolist()), [draw], []))
        return (i + 1,)

    if nested:
        last = loop(lambda k: k < 2, lambda k: (k + 1 + loop(lambda i: i < 2, body, k * 0, name="in")[0] * 0,), 0)[0]
    else:
        last = loop(lambda i: i < 4, body, 0)[0]
    async with af.Session(graph=graph, config=config) as session:
        await session.run([last, effects[0]])
        await session.run([last, effects[0]])
    return seen


@pytest.mark.parametrize("nested", [False, True])
async def test_random_numbers_differ_by_iteration_and_are_reproducible(config, nested):
    found = []
    for _ in range(2):
        with af.Graph().as_default() as graph:
            graph.seed = 3
            found.append(await draws(graph, config, nested))
    assert sorted(found[0]) == sorted(found[1])
    assert len({tuple(draw) for draw in found[0]}) == 8


async def test_a_trace_has_an_event_for_each_execution(session):
    last = loop(lambda i: i < 3, lambda i: (af.add(i, 1, name="plus"),), 0)[0]
    metadata = af.RunMetadata()
    await session.run(last, options=af.RunOptions(trace=True), metadata=metadata)
    types = [stats.op_type for stats in metadata.step_stats]
    assert [types.count(name) for name in ("add", "loop_cond", "next_iteration", "exit")] == [3, 4, 3, 1]


async def test_checked_numerics_look_into_iterations_and_past_what_is_dead(session):
    start = af.placeholder(af.float32, [])
    last = loop(lambda x: x > -2.0, lambda x: (x - 1.0,), start)[0]
    bad = loop(lambda x: x > -2.0, lambda x: (x + af.log(x, name="log") * 0.0 - 1.0,), start, name="bad")[0]
    checked = af.RunOptions(check_numerics=True)
    assert await session.run(last, {start: 1.0}, options=checked) == -2.0
    with pytest.raises(af.errors.InvalidArgumentError, match="log:0 is not finite"):
        await session.run(bad, {start: 1.0}, options=checked)


async def test_a_partial_run_gets_what_comes_out_of_a_loop(session):
    x, y = af.placeholder(af.int32, []), af.placeholder(af.int32, [])
    last = loop(lambda i: i < constant_in(x), lambda i: (i + 1,), 0)[0]
    both = last + y
    run = await session.partial_run_setup([last, both], [x, y])
    with pytest.raises(af.errors.InvalidArgumentError, match="has not been fed"):
        await session.partial_run(run, both, {x: 4})
    assert await session.partial_run(run, last, {x: 4}) == 4
    assert await session.partial_run(run, both, {y: 2}) == 6


async def test_a_partial_run_says_what_is_dead(session):
    p = af.placeholder(af.bool_, [])
    no, yes = af.switch(af.constant(1.0), p)
    run = await session.partial_run_setup([no, yes], [p])
    with pytest.raises(af.errors.InvalidArgumentError, match="switch:0 has no value"):
        await session.partial_run(run, no, {p: True})


def test_nodes_with_one_fate_are_dead_together_and_others_are_not(graph):
    p = af.placeholder(af.bool_, [])
    no, yes = af.switch(af.constant(3.0), p)
    after = af.merge([af.negative(no), af.square(yes)])[0]
    values = [af.tanh(after), af.exp(after), after * yes, af.tanh(yes), af.tanh(no), af.exp(af.tanh(yes))]
    flow = prune([], values, [])
    found = deciders(flow.nodes, Levels(flow.nodes, []))
    of = [found[node] for node, _ in flow.fetches]
    assert of[0] == of[1]
    assert of[3] == of[5]
    assert len(set(of)) == 4


def test_what_enters_every_iteration_decides_only_if_it_may_be_dead_or_nothing_else_decides(graph):
    x, p = af.placeholder(af.float32, []), af.placeholder(af.bool_, [])
    first, second, dying = constant_in(x), constant_in(x * 2.0), constant_in(af.switch(x, p)[1])
    made = [first + second]

    def step(i):
        made.extend([i + first, i * second, af.tanh(i), i - dying])
        return (sum(made),)

    values = loop(lambda i: i < second, step, 0.0)
    flow = prune([], values, [])
    found = {node.name: number for node, number in deciders(flow.nodes, Levels(flow.nodes, [])).items()}
    steady, one, other, alone, mortal = [found[tensor.op.name] for tensor in made]
    assert one == other == alone
    assert len({one, mortal, steady}) == 3
    assert steady
