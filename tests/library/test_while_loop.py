"""Loops: their variables, how often they run, what they use, in which order, and what is wrong with them."""

import asyncio
import collections

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.pipeline import Signature, make_flow
from aioflow.testing import Gate
from tests.support.doubles import failing, gated, waiting
from tests.support.runs import CONFIGS, runs

Pair = collections.namedtuple("Pair", "left right")


@pytest.fixture(params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def run(config, graph):
    async with runs(graph, config) as run:
        yield run


def times(count, body, *starts, **options):
    """`body` of the counter and the variables, so many times over; the variables afterwards."""

    def step(i, *values):
        made = body(i, *values)
        return (i + 1, *(made if isinstance(made, (list, tuple)) else (made,)))

    results = af.while_loop(lambda i, *_: i < count, step, [0, *starts], **options)
    return results[1] if len(starts) == 1 else results[1:]


async def later(value):
    await asyncio.sleep(0.01)
    return value


# Structures of variables


STRUCTURES = {
    "one variable": (lambda i: i < 3, lambda i: i + 1, [0], 3),
    "one variable, given back in a list": (lambda i: i < 3, lambda i: [i + 1], [0], 3),
    "one variable in a tuple": (lambda i: i < 3, lambda i: (i + 1,), (0,), 3),
    "two in a list": (lambda i, x: i < 3, lambda i, x: [i + 1, x * 2.0], [0, 1.0], [3, 8.0]),
    "two in a tuple": (lambda i, x: i < 3, lambda i, x: (i + 1, x * 2.0), (0, 1.0), (3, 8.0)),
    "a list given back as a tuple": (lambda i, x: i < 3, lambda i, x: (i + 1, x), [0, 1.0], [3, 1.0]),
    "a record": (lambda i, x: i < 3, lambda i, x: Pair(i + 1, x * 2.0), Pair(0, 1.0), Pair(3, 8.0)),
    "a record given back as a tuple": (lambda i, x: i < 3, lambda i, x: (i + 1, x), Pair(0, 1.0), Pair(3, 1.0)),
    "a record in a list": (lambda p: p.left < 3, lambda p: [Pair(p.left + 1, p.right)], [Pair(0, 1)], [Pair(3, 1)]),
    "a dict": (lambda d: d["i"] < 3, lambda d: {"i": d["i"] + 1}, [{"i": 0}], {"i": 3}),
    "nested": (
        lambda i, d: i < 2,
        lambda i, d: (i + 1, {"b": [d["a"]], "a": d["b"][0] * 2.0}),
        [0, {"a": 1.0, "b": [5.0]}],
        [2, {"a": 2.0, "b": [10.0]}],
    ),
}


@pytest.mark.parametrize("name", STRUCTURES)
async def test_the_result_has_the_structure_of_the_loop_variables(name, run):
    cond, body, starts, expected = STRUCTURES[name]
    result = await run(af.while_loop(cond, body, starts))
    assert result == expected
    assert type(result) is type(expected) or isinstance(expected, int)


async def test_asked_for_it_one_variable_comes_in_the_structure_it_was_given(run):
    assert await run(af.while_loop(lambda i: i < 3, lambda i: i + 1, [0], return_same_structure=True)) == [3]
    assert await run(af.while_loop(lambda i: i < 3, lambda i: i + 1, (0,), return_same_structure=True)) == (3,)


async def test_none_stays_none(run):
    count, nothing = af.while_loop(lambda i, n: i < 2, lambda i, n: (i + 1, None), [0, None])
    assert nothing is None
    assert await run(count) == 2


async def test_sparse_tensors_and_slices_go_round(run):
    sparse, slices = af.SparseTensor([[0, 1]], [3.0], [2, 2]), af.IndexedSlices(af.constant([[1.0]]), af.constant([1]))

    def body(i, s, r):
        return (
            i + 1,
            af.SparseTensor(s.indices, s.values * 2.0, s.dense_shape),
            af.IndexedSlices(r.values + 1.0, r.indices),
        )

    _, s, r = await run(af.while_loop(lambda i, *_: i < 2, body, [0, sparse, slices]))
    assert (s.values.tolist(), s.indices.tolist()) == ([12.0], [[0, 1]])
    assert (r.values.tolist(), r.indices.tolist()) == ([[3.0]], [1])


async def test_a_sparse_tensor_may_get_more_values_if_its_shape_invariant_says_so(run):
    def body(i, s):
        more = af.sparse_concat(0, [s, s])
        return i + 1, af.SparseTensor(more.indices, more.values, more.dense_shape)

    start = af.SparseTensor([[0, 1]], [3.0], [1, 2])
    shapes = [af.TensorShape([]), af.TensorShape([2])]
    _, made = await run(af.while_loop(lambda i, s: i < 2, body, [0, start], shape_invariants=shapes))
    assert made.dense_shape.tolist() == [4, 2]
    assert made.values.tolist() == [3.0] * 4


async def test_tensor_arrays_go_round(run):
    squares = times(4, lambda i, array: array.write(i, af.cast(i * i, af.float32)), af.TensorArray(af.float32, 4))
    assert (await run(squares.stack())).tolist() == [0, 1, 4, 9]
    growing = af.TensorArray(af.int32, 0, dynamic_size=True)
    found = times(3, lambda i, array: array.write(i, i), growing)
    assert (await run(found.stack())).tolist() == [0, 1, 2]


async def test_variables_arrays_and_numbers_become_tensors(run):
    a, b, c = await run(times(2, lambda i, a, b, c: (a + 1.0, b + a, c + 1), af.Variable(1.0), np.float32([0, 9]), 7))
    assert (a, b.tolist(), c) == (3.0, [3.0, 12.0], 9)


# Shapes


async def test_a_shape_may_change_where_the_invariant_leaves_it_open(run):
    shapes = [af.TensorShape([]), af.TensorShape([None, 2])]
    _, grown = af.while_loop(
        lambda i, v: i < 2, lambda i, v: (i + 1, af.concat([v, v], 0)), [0, np.ones((1, 2))], shape_invariants=shapes
    )
    assert str(grown.shape) == "[?, 2]"
    assert (await run(grown)).shape == (4, 2)


@pytest.mark.parametrize("shape", [None, af.TensorShape(None)])
async def test_a_rank_may_change_where_the_invariant_leaves_it_open(run, shape):
    _, grown = af.while_loop(
        lambda i, v: i < 2, lambda i, v: (i + 1, af.expand_dims(v, 0)), [0, np.ones(2)], shape_invariants=[[], shape]
    )
    assert grown.shape.ndims is None
    assert (await run(grown)).shape == (1, 1, 2)


async def test_open_sizes_stay_open_and_may_be_anything(run):
    x = af.placeholder(af.float32, [None, 3])
    result = times(3, lambda i, v: v * 2.0, x)
    assert str(result.shape) == "[?, 3]"
    assert (await run(result, {x: np.ones((4, 3))})).shape == (4, 3)
    unknown = af.placeholder(af.float32, None)
    assert (await run(times(2, lambda i, v: v + v, unknown), {unknown: [1, 2]})).tolist() == [4, 8]


# How often


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (-1, 0), (2, 2), (3, 3), (9, 5), (np.int64(4), 4)])
async def test_a_loop_ends_by_its_condition_or_after_as_many_iterations_as_it_may(run, limit, expected):
    assert await run(af.while_loop(lambda i: i < 5, lambda i: i + 1, [0], maximum_iterations=limit)) == expected
    fed = af.placeholder(af.int64, [])
    result = af.while_loop(lambda i: i < 5, lambda i: i + 1, [0], maximum_iterations=fed)
    assert await run(result, {fed: limit}) == expected


