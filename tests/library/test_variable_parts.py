"""Parts of variables that are assigned, variables of open shapes, and creators of variables."""

import asyncio
import inspect

import numpy as np
import pytest

import aioflow as af
from aioflow import errors


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_any_part_of_a_variable_is_assigned_in_order_with_reads(graph):
    v, i = af.Variable(np.zeros((3, 4), np.float32), name="v"), af.placeholder(af.int32, [])
    text = af.Variable(["a", "b"], name="text")
    before = v.value()
    steps = [
        v[1, ::2].assign([5.0, 6.0]), v[i:, 0].assign(7.0), v[..., -1].assign(v[..., 0] + 1),
        v[:, None, 1].assign([[2]] * 3), text[1].assign("zz"),
    ]  # fmt: skip
    half = v[i - 1 : i + 1, 1:3].assign(af.ones([2, 2]))
    loop = af.while_loop(lambda k: k < 3, lambda k: af.with_dependencies([v[k, k].assign(100.0)], k + 1), [0])
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        found = await session.run([before, *steps, v.value()], {i: 1})
        assert [value.tolist() for value in found] == [
            [[0, 0, 0, 0]] * 3,
            [[0, 0, 0, 0], [5, 0, 6, 0], [0, 0, 0, 0]],
            [[0, 0, 0, 0], [7, 0, 6, 0], [7, 0, 0, 0]],
            [[0, 0, 0, 1], [7, 0, 6, 8], [7, 0, 0, 8]],
            [[0, 2, 0, 1], [7, 2, 6, 8], [7, 2, 0, 8]],
            [b"a", b"zz"],
            [[0, 2, 0, 1], [7, 2, 6, 8], [7, 2, 0, 8]],
        ]
        assert (await session.run(half, {i: 2})).tolist() == [[0, 2, 0, 1], [7, 1, 1, 8], [7, 1, 1, 8]]
        await session.run(loop)
        assert (await session.run(v)).diagonal().tolist() == [100] * 3


async def test_two_runs_that_assign_parts_at_once_lose_nothing(graph):
    v, i = af.Variable(np.zeros(8, np.int32)), af.placeholder(af.int32, [])
    put = v[i].assign(i + 1)
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        await asyncio.gather(*[session.run(put, {i: place}) for place in range(8)])
        assert (await session.run(v)).tolist() == list(range(1, 9))


async def test_a_part_that_does_not_fit_is_refused_and_changes_nothing(graph):
    v, i = af.Variable(np.zeros((3, 4), np.float32), name="v"), af.placeholder(af.int32, [])
    x = af.placeholder(af.float32, [None])
    for build, error, wanted in [
        (lambda: v.value().assign(1.0), ValueError, "it is no part of a variable"),
        (lambda: (v + 1)[0].assign(1.0), ValueError, "it is no part of a variable"),
        (lambda: v[0][1].assign(1.0), ValueError, "it is no part of a variable"),
        (lambda: v[0].assign([1.0, 2.0]), ValueError, r"shapes \[4\] and \[2\]"),
        (lambda: v[5].assign(1.0), ValueError, "index 5 is out of range"),
        (lambda: v[0].assign("x"), TypeError, "not a value of dtype float32"),
    ]:
        with pytest.raises(error, match=wanted):
            build()
    far, wide = v[i].assign(1.0), v[i:, 0].assign(x)
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        with pytest.raises(errors.InvalidArgumentError, match="index 9 is out of range"):
            await session.run(far, {i: 9})
        with pytest.raises(
            errors.InvalidArgumentError, match=r"shape \[1\] is assigned to a part of 'v' of shape \[2\]"
        ):
            await session.run(wide, {i: 1, x: [1.0]})
        assert not (await session.run(v)).any()


