"""TensorArray: what is written is read, each slot once; gradients pass through it."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.state.variables import read_variable
from aioflow.testing import check_gradients
from tests.support.evaluate import evaluate

X = np.arange(6.0).reshape(3, 2)


def array(size=3, dtype=af.float64, **options):
    return af.TensorArray(dtype, size, **options)


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


# What is written is read


def test_rows_pieces_and_single_tensors_come_back(graph):
    x = af.constant(X)
    kept = array(clear_after_read=False).unstack(x)
    pieces = array(infer_shape=False, clear_after_read=False).split(x, [2, 0, 1])
    found = evaluate([
        kept.stack(), kept.read(1), kept.gather([2, 2]), kept.concat(), kept.size(), pieces.read(0), pieces.read(1),
        pieces.concat(), array().scatter([2, 0, 1], x).stack(), array().write(1, 5).write(0, 7).read(1),
    ])  # fmt: skip
    wanted = [X, X[1], X[[2, 2]], X.ravel(), 3, X[:2], X[:0], X, X[[1, 2, 0]], 5]
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(value, expected)
        assert np.shape(value) == np.shape(expected)


@pytest.mark.parametrize("dtype", [af.bfloat16, af.float16, af.int8, af.bool_, af.complex64])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_tensors_of_any_dtype_keep_it(graph, dtype, shape):
    value = np.ones(shape, dtype.np)
    held = array(2, dtype, clear_after_read=False).write(1, value)
    for result, expected in zip(evaluate([held.read(0), held.stack()]), [0 * value, [0 * value, value]], strict=True):
        np.testing.assert_array_equal(result, np.asarray(expected, dtype.np))
        assert np.asarray(result).dtype == dtype.np


def test_text_is_kept_and_the_empty_text_stands_for_what_is_not_written(graph):
    texts = array(3, af.string, clear_after_read=False).unstack(["a", "bc"])
    assert evaluate(texts.stack()).tolist() == [b"a", b"bc", b""]
    assert evaluate(array(1, af.string).write(0, "abc").read(0)) == b"abc"
    assert evaluate(array(2, af.string).split(["a", "bc"], [1, 1]).concat()).tolist() == [b"a", b"bc"]


def test_what_is_not_written_is_zero_if_its_shape_is_known(graph):
    told = array(element_shape=[2])
    learnt = array(clear_after_read=False).write(1, X[0])
    np.testing.assert_array_equal(evaluate(told.stack()), np.zeros((3, 2)))
    np.testing.assert_array_equal(evaluate(learnt.stack()), [[0, 0], X[0], [0, 0]])
    open_sizes = af.placeholder(af.float64)
    np.testing.assert_array_equal(evaluate(array().write(1, open_sizes).read(0), {open_sizes: X}), np.zeros((3, 2)))


def test_an_array_of_dynamic_size_grows_as_it_is_written(graph):
    grown = array(0, dynamic_size=True, clear_after_read=False).write(2, 7).write(0, 5)
    assert evaluate([grown.size(), grown.stack()][0]) == 3
    np.testing.assert_array_equal(evaluate(grown.stack()), [5, 0, 7])
    np.testing.assert_array_equal(evaluate(array(0, dynamic_size=True).unstack(X).stack()), X)
    np.testing.assert_array_equal(evaluate(array(1, dynamic_size=True).split(X, [1, 1, 1]).concat()), X)


def test_writing_gives_another_array_and_leaves_the_first_as_it_was(graph):
    first = array(2, element_shape=[], clear_after_read=False)
    one, other = first.write(0, 1), first.write(0, 2)
    found = evaluate([first.stack(), one.stack(), other.stack(), one.write(1, 3).stack(), one.stack()])
    assert [value.tolist() for value in found] == [[0, 0], [1, 0], [2, 0], [1, 3], [1, 0]]


def test_arrays_made_alike_are_not_one(graph):
    flows = [array(2).flow, array(2).flow]
    assert flows[0].op.definition.stateful
    assert evaluate(flows[0]) is not evaluate(flows[1])


def test_what_is_known_of_shapes_is_learnt_from_what_is_written(graph):
    held = array().write(0, af.placeholder(af.float64, [None, 2]))
    assert held.element_shape.as_list() == [None, 2]
    assert array(element_shape=[3, None]).write(0, af.placeholder(af.float64, [None, 2])).element_shape == [3, 2]
    assert held.stack().shape.as_list() == [3, None, 2]
    assert array().unstack(X).concat().shape.as_list() == [6]
    assert array(infer_shape=False).write(0, X).element_shape == af.TensorShape(None)
    assert array(dynamic_size=True).unstack(X).stack().shape.as_list() == [None, 2]
    assert repr(held) == "<af.TensorArray 'tensor_array_clear:0' float64[?, 2]>"


def test_an_array_is_made_again_of_its_flow(graph):
    held = array(2, clear_after_read=False).write(0, 4)
    again = [held.with_flow(held.flow), af.TensorArray(af.float64, flow=held.flow), held.identity()]
    again.append(af.TensorArray(af.float64, handle=held.handle))
    assert [evaluate(each.read(0)) for each in again] == [4] * 4
    assert held.close().type == "no_op"


# Reading once


def test_a_slot_read_once_is_cleared_for_later_reads_through_the_same_array(graph):
    held = array().unstack(X)
    earlier = held.with_flow(held.flow)
    np.testing.assert_array_equal(evaluate(held.read(1)), X[1])
    np.testing.assert_array_equal(evaluate(held.read(2)), X[2])
    for again in (held.read(1), held.gather([0, 2]), held.write(1, X[0]).read(0)):
        with pytest.raises(
            ValueError, match=r"index [12] (was cleared by an earlier read: pass clear_after|is cleared)"
        ):
            evaluate(again)
    np.testing.assert_array_equal(evaluate(earlier.read(1)), X[1])


@pytest.mark.parametrize("read", [lambda a: a.stack(), lambda a: a.concat(), lambda a: a.gather([0, 1, 2])])
def test_what_reads_all_slots_clears_all(graph, read):
    held = array().unstack(X)
    read(held)
    with pytest.raises(ValueError, match="index 0 was cleared by an earlier read"):
        evaluate(held.read(0))


def test_a_read_that_cannot_be_built_clears_nothing(graph):
    held = array().unstack(X)
    before = held.flow
    with pytest.raises(ValueError, match="rank"), graph.transaction():
        af.matmul(held.read(0), 1.0)
    assert held.flow is before
    np.testing.assert_array_equal(evaluate(held.read(0)), X[0])


# Misuse


@pytest.mark.parametrize(
    ("build", "kind", "text"),
    [
        (lambda: array(-1), ValueError, "a TensorArray cannot have -1 slots"),
        (lambda: array(1.5), TypeError, "size must be made of integers, not float32"),
        (lambda: array(None), ValueError, "a size, or the flow of another one"),
        (lambda: af.TensorArray(af.float64, 2, flow=array().flow), ValueError, "not both"),
        (lambda: af.TensorArray(af.float32, flow=array().flow), TypeError, "another dtype than float32"),
        (lambda: af.TensorArray(af.float32, flow=af.constant(1.0)), TypeError, "flow of a TensorArray is needed"),
        (lambda: array(2, af.resource), TypeError, "holds tensors, not resources"),
        (lambda: array().write(3, 1), ValueError, "index 3 is out of range for size 3; pass dynamic_size=True"),
        (lambda: array().write(-1, 1), ValueError, "index -1 is negative"),
        (lambda: array().write([0], 1), ValueError, "index must be one integer"),
        (lambda: array().write(0, np.float32(1)), TypeError, "holds float64, and the value is float32; use af.cast"),
        (
            lambda: array().write(0, [1]).write(1, [1, 2]),
            ValueError,
            r"shape \[1\], and the value has \[2\]; pass infer",
        ),
        (
            lambda: array(element_shape=[2]).unstack(np.ones((3, 4))),
            ValueError,
            r"shape \[2\], and the value has \[4\]",
        ),
        (lambda: array().unstack(5), ValueError, "rank 0 has no rows"),
        (lambda: array(2).unstack(X), ValueError, "3 rows do not fit 2 slots"),
        (lambda: array().scatter([0, 3], X[:2]), ValueError, "index 3 is out of range for size 3"),
        (lambda: array().scatter([0, 1, 2], X[:2]), ValueError, "2 rows are given for 3 indices"),
        (lambda: array().split(X, [1, 1]), ValueError, r"pieces of lengths \[1, 1\]"),
        (lambda: array(2).split(X, [1, 1, 1]), ValueError, "3 pieces do not fit 2 slots"),
        (lambda: array(2).split(X, [1, 2]), ValueError, r"lengths \[1, 2\] differ in shape: pass infer_shape=False"),
        (lambda: array(2).split(X, [-1, 4]), ValueError, r"a value of 3 rows cannot be split .* \[-1, 4\]"),
        (lambda: array().read(3), ValueError, "index 3 is out of range for size 3"),
        (lambda: array().gather([0, -2]), ValueError, "index -2 is negative"),
        (lambda: array(element_shape=[]).concat(), ValueError, "rank 0 cannot be concatenated; use stack"),
        (lambda: array() + af.constant(1.0), TypeError, "use .stack"),
        (lambda: read_variable(array().flow), TypeError, "a handle to a resource is needed, not list"),
        (lambda: len(array()), TypeError, "use its .size()"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(graph, build, kind, text):
    with pytest.raises(kind, match=text):
        build()


def fed(dtype=af.int32, shape=None):
    return af.placeholder(dtype, shape)


@pytest.mark.parametrize(
    ("build", "value", "text"),
    [
        (lambda p: array(p).size(), -2, "a TensorArray cannot have -2 slots"),
        (lambda p: array().write(p, 1.0).stack(), 3, "index 3 is out of range for size 3; pass dynamic_size=True"),
        (lambda p: array().write(p, 1.0).stack(), -1, "index -1 is negative"),
        (lambda p: array(dynamic_size=True).write(p, 1.0).stack(), -1, "index -1 is negative"),
        (lambda p: array(dynamic_size=True).write(p, 1.0).size(), 2**31 - 1, "index 2,147,483,647 is too high"),
        (lambda p: array(dynamic_size=True).scatter([p], X[:1]).size(), 2**31 - 1, "at most 2,147,483,647 slots"),
        (lambda p: array(af.cast(p, af.int64) * 2).size(), 2**30, "a TensorArray cannot have 2,147,483,648 slots"),
        (lambda p: array().write(0, 1.0).write(p, 1.0).stack(), 0, "index 0 is written already"),
        (lambda p: array(element_shape=[]).read(p), 3, "index 3 is out of range for size 3"),
        (lambda p: array().read(p), 1, "index 1 is not written, and a zero for it cannot be made"),
        (
            lambda p: array(p).stack(),
            0,
            "no index to gather, and the shape of the elements is only known as <unknown>",
        ),
        (lambda p: array(p).concat(), 0, "no slot to concatenate"),
        (lambda p: array().gather(p), [0, 3], "index 3 is out of range for size 3"),
        (lambda p: array().scatter(p, X[:2]).stack(), [1, 1], "index 1 is given twice"),
        (lambda p: array().scatter(p, X[:2]).stack(), [1], "2 rows are given for 1 indices"),
        (lambda p: array().scatter(p, X[:2]).stack(), [1, 5], "index 5 is out of range for size 3; pass dynamic"),
        (lambda p: array().split(X, p).stack(), [1, 1, 2], "cannot be split into pieces of lengths [1, 1, 2]"),
        (lambda p: array().split(X, p).stack(), [2, 1], "2 pieces do not fit 3 slots"),
        (lambda p: array().split(X, p).stack(), [2, 1, 0], "lengths [2, 1, 0] differ in shape"),
        (lambda p: array(2, infer_shape=False).write(0, X).write(1, af.gather(X, p)).stack(), 0, "cannot be stacked"),
        (
            lambda p: array(2, infer_shape=False).write(0, X).write(1, af.gather(X[0], p)).concat(),
            0,
            "cannot be concatenated",
        ),
    ],
)
async def test_what_only_a_run_can_know_is_said_by_the_run(graph, build, value, text):
    given = fed()
    result = build(given)
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError) as caught:
            await session.run(result, {given: value})
    assert text in caught.value.message
    assert caught.value.op_type.startswith("tensor_array")


@pytest.mark.parametrize(
    ("shape", "text"), [([3], "holds a tensor of shape [3, 2], and the value has [3]"), ([], "[]")]
)
async def test_in_a_run_too_all_tensors_have_one_shape(graph, shape, text):
    one, other = fed(af.float64), fed(af.float64)
    result = array().write(0, one).write(2, other).read(2)
    async with af.Session(graph=graph) as session:
        np.testing.assert_array_equal(await session.run(result, {one: X, other: X}), X)
        with pytest.raises(af.errors.InvalidArgumentError) as caught:
            await session.run(result, {one: X, other: np.ones(shape)})
        assert text in caught.value.message
        assert "pass infer_shape=False" in caught.value.message
        with pytest.raises(TypeError, match="takes a Python list or tuple of arrays, not 1"):
            await session.run(array().size(), {array(): 1})


async def test_runs_at_the_same_time_have_arrays_of_their_own(graph):
    x = fed(af.float64, [3, 2])
    held = array().unstack(x)
    result = held.read(0) + held.read(2)
    async with af.Session(graph=graph) as session:
        found = await asyncio.gather(*[session.run(result, {x: X + number}) for number in range(5)])
    for number, value in enumerate(found):
        np.testing.assert_array_equal(value, X[0] + X[2] + 2 * number)


def test_its_graph_can_be_stored_and_built_again(graph):
    array(dynamic_size=True, element_shape=[None]).unstack(X).stack(name="result")
    again = af.Graph()
    with again.as_default():
        af.import_graph_def(graph.as_graph_def(), name="")
        np.testing.assert_array_equal(evaluate(again.get_tensor_by_name("result:0")), X)


def test_it_has_no_gradient_array(graph):
    with pytest.raises(NotImplementedError, match=r"af\.gradients"):
        array().grad("source")


# Gradients


def twice_read(x):
    held = array(clear_after_read=False).unstack(x * x)
    return held.read(0) * held.read(2) + held.read(0) + held.gather([1, 1, 0])[0]


def mixed(x):
    held = array(5, clear_after_read=False, dynamic_size=True).scatter([4, 1, 2], x).write(0, x[0] * x[1])
    return [held.stack() ** 3, held.read(4) * held.read(0), held.concat()]


def pieces(x):
    held = array(3, infer_shape=False, clear_after_read=False).split(x**2, [2, 0, 1])
    return [held.concat() * x, held.read(0) ** 2]


def once(x):
    held = array().unstack(x)
    total = held.read(0) * held.read(1)
    return array(2).write(1, total).write(0, held.read(2) * total).stack() ** 2


def looked_up(x):
    held = array(1).write(0, x * x)
    return af.gather(held.read(0), [1, 1, 0]) ** 2


def unconnected(x):
    held = array(clear_after_read=False).unstack(af.constant(X)).read(1)
    return x * held


@pytest.mark.parametrize("build", [twice_read, mixed, pieces, once, looked_up, unconnected])
async def test_gradients_pass_through_to_third_order(build):
    await check_gradients(build, [np.cos(X)], order=3, compute=evaluate, atol=1e-4, rtol=1e-4)


async def test_gradients_pass_through_a_session_too():
    await check_gradients(mixed, [np.cos(X)])
    await check_gradients(once, [np.cos(X)])


async def test_lists_of_constants_are_made_by_each_run(graph):
    x = af.constant(2.0)
    held = array(2, af.float32).write(0, x).write(1, 3.0)
    (found,) = af.gradients(held.read(0) * held.read(1), x)
    async with af.Session(graph=graph) as session:
        assert await session.run(found) == 3


@pytest.mark.parametrize("method", [0, 1, 2])
def test_gradients_of_one_list_are_added_by_any_method(graph, method):
    x = af.constant(X)
    held = array(clear_after_read=False).unstack(x)
    y = held.read(0) * 2 + held.read(0) * 3 + held.read(2)
    (found,) = af.gradients(y, x, aggregation_method=method)
    np.testing.assert_array_equal(evaluate(found), [[5, 5], [0, 0], [1, 1]])


def test_integers_in_an_array_stop_the_gradient(graph):
    x = af.constant(X)
    held = array(3, af.int32).unstack(af.cast(x, af.int32))
    assert af.gradients(af.cast(held.read(0), af.float64), x) == [None]


def test_a_gradient_of_a_list_is_a_list(graph):
    held = array(clear_after_read=False).unstack(af.constant(X))
    (found,) = af.gradients(held.read(1), held.flow)
    assert str(found.spec) == "list(float64[2])"
    assert evaluate(found).written().keys() == {1}
    with pytest.raises(TypeError, match="has no gradient"):
        af.gradients(held.flow, held.flow)


async def test_a_read_that_a_step_does_not_need_clears_nothing(graph):
    held = array().unstack(af.constant(X))
    first, again, whole = held.read(0), held.read(0), held.stack()
    async with af.Session(graph=graph) as session:
        for fetched, expected in ((first, X[0]), (again, X[0]), (whole, X)):
            np.testing.assert_array_equal(await session.run(fetched), expected)
        for both in ([first, again], [again, whole], [first, whole]):
            with pytest.raises(af.errors.InvalidArgumentError, match="index 0 was cleared by an earlier read"):
                await session.run(both)
        np.testing.assert_array_equal(await session.run(whole, {again: X[1]}), X)


async def test_a_read_that_no_iteration_needs_clears_nothing(graph):
    """Only one of the loop's two results is fetched, so nodes for the other are removed."""

    def body(i, total, unused, held):
        seen = held.read(i)
        return i + 1, total + held.read(i), unused + seen, held

    zeros = af.zeros([2], af.float64)
    _, total, unused, _ = af.while_loop(
        lambda i, *_: i < 3, body, (af.constant(0), zeros, zeros, array().unstack(af.constant(X)))
    )
    async with af.Session(graph=graph) as session:
        for fetched in (total, unused):
            np.testing.assert_array_equal(await session.run(fetched), X.sum(0))
        with pytest.raises(af.errors.InvalidArgumentError, match="was cleared by an earlier read"):
            await session.run([total, unused])