async def test_what_is_true_for_ever_ends_by_the_limit(run):
    assert await run(af.while_loop(lambda i: True, lambda i: i + 1, [0], maximum_iterations=4)) == 4
    outside = af.constant(3) < 4
    assert await run(af.while_loop(lambda i: outside, lambda i: i + 1, [0], maximum_iterations=3)) == 3


async def test_a_loop_that_does_not_run_gives_what_it_was_given(run):
    x = af.placeholder(af.float32, [2])
    assert (await run(times(0, lambda i, v: af.exp(v), x), {x: [1, 2]})).tolist() == [1, 2]


async def test_loops_in_loops_in_branches_in_loops(run):
    def once(i, v):
        return af.cond(
            af.equal(i % 2, 0), lambda: times(i + 1, lambda j, u: u + af.cast(i * j, af.float32), v), lambda: v * 2.0
        )

    expected = 1.0
    for i in range(5):
        expected = expected + sum(i * j for j in range(i + 1)) if i % 2 == 0 else expected * 2
    assert await run(times(5, once, 1.0)) == expected


async def test_a_loop_in_a_branch_that_is_not_taken_does_not_run(run):
    pred = af.placeholder(af.bool, [])
    result = af.cond(pred, lambda: times(3, lambda i, v: failing(v, ValueError("ran")), 1.0), lambda: 2.0)
    assert await run(result, {pred: False}) == 2.0


