"""What a run is fed: any tensor, converted once, checked before anything runs."""

import collections
import types

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from tests.support.doubles import light


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def run(graph):
    async with af.Session(graph=graph) as session:
        yield session.run


def spied(x):
    """The tensor `x`, and a list that its values are put on when a kernel reads them."""
    seen = []
    return light(x, lambda value: seen.append(value) or value), seen


# What may be fed


async def test_a_tensor_or_its_name_is_fed(run):
    x = af.placeholder(af.float32, [], name="x")
    y = x * 2.0
    assert await run(y, {x: 3.0}) == 6.0
    assert await run(y, {"x:0": 4.0}) == 8.0
    assert await run(y, {b"x:0": 5.0}) == 10.0


async def test_any_mapping_will_do(run):
    x = af.placeholder(af.float32, [], name="x")
    for feeds in (types.MappingProxyType({x: 3.0}), collections.OrderedDict(x=3.0), collections.ChainMap({x: 3.0})):
        feeds = feeds if "x" not in feeds else {"x:0": 3.0}
        assert await run(x * 2.0, feeds) == 6.0


async def test_an_intermediate_tensor_is_fed_and_what_it_was_made_from_does_not_run(run):
    x = af.placeholder(af.float32, [None])
    made, seen = spied(x)
    y = made + 1.0
    assert (await run(y, {made: [1.0, 2.0]})).tolist() == [2.0, 3.0]
    assert seen == []


async def test_one_output_of_several_is_fed_and_the_others_are_computed(run):
    first, second = af.split(af.constant([1.0, 2.0]), 2)
    both = af.concat([first, second], 0)
    assert (await run(both, {first: [9.0]})).tolist() == [9.0, 2.0]
    assert (await run(both, {second: [9.0]})).tolist() == [1.0, 9.0]
    assert (await run([second, first], {first: [9.0]}))[1].tolist() == [9.0]


async def test_a_constant_is_fed_if_nothing_was_built_from_its_value(run):
    scale, number, squared = af.constant(2.0), af.constant(3), af.constant(4)
    x = af.placeholder(af.float32, [])
    assert await run(x * scale, {x: 5.0, scale: 10.0}) == 50.0
    assert await run(x * scale, {x: 5.0}) == 10.0
    assert await run(squared * squared, {squared: 4}) == 16
    assert await run(af.cast(number, af.float32), {number: 7}) == 7.0


async def test_a_constant_that_shapes_were_built_from_keeps_its_value(run):
    sizes = af.constant([2, 3], name="sizes")
    filled = af.reshape(af.range(6), sizes)
    assert (await run(filled, {sizes: [2, 3]})).shape == (2, 3)
    with pytest.raises(ValueError, match=r"'sizes:0': other operations were built from its value \(2, 3\); build"):
        await run(filled, {sizes: [3, 2]})


async def test_a_shape_that_is_known_keeps_its_value(run):
    x = af.placeholder(af.float32, [2, None])
    shape = af.shape(x)
    flat = af.reshape(x, [shape[0] * shape[1]])
    ones = af.ones(shape)
    assert (await run(ones, {shape: [2, 7]})).shape == (2, 7)
    assert (await run(flat, {x: [[1.0], [2.0]]})).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="other operations were built from its value"):
        await run(ones, {shape: [3, 7]})


async def test_a_default_gives_way_to_what_is_fed(run):
    x = af.placeholder_with_default(af.constant([1.0]), [None])
    assert (await run(x + 1.0)).tolist() == [2.0]
    assert (await run(x + 1.0, {x: [1.0, 2.0]})).tolist() == [2.0, 3.0]


async def test_a_variable_is_loaded_by_feeding_its_initial_value(graph):
    counter = af.Variable(0)
    async with af.Session(graph=graph) as session:
        await counter.load(41, session)
        assert await session.run(counter + 1) == 42


async def test_a_read_may_be_fed(graph):
    v = af.Variable([1.0, 2.0])
    doubled = v * 2.0
    read = doubled.op.inputs[0]
    async with af.Session(graph=graph) as session:
        assert (await session.run(doubled, {read: [5.0, 6.0]})).tolist() == [10.0, 12.0]


