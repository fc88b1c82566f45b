"""Variables: what they are called, when they have a value, what a read sees, how they are updated and shared."""

import operator
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.context import Context
from aioflow.kernels.state import variables as kernels
from aioflow.library.embedding import embedding_lookup
from aioflow.library.variables import Variable
from aioflow.resources.containers import Resources, VariableState
from aioflow.tensors.dtypes import DeviceKind, Spec


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


@pytest.fixture
def context():
    class Step:
        journal = None

        def check(self):
            pass

    return Context(np, Resources(), Step())


def kernel_of(op):
    """The op's kernel for the CPU as it is called."""
    (kernel,) = op.kernels[DeviceKind.CPU]
    return kernel.function(np, None) if kernel.binds else kernel.function


async def initialized(session):
    await session.run(af.variables_initializer(session.graph.get_collection(af.GraphKeys.GLOBAL_VARIABLES)))


# Building


def test_a_variable_is_named_by_its_handle_and_has_its_operations_beneath(graph):
    w = af.Variable([1.0, 2.0], name="w")
    assert (w.name, w.op.name, w.op.type, w.graph) == ("w:0", "w", "variable", graph)
    assert (w.initial_value.name, w.initializer.name) == ("w/initial_value:0", "w/assign")
    assert graph.as_graph_element(w).name == "w/read:0"
    assert repr(w) == "<af.Variable 'w:0' float32[2]>"


def test_names_are_made_unique_and_scopes_count(graph):
    first = af.Variable(0)
    with graph.name_scope("layer"):
        second, third = af.Variable(0, name="w"), af.Variable(0, name="w")
    assert [v.name for v in (first, second, third)] == ["Variable:0", "layer/w:0", "layer/w_1:0"]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.5, None, "float32[]"),
        ([1, 2], None, "int32[2]"),
        ([1, 2], af.float64, "float64[2]"),
        (np.zeros((2, 0)), None, "float64[2, 0]"),
        (np.zeros(2), af.float32, "float32[2]"),
        (["a"], None, "string[1]"),
        (lambda: af.zeros([3]), None, "float32[3]"),
        (lambda: [True], None, "bool[1]"),
    ],
)
def test_dtype_and_shape_come_from_the_initial_value(graph, value, dtype, expected):
    w = af.Variable(value, dtype=dtype)
    assert str(kernels.held(w.handle.spec)) == expected
    assert (w.dtype, w.shape, w.get_shape()) == (w.initial_value.dtype, w.initial_value.shape, w.initial_value.shape)


def test_a_function_builds_the_initial_value_under_the_variable_and_on_its_device(graph):
    with graph.device("/gpu:0"), graph.control_dependencies([af.no_op()]):
        w = af.Variable(lambda: af.ones([2], name="ones"), name="w")
    assert w.initial_value.op.name == "w/ones"
    assert (w.device, w.initial_value.device) == ("/device:GPU:0", "")
    assert w.initial_value.op.colocation == ("w",)
    assert all(not op.control_inputs for op in graph.get_operations())


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: af.Variable(), ValueError, "needs an initial_value"),
        (lambda: af.Variable(af.placeholder(af.float32, [None]), name="w"), ValueError, r"'w' has shape \[\?\]"),
        (lambda: af.Variable(lambda: af.placeholder(af.float32)), ValueError, "validate_shape=False"),
        (lambda: af.Variable([1.5], dtype=af.int32), TypeError, "int32"),
        (lambda: af.Variable(af.constant(1.0), dtype=af.int32), TypeError, "int32"),
        (lambda: af.Variable([1.0], expected_shape=[2], name="w"), ValueError, r"'w' has shape \[1\], not \[2\]"),
        (lambda: af.Variable(1.0, collections="variables"), ValueError, "list of names"),
        (lambda: af.Variable(1.0, constraint=1), ValueError, "constraint"),
        (lambda: af.Variable(1.0, name="a b"), ValueError, "a b"),
        (lambda: af.Variable(1.0, variable_def={}), ValueError, "exclude"),
    ],
)
def test_what_cannot_be_a_variable_is_refused_and_leaves_nothing(graph, build, error, text):
    with pytest.raises(error, match=text):
        build()
    assert [op for op in graph.get_operations() if op.type != "placeholder" and op.type != "constant"] == []
    assert graph.get_collection(af.GraphKeys.GLOBAL_VARIABLES) == []
    assert af.Variable(1.0, name="w").name == "w:0"


