"""`map_fn`, `scan`, `foldl` and `foldr`: values, structures, lengths, gradients, and what is refused."""

import functools
import itertools
import operator

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import check_gradients
from tests.support.scale import some

X = np.array([[1.5, -2.0], [0.25, 3.0], [-1.0, 0.5]])
EXECUTORS = pytest.mark.parametrize("executor", ["regions", "tokens"])


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def run(fetches, feeds=None, executor="regions"):
    async with af.Session(config=af.Config(executor=executor)) as session:
        return await session.run(fetches, feeds or {})


async def by_tokens(fetches, feeds):
    async with af.Session(graph=fetches[0].graph, config=af.Config(executor="tokens")) as session:
        return await session.run(fetches, feeds)


# Values


@EXECUTORS
async def test_a_function_is_applied_to_every_row(graph, executor):
    x = af.placeholder(af.float64, [None, 2])
    nested = af.map_fn(lambda row: af.map_fn(lambda v: v * row[0], row), x)
    signs = af.map_fn(lambda row: af.cond(row[0] > 0, lambda: row, lambda: -row), x)
    total, positive = af.map_fn(
        lambda d: (d["a"] + d["b"][0], d["b"][0] > 0), {"a": x, "b": [x[:, 0]]}, dtype=(af.float64, af.bool)
    )
    found = await run([af.map_fn(lambda row: row * row, x), nested, signs, total, positive], {x: X}, executor)
    wanted = [X * X, X * X[:, :1], X * np.sign(X[:, :1]), X + X[:, :1], X[:, 0] > 0]
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(value, expected)
    assert (total.shape.as_list(), positive.shape.as_list()) == ([None, 2], [None])


@EXECUTORS
@pytest.mark.parametrize("reverse", [False, True])
async def test_scan_keeps_what_is_so_far(graph, executor, reverse):
    x = af.placeholder(af.float64, [None, 2])
    alone = af.scan(lambda a, row: a * row, x, reverse=reverse)
    started = af.scan(lambda a, row: (a[0] + af.reduce_sum(row), a[1] + 1), x, (np.float64(1), 0), reverse=reverse)
    turn = -1 if reverse else 1
    rows = X[::turn]
    sums = 1 + np.cumsum(rows.sum(1))
    found = await run([alone, *started], {x: X}, executor)
    wanted = [np.cumprod(rows, 0)[::turn], sums[::turn], np.arange(1, 4)[::turn]]
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, expected)


@EXECUTORS
async def test_folds_give_the_last_value(graph, executor):
    x = af.placeholder(af.float64, [None])
    pairs = {"up": (x, -x), "down": x}
    made = [
        af.foldl(lambda a, v: 2 * a + v, x),
        af.foldr(lambda a, v: 2 * a + v, x),
        af.foldl(lambda a, v: a - v, x, initializer=np.float64(100)),
        af.foldr(
            lambda a, e: {"n": a["n"] + 1, "s": a["s"] + e["up"][0] * e["down"]}, pairs, {"n": 0, "s": np.float64(0.5)}
        ),
    ]
    values = [3.0, 1.0, 2.0]
    found = await run(made, {x: values}, executor)
    doubled = functools.partial(functools.reduce, lambda a, v: 2 * a + v)
    assert found == [doubled(values), doubled(values[::-1]), 94, {"n": 3, "s": 14.5}]


@EXECUTORS
async def test_no_rows_are_mapped_to_no_rows(graph, executor):
    fixed, opened = af.zeros([0, 3]), af.placeholder(af.float32, [None, 3])
    made = []
    for x in (fixed, opened):
        made += [
            af.map_fn(lambda v: v[:2], x),
            af.scan(lambda a, v: a + v, x, af.ones([3])),
            af.foldl(lambda a, v: v, x, 1.0 * af.ones([3])),
        ]
    found = await run(made, {opened: np.zeros([0, 3])}, executor)
    assert [value.shape for value in found] == [(0, 2), (0, 3), (3,)] * 2
    assert made[0].shape == [0, 2]


async def test_known_lengths_are_known_of_the_results(graph):
    x = af.constant(X)
    assert af.map_fn(lambda row: row[0], x).shape == [3]
    assert af.scan(lambda a, row: a, x).shape == [3, 2]
    assert af.map_fn(lambda row: row, x, infer_shape=False).shape.ndims is None


async def test_rows_of_different_shapes_cannot_be_stacked(graph):
    x = af.placeholder(af.float64, [None, 2])
    made = af.map_fn(lambda row: af.boolean_mask(row, row > 0), x)
    np.testing.assert_array_equal(await run(made, {x: X[:1]}), [[1.5]])
    with pytest.raises(af.errors.InvalidArgumentError, match=r"shape"):
        await run(made, {x: X})


async def test_a_function_may_update_variables_row_by_row(graph):
    variable = af.Variable(1.0, dtype=af.float64)
    made = af.map_fn(lambda v: af.assign_add(variable, v), af.constant([1.0, 2.0, 3.0], af.float64))
    async with af.Session() as session:
        await session.run(variable.initializer)
        assert (await session.run(made)).tolist() == [2, 4, 7]


# Gradients


def everything(x, w):
    step = lambda a, row: af.tanh(a * w) + af.cond(row[0] > 0, lambda: row * w, lambda: row)  # noqa: E731
    return [
        af.map_fn(lambda row: af.map_fn(lambda v: v * v * w[0], row), x),
        af.scan(step, x),
        af.scan(step, x, w, reverse=True),
        af.foldl(lambda a, row: a * af.sin(row), x),
        af.foldr(lambda a, pair: a * pair[0] + pair[1], (x, x[:, 0]), w),
    ]