# What it uses


async def test_a_body_uses_all_that_is_around_also_two_levels_up(run):
    x, w, c = af.placeholder(af.float32, []), af.Variable(2.0), af.constant(1.0)
    result = times(2, lambda i, v: times(2, lambda j, u: u * w + x + c, v), x)
    value = 3.0
    for _ in range(4):
        value = value * 2 + 3 + 1
    assert await run(result, {x: 3}) == value


async def test_what_a_body_captures_can_be_fed(run):
    fixed = af.constant([1.0, 2.0])
    computed = fixed * 2.0
    result = times(2, lambda i, v: v + computed + fixed, np.zeros(2, np.float32))
    assert (await run(result, {computed: [10, 20]})).tolist() == [22, 44]
    assert (await run(result, {fixed: [5, 6]})).tolist() == [30, 36]
    count = af.constant(2)
    assert await run(af.while_loop(lambda i: i < count, lambda i: i + 1, [0]), {count: 5}) == 5


async def test_a_variable_made_in_a_body_is_one_for_all_iterations(run):
    def body(i, v):
        return v + af.get_variable("total", [], initializer=af.zeros_initializer()).assign_add(1.0)

    result = times(3, body, 0.0)
    assert [variable.name for variable in af.global_variables()] == ["total:0"]
    assert await run(result) == 1 + 2 + 3
    assert await run(result) == 4 + 5 + 6


async def test_operations_of_a_body_have_the_scopes_around(graph):
    made = []
    with graph.name_scope("outer"), graph.device("/cpu:0"):
        times(2, lambda i, v: made.append(af.exp(v)) or made[0], 1.0, name="repeat")
    assert made[0].op.name == "outer/repeat/body/exp"
    assert made[0].op.device == "/device:CPU:0"


@pytest.mark.parametrize("waits", [False, True])
async def test_random_numbers_differ_by_iteration_and_can_be_had_again(waits, graph):
    def body(i, array):
        number = af.random_uniform([], seed=3)
        return array.write(i, waiting(number, later) if waits else number)

    numbers = times(3, body, af.TensorArray(af.float32, 3)).stack()
    nested = times(2, lambda i, s: s + times(2, lambda j, t: t + af.random_normal([], seed=1), 0.0), 0.0)
    found = []
    for config in CONFIGS.values():
        async with af.Session(graph=graph, config=config) as session:
            first, total = await session.run([numbers, nested])
            second = await session.run(numbers)
            found.append(([*first.tolist(), *second.tolist()], float(total)))
    assert found[0] == found[1] == found[2]
    assert len(set(found[0][0])) == 6


# Order