def test_collections_say_what_is_kept_and_what_is_trained(graph):
    a, b = af.Variable(0.0, name="a"), af.Variable(0.0, trainable=False, name="b")
    c = af.Variable(0.0, trainable=False, collections=[af.GraphKeys.LOCAL_VARIABLES])
    assert af.global_variables() == [a, b]
    assert af.trainable_variables() == [a]
    assert af.local_variables() == [c]
    assert af.global_variables("b") == [b]
    assert (a.trainable, b.trainable) == (True, False)


def test_a_variable_is_found_again_in_a_graph_that_was_imported(graph):
    w = af.Variable(1.0, trainable=False, name="scope/w")
    plain = w.to_proto()
    again = Variable.from_proto(plain)
    parts = ("handle", "initial_value", "initializer", "trainable", "name")
    assert [getattr(again, part) for part in parts] == [getattr(w, part) for part in parts]
    assert Variable.from_proto(w.to_proto("scope"), "scope").handle is w.handle
    assert w.to_proto("other") is None
    with pytest.raises(KeyError):
        Variable(variable_def=plain, import_scope="elsewhere")


# Initializing


async def test_reading_before_the_initializer_ran_names_the_variable(session):
    w = af.Variable(1.0, name="weights")
    for fetch in (w, w + 1, w.assign_add(1.0), w.sparse_read(0) if w.shape.ndims else w):
        with pytest.raises(af.errors.FailedPreconditionError, match="'weights' is not initialized"):
            await session.run(fetch)


async def test_one_variable_may_begin_from_another(session):
    a = af.Variable(af.random_uniform([3]), name="a")
    b = af.Variable(a + 1.0)
    c = af.Variable(a.initialized_value() * 2.0)
    await session.run(af.global_variables_initializer())
    first, second, third = await session.run([a, b, c])
    np.testing.assert_array_equal(second, first + 1)
    np.testing.assert_array_equal(third, first * 2)


async def test_initialized_value_is_the_value_once_there_is_one(session):
    w = af.Variable(1.0)
    seen = w.initialized_value()
    assert await session.run(seen) == 1.0
    await w.load(5.0, session)
    assert await session.run(seen) == 5.0


async def test_the_uninitialized_are_reported_by_name(session):
    a, b = af.Variable(1.0, name="a"), af.Variable(1.0, name="b")
    missing, known = af.report_uninitialized_variables(), af.is_variable_initialized(a)
    assert (await session.run(missing)).tolist() == [b"a", b"b"]
    await session.run(a.initializer)
    assert (await session.run(missing)).tolist() == [b"b"]
    assert await session.run(known)
    assert (await session.run(af.report_uninitialized_variables([a]))).tolist() == []
    assert (await session.run(af.report_uninitialized_variables([]))).tolist() == []
    await session.run(b.initializer)
    assert (await session.run(missing)).dtype == object


async def test_initializing_nothing_is_an_operation_too(session):
    assert await session.run(af.local_variables_initializer()) is None


# Reading


async def test_a_read_sees_the_updates_built_before_it_and_no_later_ones(session):
    w = af.Variable([1.0, 2.0])
    await initialized(session)
    before = w * 1.0
    grown = w.assign_add([1.0, 1.0])
    between = w + 0.0
    doubled = w.assign_mul([2.0, 2.0])
    after = w.value()
    values = await session.run([after, doubled, between, grown, before, w])
    assert [value.tolist() for value in values] == [[4, 6], [4, 6], [2, 3], [2, 3], [1, 2], [1, 2]]


async def test_a_value_that_was_fetched_stays_what_it_was(session):
    w = af.Variable(np.zeros(1000, np.float32))
    await initialized(session)
    grow, read = w.assign_add(np.ones(1000)), w.read_value()
    seen = [await session.run(fetch) for fetch in (w, grow, read, grow, w)]
    assert [value[0] for value in seen] == [0, 1, 1, 2, 2]
    assert [value.max() for value in seen] == [0, 1, 1, 2, 2]


BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("name", BINARY)
async def test_operators_are_those_of_tensors(session, name):
    apply, value = getattr(operator, name), np.array([2.0, 3.0])
    w = af.Variable(value)
    await initialized(session)
    results = [apply(w, 2.0), apply(2.0, w), apply(w, w), apply(af.constant(value), w), apply(value, w)]
    expected = [apply(value, 2.0), apply(2.0, value), apply(value, value), apply(value, value), apply(value, value)]
    for ours, theirs in zip(await session.run(results), expected, strict=True):
        np.testing.assert_allclose(ours, theirs)


async def test_more_operators_are_those_of_tensors(session):
    m, i, b = af.Variable(np.diag([1.0, -2.0])), af.Variable([1, 6]), af.Variable([True, False])
    await initialized(session)
    results = [m @ m, np.eye(2) @ m, -m, abs(m), m[1], m[:, 0], i & 3, 3 | i, i ^ i, ~b]
    values = await session.run(results)
    expected = [
        np.diag([1.0, 4.0]), np.diag([1.0, -2.0]), np.diag([-1.0, 2.0]), np.diag([1.0, 2.0]), [0, -2], [1, 0],
        [1, 2], [3, 7], [0, 0], [False, True],
    ]  # fmt: skip
    for ours, theirs in zip(values, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_operator_that_fails_leaves_no_read_behind(graph):
    w = af.Variable([1.0, 2.0])
    before = graph.version
    for build in (lambda: w + np.ones(3), lambda: w["a"], lambda: w & w, lambda: w.assign_add([1.0, 2.0, 3.0])):
        with pytest.raises((TypeError, ValueError)):
            build()
    assert graph.version == before


def test_a_variable_is_no_truth_and_no_sequence(graph):
    w = af.Variable([1.0])
    with pytest.raises(TypeError, match="truth"):
        bool(w)
    with pytest.raises(TypeError, match="iterated"):
        list(w)


async def test_eval_and_load_use_the_default_session(session):
    w = af.Variable(1.0)
    with session.as_default():
        await w.load(3.0)
        assert await w.eval() == 3.0
    await session.close()
    with pytest.raises(RuntimeError, match="closed"):
        await w.eval()


def test_operations_are_built_on_the_variables_device_and_in_its_graph(graph):
    with graph.device("/cpu:0"):
        w = af.Variable([1.0], name="w")
    with af.Graph().as_default(), graph.device("/gpu:0"):
        built = [w.value(), w.assign([2.0]), w.sparse_read([0]), w.initialized_value()]
    assert {tensor.graph for tensor in built} == {graph}
    assert {(tensor.device, tensor.op.colocation) for tensor in built} == {("", ("w",))}


# Updating


def slices(values, indices):
    return af.IndexedSlices(af.constant(values, af.float64), indices)


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (lambda w: w.assign([5, 6]), [5, 6]),
        (lambda w: w.assign_add([1, 2]), [2, 4]),
        (lambda w: w.assign_add(1), [2, 3]),
        (lambda w: w.assign_sub([1, 2]), [0, 0]),
        (lambda w: w.assign_mul(3), [3, 6]),
        (lambda w: af.assign(w, [7, 8]), [7, 8]),
        (lambda w: af.assign_add(w, [7, 8]), [8, 10]),
        (lambda w: af.assign_sub(w, [7, 8]), [-6, -6]),
        (lambda w: w.scatter_update(af.IndexedSlices(af.constant([9.0], af.float64), [1])), [1, 9]),
        (lambda w: w.scatter_add(af.IndexedSlices(af.constant([1.0, 2.0], af.float64), [1, 1])), [1, 5]),
        (lambda w: w.scatter_sub(af.IndexedSlices(af.constant([1.0, 2.0], af.float64), [1, 1])), [1, -1]),
        (lambda w: w.scatter_mul(slices([3.0, 2.0], [1, 1])), [1, 12]),
        (lambda w: w.scatter_div(slices([4.0], [1])), [1, 0.5]),
        (lambda w: w.scatter_min(slices([0.0, 7.0], [0, 1])), [0, 2]),
        (lambda w: w.scatter_max(slices([0.0, 7.0], [0, 1])), [1, 7]),
        (lambda w: w.scatter_nd_update([[1]], [7.0]), [1, 7]),
        (lambda w: w.scatter_nd_add([[1], [1]], [7.0, 1.0]), [1, 10]),
        (lambda w: w.scatter_nd_sub([[0]], [7.0]), [-6, 2]),
        (lambda w: af.scatter_update(w, 0, 9), [9, 2]),
        (lambda w: af.scatter_add(w, [0, 0, 1], [1, 2, 3]), [4, 5]),
        (lambda w: af.scatter_sub(w, [], np.zeros(0)), [1, 2]),
    ],
)
async def test_an_update_gives_the_new_value_and_keeps_it(session, update, expected):
    w = af.Variable([1, 2], dtype=af.float64)
    await initialized(session)
    assert (await session.run(update(w))).tolist() == expected
    assert (await session.run(w)).tolist() == expected