async def test_a_tuple_of_tensors_is_fed_as_one(run, graph):
    state = af.nn.rnn_cell.BasicLSTMCell(2).zero_state(1, af.float32)
    depth = af.placeholder(af.float32, [])
    sums = [af.reduce_sum(part) + depth for part in state]
    assert await run(sums, {(state, depth): [([[1.0, 2.0]], [[3.0, 4.0]]), 0.5]}) == [3.5, 7.5]
    fetched = await run(state)
    assert await run(sums, {state: fetched, depth: 1.0}) == [1.0, 1.0]
    async with af.Session(graph=graph) as session:
        assert await session.make_callable(sums, [depth, state])(2.0, fetched) == [2.0, 2.0]
    with pytest.raises(TypeError, match="a tuple or list of 2 values"):
        await run(sums, {state: 1.0, depth: 1.0})
    with pytest.raises(ValueError, match="fed twice"):
        await run(sums, {state: fetched, state.c: fetched.c, depth: 1.0})


async def test_indexed_slices_are_fed_as_one(run):
    slices = af.IndexedSlices(
        af.placeholder(af.float32, [None, 1]), af.placeholder(af.int32, [None]), af.placeholder(af.int32, [2])
    )
    dense = af.convert_to_tensor(slices)
    value = af.IndexedSlicesValue(np.array([[1.0], [2.0]]), [0, 2], [3, 1])
    assert (await run(dense, {slices: value})).tolist() == [[1.0], [0.0], [2.0]]
    got = await run(slices, {slices: value})
    assert got.indices.tolist() == [0, 2]
    with pytest.raises(ValueError, match=r"stands for .* and was fed 2 values"):
        await run(dense, {slices: ([[1.0]], [0])})
    with pytest.raises(TypeError, match=r"cannot be fed 3\.0"):
        await run(dense, {slices: 3.0})


async def test_feeding_more_than_is_needed_is_no_error(run):
    x, y = af.placeholder(af.float32, []), af.placeholder(af.float32, [])
    assert await run(x + 1.0, {x: 1.0, y: 2.0}) == 2.0
    assert await run([], {y: 2.0}) == []


# Fed and fetched


async def test_what_is_fed_and_fetched_comes_back_converted(run):
    x = af.placeholder(af.float32, [None], name="x")
    got, twice, nothing = await run([x, x * 2.0, x.op], {x: [1, 2]})
    assert got.tolist() == [1.0, 2.0]
    assert got.dtype == np.float32
    assert twice.tolist() == [2.0, 4.0]
    assert nothing is None
    assert (await run(x, {"x:0": [3.0]})).tolist() == [3.0]
    assert type(await run(x[0], {x[0]: 3.0} | {x: [1.0]})) is np.float32


async def test_a_fed_constant_is_fetched_as_fed(run):
    c = af.constant(1.0)
    assert await run([c, c + 1.0], {c: 5.0}) == [5.0, 6.0]


