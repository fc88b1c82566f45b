"""The machinery of gradients. That each op's own gradient is right is proved by test_registry.py."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.autodiff.gradients import gradients
from aioflow.autodiff.rules import get_gradient_function
from aioflow.graph.op import REGISTRY, op
from aioflow.graph.operation import describe_line
from aioflow.tensors.dtypes import Spec
from aioflow.testing import check_gradients
from tests.support.evaluate import evaluate
from tests.support.scale import amount


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def declare():
    """Declares an op for the duration of a test."""
    before = dict(REGISTRY)
    yield lambda rule: op(rule)
    REGISTRY.clear()
    REGISTRY.update(before)


def number(name=None, shape=()):
    return af.placeholder(af.float64, shape, name=name)


def value(tensor, **feeds):
    """The value of a tensor, or of several, with placeholders fed by name."""
    first = tensor[0] if isinstance(tensor, list) else tensor
    return evaluate(tensor, {first.graph.get_tensor_by_name(f"{k}:0"): np.array(v) for k, v in feeds.items()})


def types(graph):
    return [operation.type for operation in graph.get_operations()]


# What they are


def test_the_gradients_of_several_uses_add_up():
    x = number("x")
    (dx,) = gradients(x * x * x + x, x)
    assert value(dx, x=2.0) == 13


def test_gradients_come_in_the_order_of_xs():
    x, y, z = number("x"), number("y"), number("z")
    dx, dz, dy = gradients([x * y, y], [x, z, y])
    assert (value(dx, x=2.0, y=3.0), dz, value(dy, x=2.0, y=3.0)) == (3, None, 3)


@pytest.mark.parametrize("zero", ["zero", af.UnconnectedGradients.ZERO])
def test_unconnected_gradients_are_zeros_on_request(zero):
    x, y = number("x"), number("y", [2])
    (dy,) = gradients(x, y, unconnected_gradients=zero)
    np.testing.assert_array_equal(value(dy, y=[1.0, 2.0]), [0, 0])


def test_a_tensor_has_ones_as_its_own_gradient():
    x = number("x", [3])
    assert value(gradients(x, x)[0], x=np.arange(3.0)).tolist() == [1, 1, 1]


def test_grad_ys_are_what_arrives_at_ys():
    x = number("x", [2])
    (dx,) = gradients([x * 2, x * 3], [x], grad_ys=[[1.0, 10.0], None])
    assert value(dx, x=[0.0, 0.0]).tolist() == [5, 23]


def test_an_x_that_depends_on_another_x_gets_its_gradient_and_passes_it_on():
    a = number("a")
    b = a * 2
    da, db = gradients(a + b, [a, b])
    assert (value(da, a=1.0), value(db, a=1.0)) == (3, 1)


def test_stop_gradients_make_the_derivative_a_partial_one():
    a = number("a")
    b = a * 2
    da, db = gradients(a + b, [a, b], stop_gradients=[a, b])
    assert (value(da, a=1.0), value(db, a=1.0)) == (1, 1)
    assert gradients(b * 3, [a], stop_gradients=b) == [None]


def test_only_the_tensor_that_is_stopped_stops():
    x = number("x")
    first, second = af.identity_n([x * 2, x * 3])
    assert value(gradients(first + second, x, stop_gradients=[first])[0], x=1.0) == 3


def test_gradients_stop_where_the_op_says_so():
    x = number("x")
    assert gradients(af.stop_gradient(x) * x, x)[0] is not None
    assert gradients(af.stop_gradient(x), x) == [None]


def test_outputs_that_ys_do_not_use_count_as_zero():
    x = number("x", [3])
    first, _, third = af.unstack(x, 3)
    assert value(gradients(first * 2 + third, x)[0], x=np.zeros(3)).tolist() == [2, 0, 1]


def test_integers_have_no_gradient_and_pass_none_on():
    n = af.placeholder(af.int32, (), name="n")
    x = number("x")
    whole = af.cast(x, af.int32)
    assert gradients([x, whole * n], [n, x])[0] is None
    assert gradients(whole, x) == [None]


def test_what_was_built_later_and_does_not_matter_is_not_visited(graph):
    x = number("x")
    y = x * x
    gradients(y, x)
    before = types(graph)
    gradients(y, x)
    added = types(graph)[len(before) :]
    assert added == before[len(before) - len(added) :]


def test_a_long_chain_needs_no_stack(graph):
    x = number("x")
    y = x
    for _ in range(amount(4_000, 20_000)):
        y = af.identity(y)
    (dx,) = gradients(y, x)
    assert value(dx) == 1


def test_a_gradient_has_the_very_shape_of_its_x():
    x = number("x", [None, 3])
    w = number("w", [3, 2])
    (dx,) = gradients(af.matmul(x, w), x)
    assert dx.shape is x.shape


def test_shapes_that_are_told_to_be_alike_may_still_differ_in_what_is_open():
    a, b = number("a", [None]), number("b", None)
    b.set_shape(a.shape)
    (db,) = gradients(a * b, b)
    assert value(db, a=[1.0, 2.0], b=[3.0]).tolist() == [3]


def test_what_an_op_passes_on_keeps_the_shape_it_had():
    default = af.constant([1.0, 2.0])
    x = af.placeholder_with_default(default, [None])
    dy = af.placeholder(af.float32, [None])
    (dx,) = gradients(x, default, grad_ys=dy)
    assert dx is dy
    assert dy.shape.as_list() == [None]


# Where they are


def test_their_operations_are_named_after_those_they_differentiate(graph):
    x = number("x")
    with graph.name_scope("model"):
        y = af.multiply(x, x, name="square")
    made = graph.version
    gradients(y, x)
    names = {operation.name for operation in graph.get_operations()[made:]}
    assert "gradients/grad_ys_0" in names
    assert any(name.startswith("gradients/model/square_grad/") for name in names)
    assert gradients(y, x, name="again")[0].name.startswith("again/")


def test_they_remember_what_they_are_the_gradient_of():
    x = number("x")
    y = af.multiply(x, x, name="square")
    (dx,) = gradients(y, x)
    product = dx.op.inputs[0].op if dx.op.type == "add_n" else dx.op
    assert product.origin is y.op
    assert "gradient of 'square', built at" in describe_line(product)


def test_they_are_on_the_device_of_what_they_differentiate_on_request(graph):
    x = number("x")
    with graph.device("/device:GPU:1"):
        y = af.multiply(x, 3.0, name="y")
    (dx,) = gradients(y, x, colocate_gradients_with_ops=True)
    assert dx.op.colocation == ("y",)
    assert gradients(y, x)[0].op.colocation == ()


def test_gated_gradients_of_an_op_become_available_together():
    x, w = number("x"), number("w")
    dx, dw = gradients(x * w, [x, w], gate_gradients=True)
    assert dx.op is dw.op
    assert dx.op.type == "identity_n"
    assert value([dx, dw], x=2.0, w=3.0) == [3, 2]


# How they are added


def used_three_times(x):
    return x * 2 + x * 3 + x * 4


@pytest.mark.parametrize(
    ("method", "adding"),
    [
        (None, ["add_n"]),
        (af.AggregationMethod.ADD_N, ["add_n"]),
        (af.AggregationMethod.EXPERIMENTAL_TREE, ["add_n", "add_n"]),
        (af.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N, ["add_n", "add_n"]),
    ],
)
def test_an_aggregation_method_says_how(graph, method, adding):
    x = number("x")
    (dx,) = gradients(used_three_times(x), x, aggregation_method=method)
    assert [kind for kind in types(graph) if kind == "add_n"] == adding
    assert value(dx, x=1.0) == 9


def test_gradients_on_several_devices_are_added_per_device_first(graph):
    x = number("x")
    parts = []
    for device in ("/device:CPU:0", "/device:CPU:1"):
        with graph.device(device):
            parts += [af.multiply(x, 2.0), af.multiply(x, 3.0)]

    @af.RegisterGradient("test_per_device")
    def _(op, dy):
        with graph.device(op.device):
            return [af.multiply(dy, op.inputs[1]), None]

    for part in parts:
        part.op.gradient_override = "test_per_device"
    (dx,) = gradients(af.add_n(parts), x)
    assert [operation.type for operation in graph.get_operations()].count("add_n") == 4
    assert [len(tensor.op.inputs) for tensor in dx.op.inputs] == [2, 2]
    assert value(dx, x=1.0) == 10


# Slices


def test_gradients_of_rows_are_slices_of_what_they_were_taken_from():
    table = number("table", [4, 2])
    rows = af.gather(table, [1, 3])
    more = af.gather(table, af.constant([[1]], af.int64))
    (slices,) = gradients([rows, more], table)
    assert isinstance(slices, af.IndexedSlices)
    feeds = {"table": np.zeros((4, 2))}
    assert sorted(value(slices.indices, **feeds).tolist()) == [1, 1, 3]
    assert value(af.identity(slices), **feeds).tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]


def test_slices_and_dense_gradients_add_up_to_a_dense_one():
    table = number("table", [3, 1])
    (dx,) = gradients([af.gather(table, [1, 1]), table * 5.0], table)
    assert value(dx, table=np.zeros((3, 1))).tolist() == [[5], [7], [5]]


def test_slices_become_dense_where_they_are_computed_with():
    table = number("table", [3, 1])
    (dx,) = gradients(af.gather(table * 5.0, [1, 1]), table)
    assert value(dx, table=np.zeros((3, 1))).tolist() == [[0], [10], [0]]


async def test_the_gradient_of_a_variable_is_that_of_all_its_reads(graph):
    v = af.Variable([1.0, 2.0])
    (dv,) = gradients([v * v, v.read_value()], v)
    assert dv.shape is v.shape
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        assert (await session.run(dv)).tolist() == [3, 5]


async def test_the_gradient_of_looked_up_rows_of_a_variable_is_slices(graph):
    v = af.Variable(np.zeros((4, 2)))
    rows = af.gather(v, [1, 2])
    copied = af.gather(af.identity(v), [1])
    (dv,) = gradients([rows, copied * 5.0], v)
    assert isinstance(dv, af.IndexedSlices)
    assert dv.shape == (4, 2)
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        values, indices, dense_shape = await session.run(dv)
        assert sorted(zip(indices.tolist(), values.tolist(), strict=True)) == [(1, [1, 1]), (1, [5, 5]), (2, [1, 1])]
        assert dense_shape.tolist() == [4, 2]
        assert (await session.run(af.identity(dv))).tolist() == [[0, 0], [6, 6], [1, 1], [0, 0]]


def test_a_variable_that_ys_do_not_read_has_no_gradient_or_zeros():
    v = af.Variable([1.0, 2.0])
    assert gradients(number("x"), v) == [None]
    assert value(gradients(number("y"), v, unconnected_gradients="zero")[0]).tolist() == [0, 0]


def test_an_assignment_does_not_pass_gradients():
    v = af.Variable(1.0)
    x = af.placeholder(af.float32, ())
    assert gradients(af.assign(v, x), [x, v]) == [None, None]


# What is refused


@pytest.mark.parametrize(
    ("grad_ys", "error", "message"),
    [
        (lambda: [], ValueError, "0 grad_ys were given for 1 ys"),
        (lambda: [[1.0, 2.0, 3.0]], ValueError, r"grad_ys\[0\] has shape \[3\], and .*'y:0'.* has \[2\]"),
        (lambda: ["text"], TypeError, r"grad_ys\[0\]: .*'text' is not a value of dtype float64"),
        (lambda: [af.constant([1.0, 2.0])], TypeError, r"grad_ys\[0\] has dtype float32, and .* has float64"),
    ],
)
def test_grad_ys_must_fit_ys(graph, grad_ys, error, message):
    x = number("x", [2])
    y = af.identity(x, name="y")
    given = grad_ys()
    before = types(graph)
    with pytest.raises(error, match=message):
        gradients(y, x, given)
    assert types(graph) == before


def test_a_complex_y_needs_its_gradient():
    x = af.placeholder(af.complex128, [2], name="x")
    with pytest.raises(TypeError, match="complex tensor needs grad_ys"):
        gradients(x * x, x)
    (dx,) = gradients(x * x, x, grad_ys=[[1.0, 1j]])
    np.testing.assert_allclose(value(dx, x=[1j, 1.0]), [-2j, 2j])


@pytest.mark.parametrize("y", [True, "text"])
def test_truth_and_text_have_no_derivative(y):
    y = af.constant(y)
    with pytest.raises(TypeError, match=f"{y.dtype.name} has no gradient"):
        gradients(y, y)


def test_a_name_is_not_taken_for_a_tensor():
    with pytest.raises(TypeError, match="of tensors and variables, not 'y:0'"):
        gradients("y:0", number())


def test_xs_are_tensors_and_variables():
    with pytest.raises(TypeError, match=r"with respect to tensors and variables, not 3\.0"):
        gradients(number(), 3.0)
    with af.Graph().as_default():
        stranger = number()
    with pytest.raises(ValueError, match="another graph"):
        gradients(number(), stranger)


@pytest.mark.parametrize("options", [{"aggregation_method": 7}, {"unconnected_gradients": "nothing"}])
def test_options_that_do_not_exist_are_refused(options):
    with pytest.raises(ValueError, match=r"7 is not an aggregation method|'none' or 'zero', not 'nothing'"):
        gradients(number(), number(), **options)


def test_an_op_without_gradient_and_reason_is_named_with_the_users_line(graph, declare):
    @declare
    def opaque(x: Spec) -> Spec:
        """Something."""
        return x

    x = number("x")
    y = opaque(x * 2.0, name="dark")
    before = types(graph)
    named = r"no gradient is known for 'dark' \(opaque\)\n  built at: .*test_gradients.py:\d+ in test_an_op"
    with pytest.raises(LookupError, match=named):
        gradients(y * 3.0, x)
    assert types(graph)[: len(before)] == before
    assert value(gradients(y * 3.0, y)[0]) == 3
    assert value(gradients(y + x, x, stop_gradients=[y])[0]) == 1


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda dy: (dy, dy), ValueError, r"2 gradients were built for the 1 inputs of 'odd'"),
        (lambda dy: af.cast(dy, af.int32), ValueError, r"is float64\[2\], and its gradient is int32\[2\]"),
        (lambda dy: af.concat([dy, dy], 0), ValueError, r"is float64\[2\], and its gradient is float64\[4\]"),
        (lambda dy: 1.0, TypeError, r"the gradient of input 0 of 'odd' is neither a Tensor nor IndexedSlices: 1\.0"),
    ],
)
def test_a_gradient_of_the_wrong_form_is_refused(graph, declare, made, error, message):
    @declare
    def odd(x: Spec) -> Spec:
        """Something."""
        return x

    odd.gradient(lambda op, dy: made(dy))
    x = number("x", [2])
    y = odd(x)
    before = types(graph)
    with pytest.raises(error, match=message) as caught:
        gradients(y, x)
    assert "in the gradient of 'odd' (odd), built at" in caught.value.__notes__[0]
    assert types(graph) == before


def test_a_prevented_gradient_raises_its_message():
    x = number("x")
    with pytest.raises(LookupError, match="not through here"):
        gradients(af.prevent_gradient(x, message="not through here"), x)
    with pytest.raises(LookupError, match=r"the gradient through 'p' is prevented\n"):
        gradients(af.prevent_gradient(x, name="p"), x)


# Gradients chosen by users


def test_an_operation_uses_the_gradient_that_was_chosen_where_it_was_built(graph):
    @af.RegisterGradient("test_doubled")
    def _(op, dy):
        return dy * 2

    x = number("x")
    with graph.gradient_override_map({"identity": "test_doubled", "floor": "identity", "negative": "stop_gradient"}):
        chosen, straight, stopped = af.identity(x), af.floor(x), -x
    found = [gradients(y, x)[0] for y in (chosen, straight, stopped, af.identity(x), af.floor(x))]
    assert [None if g is None else value(g, x=1.5) for g in found] == [2, 1, None, 1, None]


def test_gradients_stop_at_types_declared_so():
    af.NotDifferentiable("test_nothing")
    x = number("x")
    y = af.identity(x)
    y.op.gradient_override = "test_nothing"
    assert gradients(y, x) == [None]
    assert get_gradient_function(y.op) is None


def test_a_chosen_gradient_must_exist(graph):
    x = number("x")
    with graph.gradient_override_map({"identity": "missing"}):
        y = af.identity(x, name="y")
    with pytest.raises(LookupError, match="no gradient named 'missing' is known for 'y'"):
        gradients(y, x)


@pytest.mark.parametrize("name", ["test_twice", "identity", "stop_gradient"])
def test_a_gradient_is_registered_once(name):
    if name == "test_twice":
        af.RegisterGradient(name)(lambda op, dy: dy)
    with pytest.raises(KeyError, match=f"'{name}' is registered already"):
        af.RegisterGradient(name)(lambda op, dy: dy)


def test_a_gradient_is_registered_by_a_name():
    with pytest.raises(TypeError, match="by a name"):
        af.RegisterGradient(lambda op, dy: dy)


# Second derivatives


def test_hessians_are_the_second_derivatives():
    x = number("x", [2])
    (h,) = af.hessians(af.reduce_sum(x * x * x) + x[0] * x[1], x)
    np.testing.assert_allclose(value(h, x=[1.0, 2.0]), [[6, 1], [1, 12]])
    assert value(af.hessians(x * 2, x)[0], x=[1.0, 2.0]).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match="fully known shape"):
        af.hessians(x, number("open", [None]))


# Any graph

STEPS = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "tanh": lambda a, b: af.tanh(a),
    "swap": lambda a, b: af.stack(af.unstack(a, 2)[::-1]),
    "first": lambda a, b: af.stack([af.unstack(a, 2)[0], b[1]]),
    "rows": lambda a, b: af.gather(a, [1, 1]) + b,
    "both": lambda a, b: af.identity_n([a, b])[1] * a,
    "custom": lambda a, b: af.custom_gradient(lambda x: (af.exp(x * 0.1), lambda dy: dy * 0.1 * af.exp(x * 0.1)))(a),
}
PROGRAMS = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)), max_size=9)


def follow(program, *inputs):
    values = list(inputs)
    for step, first, second in program:
        values.append(STEPS[step](values[-1 - first % len(values)], values[second % len(values)]))
    return values[-1]


@given(PROGRAMS)
async def test_gradients_of_any_graph_agree_with_differences(program):
    points = [np.array([0.5, -0.75]), np.array([1.25, 0.3])]
    await check_gradients(lambda *inputs: follow(program, *inputs), points, compute=evaluate, rtol=1e-4)


@given(PROGRAMS, st.booleans(), st.booleans(), st.sampled_from([0, 1, 2]))
def test_options_do_not_change_values(program, colocate, gate, method):
    with af.Graph().as_default():
        x = number("x", [2])
        y = follow(program, x)
        (plain,) = gradients(y, x, unconnected_gradients="zero")
        (tuned,) = gradients(y, x, None, "tuned", colocate, gate, method, unconnected_gradients="zero")
        plain, tuned = value([af.identity(plain), af.identity(tuned)], x=[0.5, -0.75])
        np.testing.assert_allclose(tuned, plain, rtol=1e-12)