@pytest.mark.parametrize("shared", [False, True])
async def test_rows_are_added_whatever_their_rank_and_however_often_they_are_named(session, shared):
    start, updates = np.arange(24.0).reshape(4, 3, 2), np.arange(18.0).reshape(3, 3, 2)
    w = af.Variable(start)
    await initialized(session)
    held = await session.run(w) if not shared else None
    added, taken = af.scatter_add(w, [1, 3, 1], updates), af.scatter_sub(w, [[1, 1], [0, 1]], 1.0)
    expected = start.copy()
    np.add.at(expected, [1, 3, 1], updates)
    np.testing.assert_array_equal(await session.run(added), expected)
    np.subtract.at(expected, [1, 1, 0, 1], 1.0)
    np.testing.assert_array_equal(await session.run(taken), expected)
    assert held is None or held[1, 0, 0] == start[1, 0, 0]


def test_an_update_need_not_be_read(graph):
    w = af.Variable(1.0)
    assert isinstance(w.assign(2.0, read_value=False), af.Operation)
    assert w.assign(2.0, name="later").name == "later:0"


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda w: w.assign([1.0, 2.0, 3.0]), ValueError, r"\[2\]"),
        (lambda w: w.assign_add(np.zeros((3, 2))), ValueError, "cannot update a variable"),
        (lambda w: w.assign_sub([1.0]), ValueError, r"a value of shape \[1\] cannot update a variable of shape \[2\]"),
        (lambda w: w.assign("a"), TypeError, "float32"),
        (lambda w: w.assign(af.constant(1)), TypeError, "int32"),
        (lambda w: w.scatter_add([1.0]), TypeError, "IndexedSlices"),
        (lambda w: af.scatter_add(w, [0.5], [1.0]), TypeError, "float32"),
        (lambda w: af.scatter_add(w, [0, 1], [1.0]), ValueError, "not compatible"),
        (lambda w: af.scatter_add(af.Variable(1.0), [0], [1.0]), ValueError, "no rows"),
        (lambda w: af.assign(w.value(), 1.0), TypeError, "only a variable can be assigned"),
        (lambda w: w.sparse_read([0.5]), TypeError, "float32"),
    ],
)
def test_updates_that_cannot_fit_are_refused_when_they_are_built(graph, build, error, text):
    w = af.Variable([1.0, 2.0], name="w")
    with pytest.raises(error, match=text):
        build(w)


async def test_an_update_is_of_the_shape_of_the_variable_or_one_number(graph):
    w, delta = af.Variable([1.0, 2.0], name="w"), af.placeholder(af.float32)
    added = w.assign_add(delta)
    async with af.Session(graph=graph) as session:
        await session.run(w.initializer)
        assert (await session.run(added, {delta: 1.0})).tolist() == [2, 3]
        with pytest.raises(af.errors.InvalidArgumentError, match=r"shape \[1\] cannot update 'w' of shape \[2\]"):
            await session.run(added, {delta: [1.0]})
        assert (await session.run(added, {delta: [0.0, 1.0]})).tolist() == [2, 4]