# Conversion


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (af.float32, 1, 1.0),
        (af.float32, True, 1.0),
        (af.float32, np.array(2.5, object), 2.5),
        (af.int32, 1.0, 1),
        (af.int32, True, 1),
        (af.int32, np.float64(3.0), 3),
        (af.bool, 1, True),
        (af.bool, 0.0, False),
        (af.float32, np.float64(0.1), np.float32(0.1)),
        (af.float32, 1e300, np.inf),
        (af.float16, 1e10, np.inf),
        (af.float32, float("nan"), np.nan),
        (af.float64, 1e300, 1e300),
        (af.bfloat16, 1.5, ml_dtypes.bfloat16(1.5)),
        (af.complex64, 1 + 2j, 1 + 2j),
        (af.complex64, 1.0, 1 + 0j),
        (af.int8, 127, 127),
        (af.int64, 1 << 62, 1 << 62),
        (af.uint8, np.int64(255), 255),
        (af.bool, True, True),
        (af.bool, np.array(False), False),
        (af.string, "text", b"text"),
        (af.string, b"\xff", b"\xff"),
        (af.int8, 128, None),
        (af.uint8, -1, None),
        (af.int32, 1 << 31, None),
        (af.int32, 1.5, None),
        (af.int32, np.float64(1.5), None),
        (af.int32, np.array(1.5, object), None),
        (af.int32, 1 + 0j, None),
        (af.int32, "1", None),
        (af.float32, "1", None),
        (af.float32, 1j, None),
        (af.bool, 2, None),
        (af.uint8, 300, None),
        (af.string, 1, None),
        (af.float32, None, None),
        (af.float32, object(), None),
        (af.int32, 1 << 80, None),
    ],
)
async def test_a_number_takes_the_dtype_or_does_not_fit(run, dtype, value, expected):
    x = af.placeholder(dtype, [], name="x")
    for fetch in (af.identity(x), x):
        if expected is None:
            with pytest.raises(TypeError, match=f"cannot feed 'x:0' of {dtype.name}"):
                await run(fetch, {x: value})
            continue
        got = await run(fetch, {x: value})
        np.testing.assert_equal(got, expected)
        if dtype is not af.string:
            assert got.dtype == dtype.np


@pytest.mark.parametrize(
    "value", [[[1, 2], [3, 4]], ((1, 2), (3, 4)), np.array([[1, 2], [3, 4]]), [np.array([1, 2]), [3, 4]]]
)
async def test_nested_values_are_one_array(run, value):
    x = af.placeholder(af.float32, [2, None])
    assert (await run(x + 1.0, {x: value})).tolist() == [[2.0, 3.0], [4.0, 5.0]]


async def test_a_value_that_fits_is_not_copied(run):
    x = af.placeholder(af.float32, [None])
    y, seen = spied(x)
    for value in (np.ones(3, np.float32), np.ones((5, 2), np.float32)[:, 0], np.arange(6, dtype=np.float32)[::-2]):
        await run(y, {x: value})
        assert seen.pop() is value


async def test_a_subclass_of_array_is_taken_as_an_array(run):
    x = af.placeholder(af.float32, [None])
    y, seen = spied(x)
    await run(y, {x: np.ma.masked_array(np.ones(3, np.float32), [0, 1, 0])})
    assert type(seen.pop()) is np.ndarray


async def test_the_fed_array_is_never_written_to(run):
    x = af.placeholder(af.float32, [4])
    y = af.exp(af.negative(x)) + x
    value = np.ones(4, np.float32)
    value.flags.writeable = False
    for _ in range(3):
        await run(y, {x: value})
    assert value.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("shape", "value"),
    [([], [1.0]), ([2], 1.0), ([2], [1.0]), ([None, 2], [1.0, 2.0]), ([None, 2], [[1.0]]), ([3, None], [[1.0, 2.0]])],
)
async def test_a_shape_that_does_not_fit_is_refused_naming_both(run, shape, value):
    x = af.placeholder(af.float32, shape, name="x")
    given = list(np.shape(value))
    with pytest.raises(ValueError, match="cannot feed a value of shape") as caught:
        await run(x + 1.0, {x: value})
    assert f"shape {given} for 'x:0', which has shape {x.shape}" in str(caught.value)
    assert "test_feeds.py:" in str(caught.value)


async def test_an_open_shape_takes_every_size_from_run_to_run(run):
    x, anything = af.placeholder(af.float32, [None, 2]), af.placeholder(af.float32)
    for rows in (3, 0, 1, 3):
        assert (await run(x + 1.0, {x: np.zeros((rows, 2))})).shape == (rows, 2)
    for shape in ((), (3,), (0, 2), (1, 2, 3)):
        assert (await run(anything + 1.0, {anything: np.zeros(shape)})).shape == shape


# What may not be fed


@pytest.fixture
def counter(graph):
    return af.Variable(0, name="counter")