async def test_reads_and_updates_are_in_order_before_inside_and_after(run):
    variable = af.Variable(1.0)
    before = variable.read_value()

    def body(i, seen):
        first = variable.read_value()
        update = variable.assign_add(10.0)
        second = variable.read_value()
        return seen.write(2 * i, first).write(2 * i + 1, second + 0.0 * update)

    inside = times(3, body, af.TensorArray(af.float32, 6)).stack()
    after = variable.read_value()
    last = variable.assign(0.0)
    values = await run([before, inside, after, last])
    assert values[0] == 1
    assert values[1].tolist() == [1, 11, 11, 21, 21, 31]
    assert values[2:] == [31, 0]


@pytest.mark.parametrize("parallel", [1, 10])
async def test_iterations_that_wait_update_a_variable_in_order(run, parallel):
    variable = af.Variable(0.0)

    async def sooner(value):
        await asyncio.sleep(1.0 / (1.0 + float(value)))
        return value

    def body(i, array):
        waited = waiting(af.cast(i, af.float32), sooner)
        return array.write(i, variable.assign(variable * 2.0 + waited))

    written = times(4, body, af.TensorArray(af.float32, 4), parallel_iterations=parallel).stack()
    assert (await run(written)).tolist() == [0, 1, 4, 11]


async def test_an_effect_happens_in_each_iteration_though_its_output_is_not_used(run):
    variable = af.Variable(0.0)

    def body(i, unused, used):
        with af.control_dependencies([variable.assign_add(1.0)]):
            return af.identity(unused), used * 2.0

    _, used = times(3, body, 1.0, 1.0)
    assert await run(used) == 8
    assert await run(variable.value()) == 3


async def test_an_effect_in_a_condition_happens_once_more_than_the_body_runs(run):
    variable = af.Variable(0.0)
    result = af.while_loop(lambda i: variable.assign_add(1.0) < 4.0, lambda i: i + 1, [0])
    assert await run(result) == 3
    assert await run(variable.value()) == 4


async def test_a_control_dependency_on_an_operation_outside_holds_for_the_loop(run):
    variable = af.Variable(1.0)
    update = variable.assign(5.0)

    def body(i, v):
        with af.control_dependencies([update]):
            return af.identity(v) + 1.0

    assert await run(times(2, lambda i, v: times(2, body, v), 0.0)) == 4.0
    assert await run(variable.value()) == 5.0


async def test_a_body_trains(run):
    w = af.Variable([1.0, 2.0])

    def body(i, loss):
        loss = af.reduce_sum(w * w)
        with af.control_dependencies([af.train.GradientDescentOptimizer(0.1).minimize(loss)]):
            return af.identity(loss)

    loss = times(3, body, 0.0)
    np.testing.assert_allclose(await run(loss), 5 * 0.8**4, rtol=1e-6)
    np.testing.assert_allclose(await run(w.value()), np.array([1, 2]) * 0.8**3, rtol=1e-6)


# What is left out


def ops_of(*fetches, feeds=()):
    flow = make_flow(Signature(tuple(feeds), fetches, ()))
    return [inner.definition.name for node in flow.nodes for inner in node.everything()]


def test_variables_that_nobody_looks_at_are_left_out(graph):
    x = af.placeholder(af.float32, [])
    a, b, c = times(3, lambda i, a, b, c: (af.cos(a), af.sin(b), af.exp(c)), x, x, x)
    fetches = {"cos": a, "sin": b, "exp": c, "negative": af.negative(af.gradients(b, x)[0])}
    for name, fetch in fetches.items():
        needed = {"cos", "sin", "negative"} if name == "negative" else {name}
        assert {"cos", "sin", "exp", "negative"} & set(ops_of(fetch, feeds=[x])) == needed


def test_records_for_gradients_that_are_not_run_cost_nothing(graph):
    x = af.placeholder(af.float32, [])
    result = times(3, lambda i, v: af.sin(v) * x, x)
    before = ops_of(result, feeds=[x])
    gradient = af.gradients(result, x)[0]
    loop = result.op
    assert len(loop.outputs) > 3
    assert ops_of(result, feeds=[x]) == before
    assert "cos" in ops_of(gradient, feeds=[x])


# Waiting