@pytest.mark.parametrize(
    ("update", "values"),
    [(af.scatter_add, [b"a"]), (af.scatter_sub, [True]), (af.scatter_mul, [b"a"]), (af.scatter_max, [1j])],
)
def test_rows_without_arithmetic_are_refused(graph, update, values):
    w = af.Variable(values)
    with pytest.raises(TypeError, match="is not supported"):
        update(w, [0], values)


def test_a_variable_that_is_combined_on_read_is_not_trainable(graph):
    v = af.Variable(1.0, synchronization=af.VariableSynchronization.ON_READ, aggregation=af.VariableAggregation.SUM)
    assert (v.trainable, v.synchronization, v.aggregation) == (
        False, af.VariableSynchronization.ON_READ, af.VariableAggregation.SUM,
    )  # fmt: skip
    v.set_shape([])
    with pytest.raises(ValueError, match="not compatible"):
        v.set_shape([3])


async def test_rows_that_do_not_exist_are_named(session):
    w = af.Variable([[1.0], [2.0]], name="table")
    index = af.placeholder(af.int32, [None])
    await initialized(session)
    for build in (lambda: w.sparse_read(index), lambda: af.scatter_add(w, index, 1.0)):
        fetch = build()
        for stray in (-1, 2):
            with pytest.raises(af.errors.InvalidArgumentError, match=f"index {stray} .* 'table' with 2 rows"):
                await session.run(fetch, {index: [0, stray]})
    assert (await session.run(w)).tolist() == [[1.0], [2.0]]


async def test_a_variable_of_open_shape_holds_values_of_any(session):
    w = af.Variable(af.placeholder_with_default([1.0], [None]), validate_shape=False)
    value = af.placeholder(af.float32)
    await initialized(session)
    grown, read = w.assign(value), w * 2.0
    assert read.shape.ndims is None
    assert (await session.run(read, {value: 0.0})).tolist() == [2.0]
    assert (await session.run([grown, read], {value: [[1.0, 2.0]]}))[1].tolist() == [[2.0, 4.0]]


async def test_a_run_cannot_give_a_fixed_shape_another(session):
    w = af.Variable([1.0, 2.0], name="w")
    value = af.placeholder(af.float32)
    await initialized(session)
    for update in (w.assign(value), w.assign_add(value)):
        with pytest.raises(af.errors.InvalidArgumentError):
            await session.run(update, {value: [1.0, 2.0, 3.0]})
    assert (await session.run(w)).tolist() == [1.0, 2.0]


async def test_scalars_stay_arrays_that_can_be_updated(session):
    w = af.Variable(np.int64(0))
    await initialized(session)
    grow = w.assign_add(1)
    assert [await session.run(grow) for _ in range(3)] == [1, 2, 3]
    assert await session.run([grow, w]) == [4, 3]
    assert await session.run(w) == 4


# Gradients


async def test_the_gradient_of_rows_is_slices_and_reaches_the_variable(session):
    w = af.Variable(np.arange(8.0).reshape(4, 2))
    await initialized(session)
    rows = embedding_lookup(w, [[1, 3], [1, 0]])
    assert rows.shape == [2, 2, 2]
    (gradient,) = af.gradients(af.reduce_sum(rows * rows), w)
    assert isinstance(gradient, af.IndexedSlices)
    values, indices, sizes = await session.run(gradient)
    assert (indices.tolist(), sizes.tolist()) == ([1, 3, 1, 0], [4, 2])
    np.testing.assert_array_equal(values, 2 * np.arange(8.0).reshape(4, 2)[[1, 3, 1, 0]])
    dense = await session.run(af.convert_to_tensor(gradient))
    np.testing.assert_array_equal(dense, [[0, 2], [8, 12], [0, 0], [12, 14]])


async def test_the_gradient_of_rows_of_open_shape_is_slices_too(session):
    w = af.Variable(af.placeholder_with_default(np.ones((3, 2)), [None, None]), validate_shape=False)
    await initialized(session)
    rows = w.sparse_read([[2, 0]])
    (gradient,) = af.gradients(rows * rows, w)
    values, indices, sizes = await session.run(gradient)
    assert (values.tolist(), indices.tolist(), sizes.tolist()) == ([[2, 2], [2, 2]], [2, 0], [3, 2])


