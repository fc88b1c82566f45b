"""`RunOptions(check_numerics=True)` names the first tensor that is not finite, and what led to it."""

import numpy as np
import pytest

import aioflow as af
from tests.support.doubles import light

CHECK = af.RunOptions(check_numerics=True)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def caught(graph, fetch, feeds=None):
    async with af.Session(graph=graph) as session:
        if graph.get_collection(af.GraphKeys.GLOBAL_VARIABLES):
            with graph.as_default():
                init = af.global_variables_initializer()
            await session.run(init)
        with pytest.raises(af.errors.InvalidArgumentError) as error:
            await session.run(fetch, feeds, CHECK)
    return error.value


async def test_the_first_operation_that_is_not_finite_is_named_with_ranges_and_line(graph):
    x = af.placeholder(af.float32, [None], name="x")
    bad = af.log(x - 1.0, name="culprit")
    loss = af.reduce_sum(af.exp(bad) * 2.0)
    error = await caught(graph, loss, {x: [1.0, 3.0]})
    assert error.op == "culprit"
    assert error.message == "culprit:0 is not finite: 0 NaN and 1 Inf among 2 values"
    assert error.shapes == ("float32[2] in [0, 2]",)
    assert error.device.endswith("/device:CPU:0")
    assert __file__ in error.line


async def test_a_feed_that_is_not_finite_is_blamed_itself(graph):
    x = af.placeholder(af.float32, [None], name="x")
    error = await caught(graph, af.log(x), {x: [np.nan, 1.0]})
    assert error.op == "x"
    assert "x:0 was fed a value that is not finite: 1 NaN and 0 Inf among 2 values" in str(error)
    assert error.shapes == ("float32[2] in [1, 1] (1 NaN and 0 Inf among 2 values)",)


async def test_a_constant_is_blamed_itself_though_plans_fold_what_depends_on_it(graph):
    c = af.constant([np.inf, 1.0], name="cc")
    assert (await caught(graph, c * 2.0)).op == "cc"


async def test_inputs_that_are_variables_or_text_are_described(graph):
    v = af.Variable([1.0, np.nan], name="v")
    error = await caught(graph, v.value())
    assert error.op_type == "read_variable"
    assert error.shapes == ("resource 'v'",)


async def test_narrow_floats_are_looked_at_and_integers_and_text_left_alone(graph):
    x = af.placeholder(af.bfloat16, [1])
    text = af.constant(["a"])
    error = await caught(graph, [x + x, text], {x: np.array([3e38], np.float32)})
    assert error.op_type == "add"
    async with af.Session(graph=graph) as session:
        assert (await session.run([af.constant(1), text], options=CHECK))[0] == 1


async def test_a_finite_run_is_a_run_like_any_other(graph):
    x = af.placeholder(af.float32, [])
    async with af.Session(graph=graph) as session:
        assert await session.run(x * 2.0, {x: 2.0}, CHECK) == 4.0


async def test_a_kernel_that_breaks_its_shape_rule_is_named(graph):
    x = af.constant([1.0, 2.0])
    for returned, found in ((np.zeros(3, np.float32), r"float32\[3\]"), (np.zeros(2), r"float64\[2\]")):
        bad = light(af.tanh(x), lambda value, returned=returned: returned, name="broken")
        async with af.Session(graph=graph) as session:
            with pytest.raises(
                af.errors.InternalError, match=rf"is {found}, and the shape rule of test_light"
            ) as error:
                await session.run(bad, options=CHECK)
        assert error.value.op.startswith("broken")
        assert __file__ in error.value.line