@pytest.mark.parametrize(("parallel", "together"), [(1, 1), (2, 2), (10, 4)])
async def test_iterations_overlap_as_far_as_nothing_orders_them(graph, config, parallel, together):
    gate = Gate()

    def count(i, v):
        with af.control_dependencies([gated(i, gate)]):
            return af.identity(v)

    _, done = af.while_loop(
        lambda i, v: i < 4, lambda i, v: (i + 1, count(i, v)), [0, 1.0], parallel_iterations=parallel
    )
    async with af.Session(graph=graph, config=config) as session:
        task = asyncio.create_task(session.run(done))
        await gate.arrived(together)
        await asyncio.sleep(1)
        assert gate.entered == together
        gate.open()
        assert await task == 1.0
        assert gate.entered == 4


async def test_a_value_that_goes_round_keeps_waiting_iterations_one_after_the_other(graph, config):
    gate = Gate()
    result = times(3, lambda i, v: gated(v, gate) + 1.0, 0.0)
    async with af.Session(graph=graph, config=config) as session:
        task = asyncio.create_task(session.run(result))
        await gate.arrived()
        await asyncio.sleep(1)
        assert gate.entered == 1
        gate.open()
        assert await task == 3.0


@pytest.mark.parametrize("parallel", [1, 10])
async def test_python_functions_in_loops_plain_and_async(run, parallel):
    async def slow(value):
        await asyncio.sleep(float(value))
        return value * 2

    def body(i, v):
        plain = af.py_func(lambda value: value + 1, [v], af.float32)
        plain.set_shape([])
        result = af.py_func(slow, [plain], af.float32)
        result.set_shape([])
        return result

    assert await run(times(3, body, 0.0, parallel_iterations=parallel)) == 14.0


async def test_loops_beside_each_other_that_wait_run_at_the_same_time(graph, config):
    async with af.Session(graph=graph, config=config) as session:
        loops = [times(5, lambda i, v: waiting(v, later) + 1.0, float(n)) for n in range(3)]
        start = asyncio.get_running_loop().time()
        assert await session.run(loops) == [5, 6, 7]
        assert asyncio.get_running_loop().time() - start == pytest.approx(0.05)


# Ends that come early


ENDLESS = {
    "native": lambda v: v + 1.0,
    "waiting": lambda v: waiting(v, later) + 1.0,
    "waiting for nothing": lambda v: waiting(v, at_once) + 1.0,
    "nested": lambda v: times(10, lambda i, u: u + 1.0, v),
}


async def at_once(value):
    return value


@pytest.mark.real
@pytest.mark.parametrize("name", ENDLESS)
async def test_an_endless_loop_leaves_the_event_loop_responsive_and_is_cancelled(name, graph, config):
    endless = af.while_loop(lambda v: True, ENDLESS[name], [0.0])
    async with af.Session(graph=graph, config=config) as session:
        task = asyncio.create_task(session.run(endless))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(af.errors.DeadlineExceededError):
            await session.run(endless, options=af.RunOptions(timeout=0.05))
        assert await session.run(af.constant(1.0)) == 1.0


async def test_a_loop_that_was_short_before_leaves_the_event_loop_responsive(graph):
    limit = af.placeholder(af.int32, [])
    last = af.while_loop(lambda i, x: i < limit, lambda i, x: (i + 1, af.sin(x) + 1.0), [0, 0.0])[1]
    async with af.Session(graph=graph) as session:
        for _ in range(10):
            await session.run(last, {limit: 3})
        step = asyncio.create_task(session.run(last, {limit: 1_000_000}))
        for _ in range(5):
            await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert await session.run(last, {limit: 1}) == 1.0


@pytest.mark.parametrize("waits", [False, True])
async def test_an_error_in_some_iteration_names_its_operation_line_and_shapes(run, waits):
    table = af.constant([1.0, 2.0, 3.0])

    def body(i, v):
        v = waiting(v, later) if waits else v
        return v + af.gather(table, i, name="lookup")

    result = times(10, body, 0.0)
    with pytest.raises(af.errors.InvalidArgumentError, match="3") as caught:
        await run(result)
    assert caught.value.op == "while/body/lookup"
    assert caught.value.op_type == "gather"
    assert __file__ in caught.value.line
    assert caught.value.shapes == ("float32[3]", "int32[]")


