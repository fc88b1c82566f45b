"""Lists of tensors are fed and fetched as Python lists, in one process and over a cluster."""

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.config import RunOptions
from aioflow.kernels.array.constants import identity
from aioflow.kernels.control.tensor_lists import tensor_list_empty
from aioflow.net.wire.limits import Limits, check_sizes
from aioflow.runtime import call
from aioflow.runtime.lists import is_large
from aioflow.tensors.tensor_list import TensorList
from aioflow.testing import SimulatedCluster

ROWS = [np.ones((2, 2), np.float32), np.zeros((0, 2), np.float32), np.full((1, 2), 3, np.float32)]


def assert_same_lists(found, wanted):
    """Both are lists of arrays with equal dtypes, shapes and elements."""
    assert isinstance(found, list)
    assert [(each.dtype, each.shape) for each in found] == [(each.dtype, each.shape) for each in wanted]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


async def test_a_list_of_any_length_is_fed_computed_with_and_fetched(session):
    given = af.TensorArray.placeholder(af.float32, [None, 2], name="given")
    whole, count = given.concat(), given.size()
    longer = given.write(count, whole)
    (slopes,) = af.gradients(af.reduce_sum(whole * whole), given.flow)
    step = session.make_callable([count, longer, slopes], feeds=[given])
    for rows in (ROWS, [each.tolist() for each in ROWS[:1]], tuple(ROWS[:1])):
        found, made, gradient = await step(rows)
        arrays = [np.asarray(row, np.float32).reshape(-1, 2) for row in rows]
        assert found == len(rows)
        assert_same_lists(made, [*arrays, np.concatenate(arrays)])
        assert_same_lists(gradient, [2 * each for each in arrays])
    assert_same_lists(await session.run(given.flow, {"given:0": ROWS}), ROWS)


async def test_a_slot_without_a_tensor_is_none(session):
    given = af.TensorArray.placeholder(af.float32, [])
    array = af.TensorArray(af.float32, 3, element_shape=[]).write(1, 5.0)
    cleared = af.TensorArray(af.float32, 1).write(0, 1.0)
    fetches = [array, given, given.read(1), cleared.read(0), cleared]
    assert await session.run(fetches, {given: [None, 7.0]}) == [[None, 5, None], [None, 7], 7, 1, [None]]
    with pytest.raises(errors.ResourceExhaustedError, match="5,000,000 slots are not written"):
        await session.run(af.TensorArray(af.float32, 5_000_000))


async def test_fetched_elements_are_the_callers_own(session):
    given = af.TensorArray.placeholder(af.float32)
    both = [given, given.identity(), given.identity()]
    fetched = [*await session.run(both, {given: ROWS[:1]}), ROWS[:1]]
    for own in fetched[:3]:
        own[0] += 1
    assert [each[0].flat[0] for each in fetched] == [2, 2, 2, 1]


async def test_intermediate_and_nested_lists_are_fed(session):
    array = af.TensorArray(af.int32, 2, clear_after_read=False, element_shape=[]).unstack([1, 2])
    total = af.reduce_sum(array.stack())
    assert await session.run(total, {array: [3, 4]}) == 7
    with pytest.raises(ValueError, match="it has 2 slots, and 3 elements are given"):
        await session.run(total, {array: [1, 2, 3]})
    nested = tensor_list_empty(af.float32, af.TensorShape([]), depth=2)
    assert await session.run([nested, identity(nested)], {nested: [[1.0], [2.0, None]]}) == [[[1], [2, None]]] * 2
    with pytest.raises(TypeError, match="element 1: it takes a Python list or tuple of arrays, not 3"):
        await session.run(nested, {nested: [[1.0], 3.0]})


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (np.ones((2, 2)), TypeError, "it takes a Python list or tuple of arrays, not array"),
        (3, TypeError, "it takes a Python list or tuple of arrays, not 3"),
        ([np.ones((1, 3))], ValueError, r"element 0 has shape \[1, 3\], and the elements have shape \[\?, 2\]"),
        ([ROWS[0], "text"], TypeError, "element 1: 'text' is not a value of dtype float32"),
    ],
)
async def test_a_value_that_is_no_such_list_is_refused_by_name(session, value, error, text):
    given = af.TensorArray.placeholder(af.float32, [None, 2], name="given")
    with pytest.raises(error, match=rf"cannot feed 'given:0', a list\(float32\[\?, 2\]\): {text}(.|\n)*test_lists"):
        await session.run(given.size(), {given: value})


async def test_a_list_that_is_not_fed_or_has_no_rows_is_refused_by_name(session):
    given, x = af.TensorArray.placeholder(af.float32, name="given"), af.placeholder(af.float32, [None])
    with pytest.raises(errors.InvalidArgumentError, match="placeholder 'given' must be fed a value of list"):
        await session.run(given)
    with pytest.raises(ValueError, match="'given:0' is a list, and has no rows in axis 0"):
        session.batched(x, feeds=[x, given])
    with pytest.raises(TypeError, match="'x' of the inputs of a signature is a tensor"):
        af.saved_model.Signature(inputs={"x": given.flow}, outputs={"y": x})


async def test_a_partial_run_is_fed_and_fetches_lists(session):
    given = af.TensorArray.placeholder(af.float32)
    same, count = given.identity(), given.size()
    handle = await session.partial_run_setup([count, same], [given])
    assert await session.partial_run(handle, count, {given: ROWS}) == 3
    assert_same_lists(await session.partial_run(handle, same), ROWS)


def test_large_lists_are_converted_and_copied_off_the_loop_and_not_sent():
    double = np.zeros(80_000)
    assert call.must_convert([[double, double]], [np.dtype(np.float32)])
    assert not call.must_convert([[double, double]], [double.dtype])
    assert is_large(TensorList.of([double, double]))
    assert is_large(TensorList(2000))
    assert not is_large(TensorList.of([double]))
    with pytest.raises(errors.ResourceExhaustedError, match="'x:0' has a value of 1280000 bytes"):
        check_sizes({"x:0": TensorList.of([TensorList.of([double]), double])}, Limits(tensor=1 << 20))


async def test_lists_pass_between_tasks_and_to_the_client(graph):
    with af.device("/job:worker/task:1"):
        given = af.TensorArray.placeholder(af.float32, [None, 2])
        longer = given.write(given.size(), given.concat())
    with af.device("/job:worker/task:0"):
        count = longer.size() * 2
    async with (
        SimulatedCluster({"worker": 2}, latency=1e-3) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        for options in (RunOptions(), RunOptions(trace=True)):
            found, made, same = await session.run([count, longer, given], {given: ROWS}, options=options)
            assert found == 8
            assert_same_lists(made, [*ROWS, np.concatenate(ROWS)])
            assert_same_lists(same, ROWS)
