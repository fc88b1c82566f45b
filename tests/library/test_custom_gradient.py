import numpy as np
import pytest

import aioflow as af
from aioflow.autodiff.gradients import gradients
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def number(name):
    return af.placeholder(af.float64, (), name=name)


def value(tensor, **feeds):
    first = tensor[0] if isinstance(tensor, list) else tensor
    return evaluate(tensor, {first.graph.get_tensor_by_name(f"{k}:0"): np.array(v) for k, v in feeds.items()})


def types(graph):
    return [operation.type for operation in graph.get_operations()]


def test_a_function_may_bring_its_gradient():
    @af.custom_gradient
    def log1pexp(x):
        """log(1 + e^x)."""
        e = af.exp(x)
        return af.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    x = number("x")
    y = log1pexp(x)
    (dx,) = gradients(y, x)
    (ddx,) = gradients(dx, x)
    assert log1pexp.__doc__ == "log(1 + e^x)."
    np.testing.assert_allclose(value(dx, x=100.0), 1)
    np.testing.assert_allclose(value([y, ddx], x=0.0), [np.log(2), 0.25])


def test_a_function_of_several_values_gets_one_gradient_per_result_and_gives_one_per_argument():
    @af.custom_gradient()
    def swap(a, b, *, factor):
        return [b * factor, a], lambda db, da: (da * 10, None)

    a, b = number("a"), number("b")
    results = swap(a, b, factor=2.0)
    assert isinstance(results, list)
    da, db = gradients(results, [a, b], grad_ys=[1.0, 2.0])
    assert (value(da, a=1.0, b=1.0), db) == (20, None)


def test_a_function_that_reads_variables_gives_their_gradients_too():
    v = af.Variable(np.float64(1))

    @af.custom_gradient
    def scaled(x):
        def gradient(dy, variables=None):
            assert variables == [v]
            return dy * 2, [dy * 3]

        return x * v, gradient

    x = number("x")
    dx, dv = gradients(scaled(x), [x, v])
    assert (value(dx, x=1.0), value(dv, x=1.0)) == (2, 3)


def test_a_function_that_reads_variables_must_say_so(graph):
    v = af.Variable(1.0, name="v")
    before = types(graph)

    @af.custom_gradient
    def scaled(x):
        return x * v, lambda dy: dy

    with pytest.raises(TypeError, match="the function reads 'v:0': its gradient function must take variables="):
        scaled(3.0)
    assert types(graph) == before


def test_a_custom_gradient_of_the_wrong_number_is_refused():
    x = number("x")
    y = af.custom_gradient(lambda x: (x * 2, lambda dy: (dy, dy)))(x)
    with pytest.raises(ValueError, match="gave 2 gradients for 1 arguments"):
        gradients(y, x)


async def test_recomputed_values_are_computed_twice_and_give_the_same_gradients(graph):
    v = af.Variable(np.float64(2), name="v")
    x = af.placeholder(af.float64, [3], name="x")

    def f(x):
        """A function of an argument and a variable."""
        return [af.exp(x * v), af.sin(x)]

    again = af.recompute_grad(f)
    assert again.__doc__ == f.__doc__
    plain, recomputed = f(x), again(x)
    firsts = [gradients(ys, [x, v]) for ys in (plain, recomputed)]
    seconds = [gradients(dx, [x, v]) for dx, _ in firsts]
    feeds, metadata = {x: np.array([0.5, -1.0, 0.25])}, af.RunMetadata()
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        found = await session.run([[*first, *second] for first, second in zip(firsts, seconds, strict=True)], feeds)
        await session.run([recomputed, firsts[1]], feeds, af.RunOptions(trace=True), metadata)
    for ours, expected in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, expected)
    kinds = [graph.get_operation_by_name(node.name).type for node in metadata.step_stats if "/" not in node.name[:1]]
    assert kinds.count("exp") == 2


async def test_gradients_pass_through_what_has_none(graph):
    x, y, v = number("x"), number("y"), af.Variable(np.float64(3))
    a, b = af.grad_pass_through(lambda x, y: (af.round(x), af.floor(y) * v))(x, y)
    dx, dy, dv = gradients([a * 2, b * 5], [x, y, v])
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        assert (await session.run([a, b, dx, dy], {x: 2.6, y: 1.5}), dv) == ([3, 3, 2, 5], None)