async def test_a_variable_may_have_an_open_shape(graph):
    v = af.Variable([[1.0, 2.0]], shape=[None, 2], name="v")
    anything = af.Variable(1.0, shape=af.TensorShape(None))
    assert (v.shape.as_list(), anything.shape.rank) == ([None, 2], None)
    grown, other = v.assign(np.ones((3, 2))), anything.assign([1.0, 2.0])
    with pytest.raises(ValueError, match="not compatible"):
        v.assign(np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"the initial value of 'bad' has shape \[1\], not \[2\]"):
        af.Variable([1.0], shape=[2], name="bad")
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        assert [np.shape(value) for value in await session.run([grown, other])] == [(3, 2), (2,)]


async def test_a_variable_counts_up_to_a_limit(graph):
    v = af.Variable(0)
    count = v.count_up_to(2)
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        assert [await session.run(count), await session.run(count)] == [0, 1]
        with pytest.raises(errors.OutOfRangeError):
            await session.run(count)
        assert await session.run(v) == 2


def test_creators_make_the_variables_of_their_blocks_the_innermost_first(graph):
    calls = []

    def outer(next_creator, **arguments):
        calls.append(("outer", arguments["name"]))
        return next_creator(**arguments)

    def inner(next_creator, **arguments):
        calls.append(("inner", arguments["name"]))
        return next_creator(**{**arguments, "trainable": False, "name": f"{arguments['name']}_inner"})

    with af.variable_creator_scope(outer):
        with af.variable_creator_scope(inner):
            first = af.Variable(1.0, name="first")
            second = af.get_variable("second", [2])
        third = af.Variable(1.0, name="third")
    fourth = af.Variable(1.0)
    assert calls == [
        ("inner", "first"), ("outer", "first_inner"), ("inner", "second"), ("outer", "second_inner"),
        ("outer", "third"),
    ]  # fmt: skip
    assert [v.op.name for v in (first, second)] == ["first_inner", "second_inner"]
    assert [v.trainable for v in (first, second, third, fourth)] == [False, False, True, True]
    assert type(first) is af.Variable
    assert list(inspect.signature(af.Variable).parameters)[:2] == ["initial_value", "trainable"]
    with pytest.raises(TypeError, match="a creator of variables is a function"), af.variable_creator_scope(7):
        pass


def test_what_is_set_on_the_outermost_scope_stays(graph):
    scope = af.get_variable_scope()
    scope.set_dtype(af.float64)
    scope.set_initializer(af.ones_initializer())
    with af.variable_scope("a") as inner:
        v = af.get_variable("v", [2])
        inner.set_dtype(af.float16)
    assert (v.dtype, v.initial_value.op.type) == (af.float64, "fill")
    assert af.get_variable("w", [2]).dtype is af.float64
    af.get_variable_scope().reuse_variables()
    with af.variable_scope("a"):
        assert af.get_variable("v", [2]) is v
        with pytest.raises(ValueError, match="'a/new' does not exist"):
            af.get_variable("new", [2])
    with af.Graph().as_default():
        assert af.get_variable("v", [2]).dtype is af.float32


def test_scopes_are_named_as_in_tensorflow(graph):
    with af.variable_scope("a") as scope:
        af.add_to_collection("things", af.identity(1.0, name="x"))
        assert [each.name for each in scope.get_collection("things")] == ["a/x:0"]
    with af.variable_scope(scope) as again:
        assert (again.original_name_scope, af.identity(1.0, name="x").name) == ("a/", "a_1/x:0")
    given = {}

    def getter(getter, **options):
        given.update(options)
        return getter(**options)

    with af.variable_scope("b", custom_getter=getter):
        v = af.get_variable("v", [2])
    assert (v.op.name, given["name"], given["shape"]) == ("b/v", "b/v", [2])

    def body():
        return af.get_variable("v", [2]).name, af.identity(1.0, name="x").name

    template = af.make_template("t", body, create_scope_now_=True)
    with af.name_scope("n"):
        assert template() == ("t/v:0", "n/t/x:0")
    assert template() == ("t/v:0", "t/x:0")