async def test_every_read_counts_in_a_gradient(session):
    w = af.Variable([1.0, 2.0])
    await initialized(session)
    (gradient,) = af.gradients(af.reduce_sum(w * w) + af.reduce_sum(w), w)
    assert (await session.run(gradient)).tolist() == [3.0, 5.0]


async def test_a_table_is_one_variable_or_tensor_or_divided_between_several(session):
    w = af.Variable([[1.0, 2.0], [3.0, 4.0]])
    v = af.Variable([[5.0, 6.0], [7.0, 8.0]])
    await initialized(session)
    assert embedding_lookup([w], [0]).op.type == "gather_variable"
    assert embedding_lookup(np.ones((2, 2)), [0]).shape == [1, 2]
    rows = embedding_lookup([w, v], [3, 0, 1])
    assert [type(part) for part in af.gradients(rows, [w, v])] == [af.IndexedSlices] * 2
    assert (await session.run(rows)).tolist() == [[7, 8], [1, 2], [5, 6]]


async def test_rows_longer_than_a_norm_are_shortened_to_it(session):
    w = af.Variable([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    await initialized(session)
    rows = embedding_lookup(w, [0, 1, 2, 0], max_norm=1.0)
    (gradient,) = af.gradients(rows, w)
    values, slopes = await session.run([rows, gradient])
    np.testing.assert_allclose(values, [[0.6, 0.8], [0.3, 0.4], [0, 0], [0.6, 0.8]], rtol=1e-6)
    assert np.isfinite(slopes.values).all()
    with pytest.raises(ValueError, match="known rank"):
        embedding_lookup(af.placeholder(af.float32), [0], max_norm=1.0)


# Containers


async def test_a_named_container_is_shared_by_sessions_and_the_default_one_is_not(graph):
    with graph.container("test_variables_shared"):
        shared = af.Variable(1.0, name="shared")
    own = af.Variable(1.0, name="own")
    assert shared.op.attrs["container"] == "test_variables_shared"
    async with af.Session(graph=graph) as first, af.Session(graph=graph) as second:
        await first.run([shared.initializer, own.initializer])
        assert await second.run(shared) == 1.0
        await second.run(shared.assign(2.0))
        assert await first.run(shared) == 2.0
        with pytest.raises(af.errors.FailedPreconditionError, match="'own'"):
            await second.run(own)


# States


def test_an_array_is_changed_in_place_only_while_nobody_else_holds_it():
    state = VariableState("w", Spec(af.float64, af.TensorShape([3])))
    state.assign(np.zeros(3))
    first = id(state.read())
    assert id(state.change(lambda value: np.add(value, 1.0, out=value))) == first
    held = state.read()
    view = state.change(lambda value: np.add(value, 1.0, out=value))[1:]
    state.change(lambda value: np.add(value, 1.0, out=value))
    assert (held.tolist(), view.tolist(), state.read().tolist()) == ([1, 1, 1], [2, 2], [3, 3, 3])


def test_the_memory_of_a_value_that_was_held_is_used_again_once_it_is_not():
    state = VariableState("w", Spec(af.float64, af.TensorShape([3])))
    state.assign(np.zeros(3))
    first = state.read()

    def add_one():
        array, source = state.draft(np)
        np.add(array if source is None else source, 1.0, out=array)
        state.settle(array)

    add_one()
    second = state.read()
    add_one()  # the first is held still
    assert [first.tolist(), second.tolist(), state.read().tolist()] == [[0] * 3, [1] * 3, [2] * 3]
    place, second = id(second), None
    third = state.read()
    add_one()
    assert (id(state.read()), third.tolist(), first.tolist()) == (place, [2] * 3, [0] * 3)
    state.release()
    assert state._spare is None


@pytest.mark.real
def test_updates_from_many_threads_are_all_counted_and_no_read_is_torn(context):
    state = VariableState("w", Spec(af.float64, af.TensorShape([20_000])))
    state.assign(np.zeros(20_000))
    add, read = kernel_of(kernels.assign_add_variable), kernel_of(kernels.read_variable)
    torn = []

    def work():
        for _ in range(200):
            add(context, state, np.float64(1.0))
            value = read(state)
            torn.append(value[0] != value[-1] or (value != value.copy()).any())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (state.read() == 800).all()
    assert not any(torn)