async def test_an_error_in_one_waiting_iteration_ends_the_others(graph, config):
    gate = Gate()

    async def wait(value):
        if value == 2:
            raise ValueError("the third")
        await gate.wait()
        return value

    def body(i, v):
        with af.control_dependencies([waiting(i, wait)]):
            return af.identity(v)

    async with af.Session(graph=graph, config=config) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match="the third"):
            await session.run(times(5, body, 0.0))
        assert gate.entered >= 2


async def test_an_error_of_a_shape_in_the_run_names_the_operation(run):
    x = af.placeholder(af.float32, None)
    result = times(3, lambda i, v: v + x, np.zeros(2, np.float32), shape_invariants=[[], None])
    with pytest.raises(af.errors.InvalidArgumentError) as caught:
        await run(result, {x: [1, 2, 3]})
    assert caught.value.op == "while/body/add"


async def test_traces_checks_callables_and_partial_runs_see_through_loops(graph, config):
    x = af.placeholder(af.float32, [], name="x")
    result = times(3, lambda i, v: af.log(v), x)
    after = result + x
    async with af.Session(graph=graph, config=config) as session:
        metadata = af.RunMetadata()
        await session.run(result, {x: 1e9}, af.RunOptions(trace=True), metadata)
        assert [stats.name for stats in metadata.step_stats].count("while/body/log") == 3
        with pytest.raises(af.errors.InvalidArgumentError) as caught:
            await session.run(result, {x: 1.0}, af.RunOptions(check_numerics=True))
        assert caught.value.op == "while/body/log"
        step = session.make_callable(after, [x])
        assert await step(1e9) == await session.run(after, {x: 1e9})
        handle = await session.partial_run_setup([result, after], [x])
        first = await session.partial_run(handle, result, {x: 1e9})
        assert await session.partial_run(handle, after) == np.float32(first + np.float32(1e9))


# What is wrong


def shapes(*sizes):
    return {"shape_invariants": [af.TensorShape(each) for each in sizes]}


