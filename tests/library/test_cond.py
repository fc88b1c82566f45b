"""Branches: what they return, what they use, what runs, and what is wrong with them."""

import asyncio
import collections

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.pipeline import Signature, make_flow
from aioflow.testing import Gate
from tests.support.doubles import failing, gated, light, waiting
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


@pytest.fixture
def pred():
    return af.placeholder(af.bool, [], name="pred")


# What a branch returns


STRUCTURES = {
    "a tensor": (lambda: 1, lambda: 2, 1, 2),
    "a list": (lambda: [1, 2.0], lambda: [3, 4.0], [1, 2.0], [3, 4.0]),
    "a list of one thing": (lambda: [1], lambda: [2], 1, 2),
    "a list of one thing against that thing": (lambda: [1], lambda: 2, 1, 2),
    "a tuple": (lambda: (1, 2), lambda: (3, 4), (1, 2), (3, 4)),
    "a record": (lambda: Pair(1, [2]), lambda: Pair(3, [4]), Pair(1, [2]), Pair(3, [4])),
    "a dict": (lambda: {"b": 1, "a": 2}, lambda: {"a": 3, "b": 4}, {"b": 1, "a": 2}, {"b": 4, "a": 3}),
    "nested": (lambda: {"a": [(1, 2)], "b": 3}, lambda: {"a": [(4, 5)], "b": 6}, {"a": [(1, 2)], "b": 3},
               {"a": [(4, 5)], "b": 6}),
    "nothing": (lambda: [], lambda: [], [], []),
    "an operation": (lambda: af.no_op(), lambda: af.group(), True, True),
    "an operation against a bool": (lambda: af.no_op(), lambda: False, True, False),
}  # fmt: skip


@pytest.mark.parametrize("name", STRUCTURES)
async def test_the_result_has_the_structure_of_what_the_branches_return(name, run, pred):
    then, otherwise, yes, no = STRUCTURES[name]
    result = af.cond(pred, then, otherwise)
    assert await run([result], {pred: True}) == [yes]
    assert await run([result], {pred: False}) == [no]


async def test_with_strict_a_list_of_one_thing_stays_a_list(run, pred):
    assert await run(af.cond(pred, lambda: [1], lambda: [2], strict=True), {pred: True}) == [1]
    with pytest.raises(ValueError, match="differ in structure"):
        af.cond(pred, lambda: [1], lambda: 2, strict=True)


async def test_none_in_a_structure_stays_none(pred):
    result = af.cond(pred, lambda: [1, None], lambda: [2, None])
    assert result[1] is None


async def test_sparse_tensors_and_slices_come_out_as_what_they_are(run, pred):
    def sparse(*values):
        return af.SparseTensor([[0, i] for i in range(len(values))], list(values), [1, 3])

    def slices(*rows):
        return af.IndexedSlices(af.constant([[float(row)] for row in rows]), af.constant(rows))

    result = af.cond(pred, lambda: (sparse(1.0, 2.0), slices(1)), lambda: (sparse(3.0), slices(0, 2)))
    made, rows = await run(result, {pred: False})
    assert made.values.tolist() == [3.0]
    assert rows.indices.tolist() == [0, 2]
    assert (await run(result, {pred: True}))[0].indices.tolist() == [[0, 0], [0, 1]]


async def test_a_tensor_array_comes_out_of_the_branch_that_wrote_it(run, pred):
    def written(size, value):
        return af.TensorArray(af.float32, size).unstack([value] * size)

    stacked = af.cond(pred, lambda: written(2, 1.0), lambda: written(3, 2.0)).stack()
    assert (await run(stacked, {pred: True})).tolist() == [1.0, 1.0]
    assert (await run(stacked, {pred: False})).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("then", "otherwise", "known"),
    [
        ([2, 3], [2, 3], "[2, 3]"),
        ([2, 3], [2, 4], "[2, ?]"),
        ([2, 3], [2], "<unknown>"),
        ([], [], "[]"),
    ],
)
def test_what_is_known_of_the_shape_is_what_both_branches_share(then, otherwise, known, pred):
    assert str(af.cond(pred, lambda: af.zeros(then), lambda: af.zeros(otherwise)).shape) == known