async def test_gradients_are_right_to_the_second_order():
    await check_gradients(everything, [X, np.array([0.6, -0.3])])


@pytest.mark.slow
@pytest.mark.long
async def test_gradients_are_right_to_the_second_order_with_tokens():
    for index in some(range(5), 1):
        await check_gradients(
            lambda x, w, index=index: everything(x, w)[index], [X[:2], np.array([0.6, -0.3])], compute=by_tokens
        )


async def test_without_back_prop_there_is_no_gradient(graph):
    x = af.constant(X)
    made = [
        af.map_fn(lambda row: row * row, x, back_prop=False),
        af.scan(lambda a, row: a * row, x, back_prop=False),
        af.foldl(lambda a, row: a * row, x, back_prop=False),
    ]
    assert af.gradients(made, x) == [None]


async def test_variables_made_inside_are_the_graphs(graph):
    def layer(row):
        return row * af.get_variable("scale", [2], af.float64, af.ones_initializer())

    result = af.map_fn(layer, af.constant(X))
    assert [variable.name for variable in af.trainable_variables()] == ["scale:0"]
    (gradient,) = af.gradients(result, af.trainable_variables())
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        np.testing.assert_array_equal(await session.run(af.convert_to_tensor(gradient)), X.sum(0))


# What is refused


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("map_fn", lambda fn: af.map_fn(lambda row: fn(row, row), X)),
        ("scan", lambda fn: af.scan(fn, X)),
        ("foldl", lambda fn: af.foldl(fn, X)),
        ("foldr", lambda fn: af.foldr(fn, X)),
    ],
)
def test_what_is_wrong_inside_names_what_was_called_first_and_once(graph, name, build):
    for fn, text in [
        (lambda a, row: af.matmul(row, row), "matmul: a matrix has at least rank 2"),
        (lambda a, row: row > 0, "value 0 of the result of fn is bool"),
        (lambda a, row: af.map_fn(lambda v: v > 0, row), "(map_fn: )?value 0 of the result of fn is bool"),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"^{name}: {text}") as caught:
            build(fn)
        assert str(caught.value).count("built at") == 1
        assert "while_loop" not in str(caught.value).partition("\n")[0]


@pytest.mark.parametrize(
    ("build", "kind", "text"),
    [
        (lambda: af.map_fn(3, X), TypeError, "fn must be a function, not 3"),
        (lambda: af.map_fn(abs, []), ValueError, "elems has no tensor"),
        (lambda: af.map_fn(abs, [1.0, 2.0]), ValueError, r"elems\[0\] has rank 0 and so no rows .* af.constant"),
        (lambda: af.map_fn(abs, (X, X[:2])), ValueError, "as many rows each, and they have 3, 2"),
        (lambda: af.map_fn(abs, af.SparseTensor([[0]], [1.0], [3])), TypeError, "SparseTensor, which has no rows"),
        (lambda: af.map_fn(lambda r: (r, r), X), ValueError, "the result of fn differs in structure from dtype"),
        (lambda: af.map_fn(lambda r: r > 0, X), TypeError, "is bool .* dtype has float64: use af.cast"),
        (lambda: af.map_fn(lambda r: r, X, dtype=[af.float64]), ValueError, "differs in structure"),
        (lambda: af.scan(lambda a, r: (a, r), X), ValueError, "differs in structure from elems"),
        (lambda: af.scan(lambda a, r: a[0], X, (0.0, 1.0)), ValueError, "differs in structure from initializer"),
        (lambda: af.scan(lambda a, r: af.cast(a, af.int32), X), TypeError, "is int32 .* elems has float64"),
        (lambda: af.scan(lambda a, r: r, X, 0.5), TypeError, "float64 .* initializer has float32"),
        (lambda: af.scan(lambda a, r: af.concat([a, r], 0), X), ValueError, r"shape \[2\], and the value has \[4\]"),
        (lambda: af.foldl(lambda a, r: a, af.zeros([0, 2])), ValueError, "no rows: without an initializer"),
        (lambda: af.foldr(lambda a, r: a[0], X), ValueError, r"shape"),
        (lambda: af.foldr(None, X), TypeError, "fn must be a function"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(graph, build, kind, text):
    before = graph.version
    with pytest.raises(kind, match=text):
        build()
    assert graph.version <= before + 3  # what made the arguments


@EXECUTORS
async def test_lengths_that_differ_in_the_run_are_an_error(graph, executor):
    x, y = af.placeholder(af.float64, [None]), af.placeholder(af.float64, [None])
    made = af.map_fn(lambda pair: pair[0] * pair[1], (x, y), dtype=af.float64)
    assert (await run(made, {x: [1, 2], y: [3, 4]}, executor)).tolist() == [3, 8]
    for lengths in itertools.permutations([2, 3]):
        with pytest.raises(af.errors.InvalidArgumentError, match="elems must have as many rows each"):
            await run(made, {x: np.ones(lengths[0]), y: np.ones(lengths[1])}, executor)


@EXECUTORS
async def test_no_rows_without_an_initializer_are_an_error(graph, executor):
    x = af.placeholder(af.float64, [None])
    for made in (af.foldl(operator.add, x), af.foldr(operator.add, x), af.scan(operator.add, x)):
        with pytest.raises(af.errors.InvalidArgumentError, match="elems has no rows, and without an initializer"):
            await run(made, {x: []}, executor)