ONE = np.ones(1, np.float32)
WRONG = {
    "no variables": (lambda: True, lambda: (), [], {}, ValueError, "at least one"),
    "no list": (lambda v: True, lambda v: v, ONE, {}, ValueError, "list or tuple"),
    "no function": (True, lambda v: v, [0], {}, TypeError, "cond must be a function"),
    "no body": (lambda v: True, None, [0], {}, TypeError, "body must be a function"),
    "another number of variables": (lambda v: v < 3, lambda v: (v, v), [0], {}, ValueError, "1 items against 2"),
    "another structure": (lambda v, w: v < 3, lambda v, w: (v, [w]), [0, 1], {}, ValueError, r"differ at \[1\]"),
    "None": (lambda v: v < 3, lambda v: None, [0], {}, TypeError, "a tensor.*None"),
    "another dtype": (lambda v: v < 3, lambda v: af.cast(v, af.float32), [0], {}, TypeError, "int32.*float32.*cast"),
    "another size": (lambda v: True, lambda v: af.concat([v, v], 0), [ONE], {}, ValueError, r"\[1\].*\[2\].*shape_inv"),
    "another rank": (lambda v: True, lambda v: af.expand_dims(v, 0), [ONE], {}, ValueError, r"\[1\].*\[1, 1\]"),
    "a first value that breaks the invariant": (lambda v: True, lambda v: v, [ONE], shapes([2]), ValueError, r"\[2\]"),
    "more than the invariant allows": (
        lambda v: True, lambda v: af.concat([v, v], 0), [ONE], shapes([1]), ValueError, "shape_invariants"
    ),
    "another number of invariants": (
        lambda v: True, lambda v: v, [ONE], shapes([1], [1]), ValueError, "a shape for each loop variable"
    ),
    "several answers": (lambda v: [v < 3, v < 4], lambda v: v, [0], {}, ValueError, "one bool"),
    "an answer that is no bool": (lambda v: v, lambda v: v, [0], {}, TypeError, "one bool.*int32"),
    "a vector of answers": (lambda v: v < 1.0, lambda v: v, [ONE], {}, ValueError, r"one bool.*\[1\]"),
    "no answer": (lambda v: None, lambda v: v, [0], {}, (TypeError, ValueError), "None"),
    "a limit that is no integer": (
        lambda v: v < 3, lambda v: v, [0], {"maximum_iterations": 1.5}, ValueError, "one integer"
    ),
    "several limits": (lambda v: v < 3, lambda v: v, [0], {"maximum_iterations": [1]}, ValueError, "one integer"),
    "no iterations at a time": (
        lambda v: v < 3, lambda v: v, [0], {"parallel_iterations": 0}, TypeError, "at least 1, not 0"
    ),
    "lists of other sizes": (
        lambda v: True, lambda v: af.TensorArray(af.int32, 3), [af.TensorArray], {}, ValueError, "2 slots.*3"
    ),
    "a list in the place of a tensor": (
        lambda v: True, lambda v: af.TensorArray(af.int32, 3), [0], {}, TypeError, "a tensor.*a TensorArray"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_said_when_it_is_built_and_leaves_nothing(name, graph):
    cond, body, starts, options, kind, text = WRONG[name]
    starts = [af.TensorArray(af.int32, 2)] if starts == [af.TensorArray] else starts
    before = graph.get_operations()
    with pytest.raises(kind, match=text) as caught:
        af.while_loop(cond, body, starts, **options)
    assert "built at" in str(caught.value)
    assert graph.get_operations() == before
    assert times(3, lambda i, v: v, 0, name="while").op.name == "while"


def test_a_body_that_raises_half_way_leaves_the_graph_as_it_was(graph):
    x = af.constant(1.0)

    def half(i, v):
        af.get_variable("weights", [2])
        af.gradients(loop * v, x)
        raise RuntimeError("half way")

    loop = times(2, lambda i, v: af.sin(v) * x, x)
    before, outputs, attrs = graph.get_operations(), loop.op.outputs, dict(loop.op.attrs)
    with pytest.raises(RuntimeError, match="half way"):
        times(3, half, 1.0)
    assert graph.get_operations() == before
    assert (loop.op.outputs, loop.op.attrs) == (outputs, attrs)
    assert af.global_variables() == []
    assert af.get_default_graph() is graph


async def test_a_gradient_that_fails_leaves_the_forward_loop_as_it_was(run, graph):
    x = af.constant(0.5)
    result = times(2, lambda i, v: af.sin(v) * x, x)
    before, outputs, attrs = graph.get_operations(), result.op.outputs, dict(result.op.attrs)
    inner = result.op.attrs["body"].graph
    version, exposed = inner.version, dict(inner.exposed)

    def fail():
        with graph.transaction():
            af.gradients(result, x)
            assert result.op.outputs != outputs
            assert inner.exposed != exposed
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert graph.get_operations() == before
    assert (result.op.outputs, result.op.attrs) == (outputs, attrs)
    assert (inner.version, inner.exposed) == (version, exposed)
    (gradient,) = af.gradients(result, x)
    assert np.isfinite(await run(gradient))


@pytest.mark.parametrize("use", [lambda t: t + 1.0, af.exp, lambda t: af.stack([t, t])], ids=["operator", "op", "list"])
def test_a_tensor_of_a_body_cannot_be_used_outside(use):
    kept = []
    times(2, lambda i, v: kept.append(af.exp(v)) or kept[0], 1.0)
    with pytest.raises(ValueError, match="'while/body/exp:0' is inside a branch or loop and used outside of it"):
        use(kept[0])


async def test_a_tensor_of_a_body_cannot_be_fetched(run):
    kept = []
    times(2, lambda i, v: kept.append(af.exp(v)) or kept[0], 1.0)
    with pytest.raises(ValueError, match="inside a branch or loop, which must return it"):
        await run(kept[0])