# What a branch uses


async def test_a_branch_uses_all_that_is_around(run, pred):
    x, variable, fixed = af.placeholder(af.float32, [None]), af.Variable(3.0), af.constant([1.0, 2.0])
    result = af.cond(pred, lambda: x * variable, lambda: fixed)
    assert (await run(result, {pred: True, x: [1, 2, 3]})).tolist() == [3, 6, 9]
    assert (await run(result, {pred: False, x: [0]})).tolist() == [1, 2]


async def test_a_branch_may_return_what_it_was_given(run, pred):
    x = af.placeholder(af.float32, [2])
    result = af.cond(pred, lambda: x, lambda: (x, x * 2)[1])
    assert (await run(result, {pred: True, x: [1, 2]})).tolist() == [1, 2]
    both = af.cond(pred, lambda: [x, x], lambda: [x, x])
    assert np.array(await run(both, {pred: False, x: [1, 2]})).tolist() == [[1, 2], [1, 2]]


async def test_a_branch_two_levels_down_uses_what_is_around_both(run, pred):
    x = af.placeholder(af.float32, [])
    inner = af.placeholder(af.bool, [])
    result = af.cond(pred, lambda: af.cond(inner, lambda: x + 1, lambda: x + 2), lambda: x)
    assert await run(result, {pred: True, inner: False, x: 1}) == 3
    assert await run(result, {pred: False, inner: False, x: 1}) == 1


async def test_what_a_branch_captures_can_be_fed(run, pred):
    fixed = af.constant([1.0, 2.0])
    computed = fixed * 2.0
    result = af.cond(pred, lambda: (computed, fixed + 1.0), lambda: (fixed, fixed))
    taken = await run(result, {pred: True, computed: [7, 8], fixed: [5, 6]})
    assert [value.tolist() for value in taken] == [[7, 8], [6, 7]]


async def test_a_constant_is_not_fed_another_value_than_a_shape_in_a_branch_was_built_from(run, pred):
    size = af.constant(2)
    result = af.cond(pred, lambda: af.zeros([size]), lambda: af.ones([2]))
    assert result.shape == [2]
    with pytest.raises(ValueError, match="built from its value"):
        await run(result, {pred: True, size: 3})


async def test_a_variable_made_in_a_branch_is_made_once_for_all_runs(run, pred):
    def counted():
        count = af.get_variable("count", [], initializer=af.zeros_initializer())
        return count.assign_add(1.0)

    result = af.cond(pred, counted, lambda: -1.0)
    assert [await run(result, {pred: value}) for value in (True, False, True)] == [1, -1, 2]
    assert [variable.name for variable in af.global_variables()] == ["count:0"]


async def test_operations_in_a_branch_have_the_scopes_around(graph, pred):
    made = []
    with graph.name_scope("outer"), graph.device("/cpu:0"):
        af.cond(pred, lambda: made.append(af.exp(1.0)) or made[0], lambda: 1.0, name="choice")
    assert made[0].op.name == "outer/choice/true/exp"
    assert made[0].op.device == "/device:CPU:0"


# What runs


async def test_only_the_branch_that_is_taken_runs(run, pred):
    ran = []

    def noted(name):
        return light(af.constant(1.0), lambda value: ran.append(name) or value)

    result = af.cond(pred, lambda: noted("true"), lambda: noted("false"))
    await run(result, {pred: True})
    await run(result, {pred: False})
    assert ran == ["true", "false"]


async def test_an_error_in_the_other_branch_is_none(run, pred):
    x = af.constant(1.0)
    result = af.cond(pred, lambda: x * 2.0, lambda: failing(x, ValueError("not taken")))
    assert await run(result, {pred: True}) == 2.0
    with pytest.raises(af.errors.InvalidArgumentError, match="not taken"):
        await run(result, {pred: False})


