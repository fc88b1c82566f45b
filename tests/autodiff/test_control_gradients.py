"""Gradients through branches and loops, nested in each other, against finite differences, in both executors."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.pipeline import Signature, make_flow
from aioflow.testing import check_gradients
from tests.support.doubles import waiting

CONFIGS = {"regions": af.Config(), "tokens": af.Config(executor="tokens")}
VECTOR = np.array([0.3, -0.7, 1.1])
MATRIX = np.array([[0.2, -0.4, 0.3], [0.5, 0.1, -0.6], [-0.3, 0.7, 0.4]])


@pytest.fixture(params=["regions", pytest.param("tokens", marks=pytest.mark.long)])
async def compute(request):
    """Runs fetches in that executor, in one session for each graph."""
    sessions = {}

    async def run(fetches, feeds):
        graph = fetches[0].graph
        if graph not in sessions:
            sessions[graph] = af.Session(graph=graph, config=CONFIGS[request.param])
            with graph.as_default():
                await sessions[graph].run(af.global_variables_initializer())
        return await sessions[graph].run(fetches, feeds)

    yield run
    for session in sessions.values():
        await session.close()


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def times(count, body, *starts, **options):
    """`body` of the counter and the variables, so many times over."""
    results = af.while_loop(
        lambda i, *_: i < count, lambda i, *values: (i + 1, *as_tuple(body(i, *values))), [0, *starts], **options
    )
    return results[1] if len(starts) == 1 else results[1:]


def as_tuple(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def positive(x):
    return af.reduce_sum(x) > 0.0


def pick(index):
    """A branch on an integer known only in the run."""
    return af.equal(af.placeholder_with_default(index, []), 1)


def branch_taken(x):
    return af.cond(positive(x), lambda: af.sin(x) * x, lambda: x**3)


def branch_not_taken(x):
    return af.cond(positive(-x), lambda: af.sin(x) * x, lambda: x**3)


def branch_that_ignores_an_input(x, y):
    return af.cond(pick(1), lambda: x * x, lambda: x * y * y)


def branch_of_the_other_input(x, y):
    return af.cond(pick(0), lambda: x * x, lambda: x * y * y)


def branch_returning_what_it_captures(x, y):
    return af.cond(pick(1), lambda: x, lambda: y) * y


def branch_of_several_outputs(x, y):
    a, b = af.cond(pick(1), lambda: (af.exp(x), x * y), lambda: (y, y))
    return a * b, b


def branch_with_an_unused_output(x):
    a, _ = af.cond(pick(1), lambda: (af.exp(x), x * x), lambda: (x, x))
    return a


def branch_in_a_branch(x, y):
    def inner():
        return af.cond(pick(0), lambda: x, lambda: af.tanh(x * y))

    return af.cond(pick(1), lambda: inner() * y, lambda: x)


def branches_on_branches(x):
    y = af.cond(pick(1), lambda: x * x, lambda: x)
    return af.cond(pick(0), lambda: y, lambda: y * x)


def constants_of_a_branch(x):
    return af.cond(pick(1), lambda: x * [1.0, 2.0, 3.0] + 4.0, lambda: af.constant([5.0, 6.0, 7.0], af.float64))


def loop_of_one_variable(x):
    return times(4, lambda i, v: af.sin(v) * 1.3, x)


def loop_with_a_capture(x, w):
    return times(3, lambda i, v: af.tanh(v * w + x), x)


def loop_that_never_runs(x, w):
    return times(0, lambda i, v: v * w, x) * w


def loop_of_as_many_iterations_as_asked(x):
    return times(af.placeholder_with_default(3, []), lambda i, v: v * v + 0.1, x)


def loop_until_large(x):
    return af.while_loop(lambda v: af.reduce_sum(v * v) < 40.0, lambda v: v * 2.1, [x])


def loop_with_a_limit(x):
    return times(10, lambda i, v: v * af.sin(v), x, maximum_iterations=2)


def loop_with_its_counter(x):
    return times(4, lambda i, v: v * x + af.cast(i, af.float64), x)


def fibonacci(x, y):
    return times(4, lambda i, a, b: (b, a * b), x, y)


def one_of_two_variables(x, y):
    return times(3, lambda i, a, b: (a * x, b * y), x, y)[0]


def swapped_variables(x, y):
    return times(3, lambda i, a, b: (b * 1.5, a), x, y)


def unchanged_variable(x, y):
    return times(3, lambda i, a, b: (a * b, b), x, y)


def variable_that_starts_as_a_constant(x):
    return times(3, lambda i, a, b: (a + b * x, b * x), 0.0 * VECTOR, np.ones(3))[0]


def replaced_variable(x, y):
    return times(2, lambda i, a: y * y, x)


def matrix_power(m):
    return times(3, lambda i, v: af.matmul(v, m), np.eye(3))


def loop_in_a_loop(x, w):
    return times(2, lambda i, v: times(3, lambda j, u: af.sin(u * w), v) + x, x)


def loop_in_a_loop_of_growing_length(x, w):
    return times(3, lambda i, v: times(i, lambda j, u: af.sin(u * w + v), v), x)


def loop_in_a_loop_in_a_loop(x):
    def once(i, v):
        return times(2, lambda j, u: times(2, lambda k, t: af.sin(t) + u * v, u), v)

    return times(2, once, x)


def branch_in_a_loop(x, w):
    return times(
        4, lambda i, v: af.cond(af.equal(i % 2, 0), lambda: v * w, lambda: af.sin(v) + af.cast(i, af.float64)), x
    )


def branch_on_a_value_in_a_loop(x):
    return times(4, lambda i, v: af.cond(positive(v), lambda: v * -1.2, lambda: af.sin(v)), x)


def loop_in_a_branch(x, w):
    return af.cond(pick(1), lambda: times(3, lambda i, v: af.sin(v * w), x), lambda: x)


def loop_in_a_branch_not_taken(x, w):
    return af.cond(pick(0), lambda: times(3, lambda i, v: af.sin(v * w), x), lambda: x * w)


def loop_in_a_branch_in_a_loop(x, w):
    def once(i, v):
        return af.cond(af.equal(i % 2, 1), lambda: times(i, lambda j, u: af.sin(u * w), v), lambda: v * w)

    return times(4, once, x)


def variable_of_several_shapes(x):
    return af.while_loop(
        lambda i, v: i < 2,
        lambda i, v: (i + 1, af.concat([v, v * v], 0)),
        [0, x],
        shape_invariants=[af.TensorShape([]), af.TensorShape([None])],
    )[1]


def variable_of_any_rank(x):
    return af.while_loop(
        lambda i, v: i < 2,
        lambda i, v: (i + 1, af.expand_dims(v * v, 0)),
        [0, x],
        shape_invariants=[af.TensorShape([]), af.TensorShape(None)],
    )[1]


def written_one_by_one(x):
    array = af.TensorArray(af.float64, 3)
    _, array = times(3, lambda i, v, a: (af.sin(v), a.write(i, v * x)), x, array)
    return array.stack()


def read_one_by_one(x):
    array = af.TensorArray(af.float64, 3).unstack(x)
    return times(3, lambda i, v: v * af.sin(v + array.read(i)), np.float64(1.0))


def read_and_written(x):
    source = af.TensorArray(af.float64, 3).unstack(x)
    made = af.TensorArray(af.float64, 3)
    _, _, made = times(3, lambda i, v, s, m: (v * s.read(i), s, m.write(i, v)), np.float64(1.0), source, made)
    return made.stack()


def written_by_two_loops(x):
    array = af.TensorArray(af.float64, 0, dynamic_size=True)

    def inner(i, v, array):
        return times(2, lambda j, u, a: (af.sin(u * x), a.write(2 * i + j, u * u)), v, array)

    _, array = times(2, inner, x, array)
    return array.stack()


def written_in_a_branch(x):
    array = af.TensorArray(af.float64, 3)

    def once(i, v, array):
        array = af.cond(af.equal(i % 2, 0), lambda: array.write(i, v * x), lambda: array.write(i, af.sin(v)))
        return v * x, array

    return times(3, once, x, array)[1].concat()


def arrays_made_in_a_loop(x):
    def once(i, v):
        array = times(2, lambda j, a: a.write(j, v * af.cast(i + j, af.float64)), af.TensorArray(af.float64, 2))
        return af.reduce_sum(array.stack(), axis=0) + x

    return times(3, once, x)


def array_read_in_a_loop_from_outside(x):
    array = af.TensorArray(af.float64, 3, clear_after_read=False).unstack(x)
    return times(2, lambda i, v: times(3, lambda j, u: u * array.read(j), v), np.float64(1.0)) + array.read(1)


def gathered(m):
    """IndexedSlices in every iteration."""
    return times(3, lambda i, v: v + af.gather(m, [i, 0]) * 2.0 + af.gather(m, [1, 1]), np.zeros((2, 3)))


def gathered_in_a_branch(m):
    return af.cond(pick(1), lambda: af.gather(m, [0, 2]) * 2.0, lambda: af.gather(m, [1, 1]))


def rows_looked_up(m):
    return times(3, lambda i, v: v * af.reduce_sum(af.gather(m, [i, 1])) ** 2, m[0])


def more_rows_each_time(m):
    return times(3, lambda i, v: v + af.reduce_sum(af.sin(af.gather(m, af.range(i))), 0), m[0])


def rows_looked_up_in_a_loop_in_a_loop(m):
    def more(i, v):
        return times(2, lambda j, u: u * 0.5 + u * af.reduce_sum(af.gather(m, [i - j]) ** 2), v)

    return times(2, lambda i, v: more(i + 1, v), m[0])


def rows_looked_up_in_a_computed_table(m):
    return af.map_fn(lambda i: af.gather(af.sin(m) * m, [i]) * af.gather(m, [i]), af.constant([2, 0, 2]), m.dtype)


def used_before_and_after(x):
    y = x * x
    return times(2, lambda i, v: v * y, y) + y


def gradient_inside_a_loop(x):
    return times(3, lambda i, v: v - 0.1 * af.gradients(af.reduce_sum(v**4 * x), v)[0], x)


def gradient_inside_a_branch(x):
    return af.cond(pick(1), lambda: af.gradients(af.reduce_sum(af.sin(x) * x), x)[0], lambda: x)


def gradient_of_a_loop_inside_a_loop(x):
    def once(i, v):
        return af.gradients(times(2, lambda j, u: af.sin(u) * v, v), v)[0]

    return times(2, once, x)


def waiting_loop(x, w):
    async def later(value):
        await asyncio.sleep(0.01)
        return value

    def once(i, v):
        with af.control_dependencies([waiting(v, later)]):
            return af.sin(v * w)

    return times(3, once, x)


def waiting_branch_in_a_loop(x, w):
    async def later(value):
        await asyncio.sleep(0.01)
        return value

    def waits(v):
        with af.control_dependencies([waiting(v, later)]):
            return af.sin(v * w)

    return times(3, lambda i, v: af.cond(af.equal(i % 2, 0), lambda: waits(v), lambda: v * v), x)


def sparse_variable(x):
    _, made = af.while_loop(
        lambda i, s: i < 3,
        lambda i, s: (i + 1, af.SparseTensor(s.indices, s.values * x, s.dense_shape)),
        [0, af.SparseTensor([[0], [1], [4]], x, [5])],
    )
    return made.values


def structure_of_variables(x, y):
    _, made = af.while_loop(
        lambda i, d: i < 3,
        lambda i, d: (i + 1, {"a": d["b"][0] * x, "b": [d["a"], None]}),
        [0, {"a": x, "b": [y, None]}],
    )
    return made["a"], made["b"][0]


ONE = [VECTOR]
TWO = [VECTOR, np.array([0.9, 0.4, -1.3])]
CASES = {
    branch_taken: ONE,
    branch_not_taken: ONE,
    branch_that_ignores_an_input: TWO,
    branch_of_the_other_input: TWO,
    branch_returning_what_it_captures: TWO,
    branch_of_several_outputs: TWO,
    branch_with_an_unused_output: ONE,
    branch_in_a_branch: TWO,
    branches_on_branches: ONE,
    constants_of_a_branch: ONE,
    loop_of_one_variable: ONE,
    loop_with_a_capture: TWO,
    loop_that_never_runs: TWO,
    loop_of_as_many_iterations_as_asked: ONE,
    loop_until_large: ONE,
    loop_with_a_limit: ONE,
    loop_with_its_counter: ONE,
    fibonacci: TWO,
    one_of_two_variables: TWO,
    swapped_variables: TWO,
    unchanged_variable: TWO,
    variable_that_starts_as_a_constant: ONE,
    replaced_variable: TWO,
    matrix_power: [MATRIX],
    loop_in_a_loop: TWO,
    loop_in_a_loop_of_growing_length: TWO,
    loop_in_a_loop_in_a_loop: ONE,
    branch_in_a_loop: TWO,
    branch_on_a_value_in_a_loop: ONE,
    loop_in_a_branch: TWO,
    loop_in_a_branch_not_taken: TWO,
    loop_in_a_branch_in_a_loop: TWO,
    variable_of_several_shapes: ONE,
    variable_of_any_rank: ONE,
    written_one_by_one: ONE,
    read_one_by_one: ONE,
    read_and_written: ONE,
    written_by_two_loops: ONE,
    written_in_a_branch: ONE,
    arrays_made_in_a_loop: ONE,
    array_read_in_a_loop_from_outside: ONE,
    gathered: [MATRIX],
    gathered_in_a_branch: [MATRIX],
    rows_looked_up: [MATRIX],
    more_rows_each_time: [MATRIX],
    rows_looked_up_in_a_loop_in_a_loop: [MATRIX],
    rows_looked_up_in_a_computed_table: [MATRIX],
    used_before_and_after: ONE,
    gradient_inside_a_loop: ONE,
    gradient_inside_a_branch: ONE,
    gradient_of_a_loop_inside_a_loop: ONE,
    waiting_loop: TWO,
    waiting_branch_in_a_loop: TWO,
    sparse_variable: ONE,
    structure_of_variables: TWO,
}


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
async def test_gradients_are_right_to_second_order(build, compute):
    await check_gradients(build, CASES[build], compute=compute, rtol=1e-4)


@pytest.mark.parametrize(
    "build", [loop_with_a_capture, branch_in_a_loop, loop_in_a_branch, loop_in_a_loop, read_one_by_one],
    ids=lambda build: build.__name__,
)  # fmt: skip
async def test_gradients_are_right_to_third_order(build, compute):
    await check_gradients(build, CASES[build], 3, compute=compute, rtol=1e-3, atol=1e-4)


async def test_the_gradient_of_rows_looked_up_in_a_loop_is_slices(compute):
    table, indices = af.get_variable("table", initializer=np.eye(9, 2)), af.placeholder(af.int32, [None, None])
    total = af.foldl(lambda v, places: v + af.nn.embedding_lookup(table, places), indices, af.zeros([3, 2], af.float64))
    (gradient,) = af.gradients(total**2, table)
    assert isinstance(gradient, af.IndexedSlices)
    assert gradient.shape.as_list() == [9, 2]
    found = await compute([gradient], {indices: [[0, 0, 1], [1, 8, 0]]})
    assert sorted(found[0].indices.tolist()) == [0, 0, 0, 1, 1, 8]
    assert found[0].dense_shape.tolist() == [9, 2]
    (whole,) = await compute([af.convert_to_tensor(gradient)], {indices: [[0, 0, 1], [1, 8, 0]]})
    assert whole[[0, 1, 2, 8]].tolist() == [[6, 4], [4, 4], [0, 0], [2, 0]]
    assert (await compute([gradient], {indices: np.zeros([0, 3])}))[0].values.shape == (0, 2)


async def test_what_takes_as_much_as_the_table_is_summed_in_the_loop():
    table = af.placeholder(af.float64, [2, 3])
    (gradient,) = af.gradients(
        times(4, lambda i, v: v * af.gather(table, [0, 1, 0]), af.ones([3, 3], af.float64)), table
    )
    assert isinstance(gradient, af.Tensor)


async def test_gradients_with_respect_to_constants_and_with_their_sizes_open(compute):
    x, batch = af.constant(2.0), af.placeholder_with_default(np.float32([0.5, 0.25]), [None])
    power = times(3, lambda i, v: v * x, x)
    orders = [power]
    for _ in range(4):
        orders.append(af.gradients(orders[-1], x)[0])
    assert await compute(orders, {}) == [16, 32, 48, 48, 24]
    rows = times(2, lambda i, v: v * batch, batch)
    first = af.gradients(rows, batch)[0]
    second = af.gradients(first, batch)[0]
    assert [value.tolist() for value in await compute([first, second], {batch: [1, 2, 3]})] == [
        [3, 12, 27], [6, 12, 18],
    ]  # fmt: skip


async def test_gradients_of_variables_read_in_bodies(compute):
    v = af.Variable(np.array([[1.0, 2.0], [3.0, 4.0]]))
    rows = times(3, lambda i, u: u * af.gather(v, [i % 2]) + v.read_value()[:1], np.ones((1, 2)))
    first = af.gradients(rows, v)[0]
    second = af.gradients(af.reduce_sum(first), v)[0]
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    value = ((1 * a + a) * b + a) * a + a
    found = await compute([rows, first, second], {})
    np.testing.assert_allclose(found[0], [value])
    np.testing.assert_allclose(found[1], [4 * a * b + 2 * a + 1, 2 * a * a])
    assert found[2].shape == (2, 2)


async def test_a_variable_trained_through_a_loop(compute):
    v = af.Variable(np.array([1.0, 2.0]))
    loss = af.reduce_sum(times(3, lambda i, u: af.sin(u * v), np.ones(2)))
    with af.control_dependencies([af.train.GradientDescentOptimizer(0.1).minimize(loss)]):
        after = v.read_value()
    gradient = af.gradients(loss, v)[0]
    before, slope, later = await compute([v, gradient, after], {})
    np.testing.assert_allclose(later, before - 0.1 * slope)


async def test_integers_go_along_and_have_no_gradient(compute):
    x, n = af.constant(2.0), af.constant(1)
    result, _ = times(3, lambda i, a, k: (a * x + af.cast(k, af.float32), k * 2), x, n)
    assert await compute(af.gradients(result, [x]), {}) == [4 * 8 + 1 * 2 * 2 + 2]
    assert af.gradients(result, n) == [None]


async def test_grad_ys_and_stop_gradients_hold_for_loops(compute):
    x = af.constant(2.0)
    a, b = times(3, lambda i, a, b: (a * x, b * x * x), x, x)
    assert await compute(af.gradients([a, b], x, grad_ys=[2.0, 3.0]), {}) == [2 * 32 + 3 * 7 * 64]
    y = x * x
    result = times(3, lambda i, v: v * y, x)
    assert await compute(af.gradients(result, [x, y], stop_gradients=[y]), {}) == [64, 96]
    assert await compute(af.gradients(result, x), {}) == [7 * 64]
    stopped = times(3, lambda i, v: v * af.stop_gradient(x), x)
    assert await compute(af.gradients(stopped, x), {}) == [8]


async def test_a_gradient_inside_a_body_goes_on_through_what_is_outside(compute):
    x = af.constant(2.0)
    y, z = x * x * x, x * x
    outside = times(2, lambda i, v: v + af.gradients(y, x)[0], x)
    through = times(2, lambda i, v: v + af.gradients(z * v, x)[0], 2.0)
    deeper = times(1, lambda i, v: times(1, lambda j, u: u + af.gradients(z * v * u, x)[0], v * 2.0), 2.0)
    held = times(1, lambda i, v: v + af.gradients([z * v], x, stop_gradients=[z], unconnected_gradients="zero")[0], 2.0)
    branch = af.cond(positive(x), lambda: af.gradients(z * x, [x, z]), lambda: [x, x])
    assert await compute([outside, through, deeper, held, *branch], {}) == [26, 50, 36, 2, 12, 2]
    assert await compute(af.gradients(branch[0], x), {}) == [12]


@pytest.mark.parametrize("start", [lambda x: x, lambda x: x * x], ids=["x", "made of x"])
async def test_a_gradient_inside_a_loop_does_not_go_back_through_the_iterations(start, compute):
    x = af.constant(2.0)
    with pytest.raises(ValueError, match="through a loop variable"):
        times(2, lambda i, v: v + af.gradients(v * x, x)[0], start(x))
    with pytest.raises(ValueError, match="through a loop variable"):
        times(2, lambda i, v: times(2, lambda j, u: u + af.gradients(v * x, x)[0], 1.0), start(x))
    partly = times(1, lambda i, v: v + af.gradients(v * x, x, stop_gradients=[v])[0], start(x))
    assert await compute([partly], {}) == await compute([2.0 * start(x)], {})


def test_what_results_do_not_depend_on_has_no_gradient():
    x, z = af.constant(2.0), af.constant(3.0)
    result = times(3, lambda i, v: (z * 2.0, v * x)[1], x)
    assert af.gradients(result, z) == [None]
    assert af.gradients(times(3, lambda i, v: v * x, x, back_prop=False), x) == [None]
    assert af.gradients(af.cond(positive(x), lambda: x * x, lambda: x), z) == [None]


@af.RegisterGradient("missing in this test")
def _missing(op, dy):
    raise LookupError(f"no gradient is known for {op.name!r}")


@pytest.mark.parametrize("wrap", [
    lambda body, x: times(3, lambda i, v: body(v), x),
    lambda body, x: af.cond(positive(x), lambda: body(x), lambda: x),
    lambda body, x: times(3, lambda i, v: af.cond(positive(v), lambda: body(v), lambda: v), x),
], ids=["loop", "branch", "branch in a loop"])  # fmt: skip
def test_a_gradient_that_cannot_exist_raises_when_it_is_built_and_leaves_nothing(wrap, graph):
    x = af.constant(2.0)

    def body(v):
        with af.get_default_graph().gradient_override_map({"exp": "missing in this test"}):
            return af.exp(af.sin(v) * v)

    result = wrap(body, x)
    before, outputs = graph.get_operations(), result.op.outputs
    with pytest.raises(LookupError, match="no gradient is known"):
        af.gradients(result, x)
    assert graph.get_operations() == before
    assert result.op.outputs == outputs


def test_a_loop_made_by_hand_has_no_gradient(graph):
    x = af.constant(1.0)
    first = af.enter(x, "loop")
    merged, _ = af.merge([first, first])
    done, going = af.switch(merged, af.loop_cond(merged < 10.0))
    merged.op.update_input(1, af.next_iteration(going * 2.0))
    result = af.exit(done)
    before = graph.get_operations()
    with pytest.raises(LookupError, match=r"use af\.cond or af\.while_loop"):
        af.gradients(result, x)
    assert graph.get_operations() == before


async def test_control_flow_made_by_hand_works_in_a_body(compute):
    def doubled(v):
        first = af.enter(v, "by hand")
        merged, _ = af.merge([first, first])
        done, going = af.switch(merged, af.loop_cond(merged < 10.0 * af.enter(v, "by hand", is_constant=True)))
        merged.op.update_input(1, af.next_iteration(going * 2.0))
        return af.exit(done)

    assert await compute([times(2, lambda i, v: doubled(v) + 1.0, 1.0)], {}) == [17 * 16 + 1]


def test_the_gradient_of_one_variable_leaves_out_the_others():
    x = af.placeholder(af.float64, [])
    a, _ = times(3, lambda i, a, b: (a * x, af.exp(b)), x, x)
    gradient = af.gradients(a, x)[0]
    flow = make_flow(Signature((x,), (gradient,), ()))
    assert "exp" not in {inner.definition.name for node in flow.nodes for inner in node.everything()}