@pytest.mark.parametrize(
    ("feeds", "error", "text"),
    [
        (lambda g, v: {g: 1}, TypeError, "is neither a tensor nor an operation"),
        (lambda g, v: {None: 1}, TypeError, "cannot feed None: None of type NoneType is neither"),
        (lambda g, v: {v: 1}, TypeError, "a variable cannot be fed: <af.Variable 'counter"),
        (lambda g, v: {v.handle: 1}, ValueError, "'counter:0' is a handle and cannot be fed; feed what is read"),
        (lambda g, v: {"x": 1}, ValueError, "'x' names an operation; a tensor's name is 'x:0'"),
        (lambda g, v: {"y:0": 1}, ValueError, "the graph has no operation 'y' (asked for 'y:0')"),
        (lambda g, v: {"x:7": 1}, ValueError, "there is no 'x:7'"),
        (lambda g, v: {x_of(g).op: 1}, TypeError, "cannot feed the operation 'x'; feed one of its outputs: 'x:0'"),
        (lambda g, v: {x_of(g): 1, "x:0": 2}, ValueError, "'x:0' is fed twice"),
        (lambda g, v: {elsewhere(): 1}, ValueError, "is not an element of this graph"),
        (lambda g, v: [(x_of(g), 1)], TypeError, "a dict from tensors, or their names, to values, not a list"),
        (lambda g, v: np.ones(3), TypeError, "not a ndarray"),
        (lambda g, v: {x_of(g): x_of(g)}, TypeError, "cannot be fed <af.Tensor 'x:0' float32[]>, which a graph holds"),
        (lambda g, v: {x_of(g): v}, TypeError, "'x:0' cannot be fed <af.Variable 'counter"),
        (lambda g, v: {x_of(g): x_of(g).op}, TypeError, "'x:0' cannot be fed <af.Operation 'x' (placeholder)>"),
        (lambda g, v: {x_of(g): [[1.0], [2.0, 3.0]]}, ValueError, "cannot be made into one array"),
    ],
)
async def test_bad_feeds_are_refused_and_nothing_runs(graph, counter, feeds, error, text):
    x = af.placeholder(af.float32, [], name="x")
    both = [counter.assign_add(1), x]
    async with af.Session(graph=graph) as session:
        await session.run(counter.initializer)
        with pytest.raises(error) as caught:
            await session.run(both, feeds(graph, counter))
        assert text in str(caught.value)
        assert await session.run(counter) == 0


def x_of(graph):
    return graph.get_tensor_by_name("x:0")


def elsewhere():
    with af.Graph().as_default():
        return af.placeholder(af.float32)


async def test_what_the_graph_protects_is_not_fed(run, graph):
    x = af.placeholder(af.float32, [], name="x")
    graph.prevent_feeding(x)
    with pytest.raises(ValueError, match=r"'x:0' may not be fed(.|\n)*test_feeds\.py:\d+ in test_what"):
        await run(x + 1.0, {x: 1.0})


async def test_a_missing_feed_is_refused_before_anything_runs(graph, counter):
    x = af.placeholder(af.float32, [None, 3], name="x")
    both = [counter.assign_add(1), x * 2.0]
    async with af.Session(graph=graph) as session:
        await session.run(counter.initializer)
        with pytest.raises(af.errors.InvalidArgumentError) as caught:
            await session.run(both)
        text = str(caught.value)
        assert "placeholder 'x' must be fed a value of float32[?, 3]: pass feeds={x: ...}" in text
        assert "test_feeds.py:" in text
        assert caught.value.op == "x"
        with pytest.raises(af.errors.InvalidArgumentError, match="placeholder 'x' must be fed"):
            session.make_callable(both)
        assert await session.run(counter) == 0


async def test_only_what_is_needed_must_be_fed(run):
    x, y = af.placeholder(af.float32), af.placeholder(af.float32)
    made = x * 2.0
    assert await run(y + 1.0, {y: 1.0}) == 2.0
    assert await run(made + y, {made: 1.0, y: 1.0}) == 2.0
    with af.get_default_graph().control_dependencies([made]):
        after = af.constant(1.0)
    with pytest.raises(af.errors.InvalidArgumentError, match="must be fed"):
        await run(after)