async def test_reads_and_updates_around_and_in_branches_are_in_order(run, pred):
    variable = af.Variable(1.0)
    before = variable.read_value()
    inside = af.cond(pred, lambda: variable.assign_add(1.0), lambda: variable.read_value())
    between = variable.read_value()
    last = af.cond(pred, lambda: variable.read_value(), lambda: variable.assign(10.0))
    after = variable.read_value()
    fetches = [before, inside, between, last, after]
    assert await run(fetches, {pred: True}) == [1, 2, 2, 2, 2]
    assert await run(fetches, {pred: False}) == [2, 2, 2, 10, 10]


async def test_an_effect_happens_though_its_output_is_not_used(run, pred):
    variable = af.Variable(1.0)

    def changes():
        with af.control_dependencies([variable.assign_add(1.0)]):
            return af.constant(5.0), af.constant(6.0)

    _, second = af.cond(pred, lambda: (variable.assign_add(10.0), af.constant(7.0)), changes)
    assert await run([second, variable], {pred: True}) == [7, 1]
    assert await run(variable.value()) == 11
    assert await run(second, {pred: False}) == 6
    assert await run(variable.value()) == 12


async def test_a_control_dependency_on_an_operation_outside_holds_for_the_branch(run, pred):
    variable = af.Variable(1.0)
    update = variable.assign(5.0)
    seen = []

    def later():
        with af.control_dependencies([update.op]):
            return light(af.constant(1.0), lambda value: seen.append("branch") or value)

    result = af.cond(pred, later, lambda: 0.0)
    await run(result, {pred: True})
    assert seen == ["branch"]
    assert await run(variable.value()) == 5.0


async def test_unused_outputs_and_what_only_they_need_are_left_out_of_the_plan(graph, pred):
    x = af.placeholder(af.float32, [2])
    first, second = af.cond(pred, lambda: (af.exp(x), af.sin(x)), lambda: (af.tanh(x), af.cos(x)))
    gradient = af.gradients(first, x)[0]
    for fetches, absent in (([second], {"exp", "tanh"}), ([first], {"sin", "cos"}), ([gradient], {"sin", "cos"})):
        flow = make_flow(Signature((pred, x), tuple(fetches), ()))
        assert not absent & {inner.definition.name for node in flow.nodes for inner in node.everything()}


async def test_a_branch_that_is_not_known_needs_the_feeds_of_both(run, pred):
    x = af.placeholder(af.float32, [], name="x")
    result = af.cond(pred, lambda: x, lambda: 1.0)
    with pytest.raises(af.errors.InvalidArgumentError, match="'x' must be fed"):
        await run(result, {pred: False})


async def test_what_waits_in_a_branch_holds_back_nothing_else(graph, pred):
    gate = Gate()
    x = af.constant(1.0)
    seen = []
    result = af.cond(pred, lambda: gated(x, gate), lambda: x)
    beside = light(x, lambda value: seen.append("beside") or value)
    async with af.Session(graph=graph) as session:
        task = asyncio.create_task(session.run([result, beside], {pred: True}))
        await gate.arrived()
        await asyncio.sleep(0.01)
        assert seen == ["beside"]
        gate.open()
        assert await task == [1.0, 1.0]


async def test_a_run_cancelled_in_a_branch_that_waits_leaves_the_session_usable(graph, config, pred):
    gate = Gate()
    result = af.cond(pred, lambda: gated(af.constant(1.0), gate), lambda: 2.0)
    async with af.Session(graph=graph, config=config) as session:
        task = asyncio.create_task(session.run(result, {pred: True}))
        await gate.arrived()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(af.errors.DeadlineExceededError):
            await session.run(result, {pred: True}, af.RunOptions(timeout=0.1))
        assert await session.run(result, {pred: False}) == 2.0


async def test_an_error_in_a_branch_names_its_own_operation_line_and_shapes(run, pred):
    x = af.placeholder(af.int32, [], name="index")
    result = af.cond(pred, lambda: af.gather([1.0, 2.0], x, name="lookup"), lambda: 1.0)
    with pytest.raises(af.errors.InvalidArgumentError) as caught:
        await run(result, {pred: True, x: 9})
    assert caught.value.op == "cond/true/lookup"
    assert __file__ in caught.value.line
    assert caught.value.shapes == ("float32[2]", "int32[]")


async def test_traces_checks_callables_and_partial_runs_see_through_branches(graph, config, pred):
    x = af.placeholder(af.float32, [], name="x")
    result = af.cond(pred, lambda: af.log(x), lambda: af.exp(x))
    after = result + x
    async with af.Session(graph=graph, config=config) as session:
        metadata = af.RunMetadata()
        assert await session.run(result, {pred: False, x: 0}, af.RunOptions(trace=True), metadata) == 1.0
        names = {stats.name for stats in metadata.step_stats}
        assert "cond/false/exp" in names
        assert "cond/true/log" not in names
        with pytest.raises(af.errors.InvalidArgumentError) as caught:
            await session.run(result, {pred: True, x: 0}, af.RunOptions(check_numerics=True))
        assert caught.value.op == "cond/true/log"
        step = session.make_callable(after, [pred, x])
        assert [await step(value, 1.0) for value in (True, False)] == pytest.approx([1.0, np.e + 1.0])
        handle = await session.partial_run_setup([result, after], [pred, x])
        assert await session.partial_run(handle, result, {pred: True, x: 1.0}) == 0.0
        assert await session.partial_run(handle, after) == 1.0


# What is wrong


WRONG = {
    "Python's bool": (lambda p: af.cond(True, lambda: 1, lambda: 2), TypeError, "known now"),
    "an integer": (lambda p: af.cond(np.int32(1), lambda: 1, lambda: 2), TypeError, "one bool.*int32"),
    "a vector": (lambda p: af.cond(np.array([True]), lambda: 1, lambda: 2), ValueError, r"one bool.*\[1\]"),
    "no function": (lambda p: af.cond(p, 1, lambda: 2), TypeError, "true_fn must be a function"),
    "a missing function": (lambda p: af.cond(p, lambda: 2), TypeError, "false_fn must be a function"),
    "two names": (lambda p: af.cond(p, lambda: 1, lambda: 2, fn1=lambda: 3), TypeError, "two names"),
    "other structures": (lambda p: af.cond(p, lambda: [1, 2], lambda: [1, 2, 3]), ValueError, "2 items against 3"),
    "other classes": (lambda p: af.cond(p, lambda: [1, 2], lambda: (1, 2)), TypeError, "list against tuple"),
    "other keys": (lambda p: af.cond(p, lambda: {"a": 1}, lambda: {"b": 1}), ValueError, "'a'.*'b'"),
    "other dtypes": (lambda p: af.cond(p, lambda: 1, lambda: 1.0), ValueError, "int32.*float32.*cast"),
    "None": (lambda p: af.cond(p, lambda: None, lambda: None), ValueError, "returns None"),
    "None against a tensor": (lambda p: af.cond(p, lambda: [None, 1], lambda: [1, 1]), TypeError, "None.*a tensor"),
    "lists of other dtypes": (
        lambda p: af.cond(p, lambda: af.TensorArray(af.int32, 1), lambda: af.TensorArray(af.float32, 1)),
        TypeError, "int32 and float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_said_when_it_is_built_and_leaves_nothing(name, graph, pred):
    build, kind, text = WRONG[name]
    before = graph.get_operations(), graph.get_all_collection_keys()
    with pytest.raises(kind, match=text):
        build(pred)
    assert (graph.get_operations(), graph.get_all_collection_keys()) == before
    assert af.cond(pred, lambda: 1, lambda: 2, name="cond").op.name == "cond"


def test_a_branch_that_raises_half_way_leaves_the_graph_as_it_was(graph, pred):
    x = af.constant(1.0)

    def half():
        af.get_variable("weights", [2])
        af.exp(x)
        raise RuntimeError("half way")

    before = graph.get_operations()
    with pytest.raises(RuntimeError, match="half way"):
        af.cond(pred, lambda: x, half)
    assert graph.get_operations() == before
    assert af.global_variables() == []
    assert af.get_default_graph() is graph
    assert af.get_variable("weights", [2]).name == "weights:0"


@pytest.mark.parametrize(
    "use",
    [lambda t: t + 1.0, af.exp, lambda t: af.stack([t, t]), lambda t: af.gradients(t, t)],
    ids=["operator", "op", "list", "gradient"],
)
def test_a_tensor_of_a_branch_cannot_be_used_outside(use, pred):
    kept = []
    af.cond(pred, lambda: kept.append(af.exp(1.0)) or kept[0], lambda: 1.0)
    with pytest.raises(ValueError, match="must return it"):
        use(kept[0])
    with pytest.raises(ValueError, match="must return it"):
        af.cond(pred, lambda: use(kept[0]), lambda: 1.0)


async def test_a_tensor_of_a_branch_cannot_be_fetched_or_fed(run, pred):
    kept = []
    af.cond(pred, lambda: kept.append(af.exp(1.0)) or kept[0], lambda: 1.0)
    with pytest.raises(ValueError, match="inside a branch or loop, which must return it"):
        await run(kept[0])
    with pytest.raises((ValueError, TypeError), match="inside a branch or loop"):
        await run(pred, {kept[0]: 1.0})


async def test_a_branch_on_a_value_that_is_no_single_bool_says_so_in_the_run(run):
    test = af.placeholder(af.bool, None)
    result = af.cond(test, lambda: 1.0, lambda: 2.0, name="choice")
    assert await run(result, {test: True}) == 1.0
    with pytest.raises(af.errors.InvalidArgumentError):
        await run(result, {test: [True, False]})


async def test_what_waits_in_both_branches_in_a_row(run, pred):
    async def later(value):
        await asyncio.sleep(0.1)
        return value

    x = af.constant(1.0)
    result = af.cond(pred, lambda: waiting(waiting(x, later) + 1.0, later), lambda: waiting(x, later))
    assert [await run(result, {pred: value}) for value in (True, False)] == [2.0, 1.0]


# Nodes that no result needs


def unused_capture(z, x, pred):
    return af.cond(pred, lambda: (z * 2, x + 1)[1], lambda: x)


def unused_capture_of_a_branch_inside(z, x, pred):
    return af.cond(pred, lambda: (af.cond(x > 0, lambda: z, lambda: x), x + 1)[1], lambda: x)


def unused_capture_of_a_loop(z, x, pred):
    return af.while_loop(lambda i: i < 2, lambda i: (z * 2, i + 1)[1], [x])


def result_that_is_not_fetched(z, x, pred):
    return af.cond(pred, lambda: (x + 1, z), lambda: (x, z))[0]


def variable_of_a_loop_that_is_not_fetched(z, x, pred):
    return af.while_loop(lambda i, _: i < 2, lambda i, total: (i + 1, total + z), [x, af.constant(0.0)])[0]


def gradient(z, x, pred):
    return af.gradients(unused_capture(z, x, pred), x)[0] + 1


@pytest.mark.parametrize("build", [
    unused_capture, unused_capture_of_a_branch_inside, unused_capture_of_a_loop, result_that_is_not_fetched,
    variable_of_a_loop_that_is_not_fetched, gradient,
])  # fmt: skip
async def test_unneeded_nodes_of_a_body_are_neither_fed_nor_computed(run, pred, build):
    calls = collections.Counter()
    z = light(af.placeholder(af.float32, [], name="z"), lambda value: calls.update("z") or value)
    made = build(z, af.constant(1.0), pred)
    assert await run(made, {pred: True}) == 2.0
    assert not calls


async def test_a_placeholder_of_the_branch_not_taken_must_be_fed(run, pred):
    z = af.placeholder(af.float32, [], name="z")
    with pytest.raises(af.errors.InvalidArgumentError, match="placeholder 'z' must be fed"):
        await run(af.cond(pred, lambda: z * 2, lambda: af.constant(0.0)), {pred: False})
