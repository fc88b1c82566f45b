"""Print, Assert and its family, check_numerics: kernels/debugging.py and kernels/assertions.py."""

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.context import Context
from aioflow.kernels.control import assertions, debugging
from aioflow.kernels.control.assertions import Assert
from aioflow.kernels.control.debugging import Print, add_check_numerics_ops, check_numerics, summarize_value
from aioflow.resources.containers import Resources
from aioflow.tensors.dtypes import DeviceKind
from tests.support.evaluate import View, evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def perform(operation, *values):
    """Run the kernel of an operation without outputs, on these values or those of its constant inputs."""
    view = View(operation)
    kernel = operation.definition.kernel_for(DeviceKind.CPU, view.input_specs)
    kernel.bind(operation.definition, view, np)(*(values or evaluate(list(operation.inputs))))


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (1.5, None, "1.5"),
        (np.float32(0.1), None, "0.1"),
        ([1, 2, 3], None, "1 2 3"),
        ([1, 2, 3, 4], None, "1 2 3..."),
        ([1, 2, 3, 4], 1, "1..."),
        ([1, 2, 3, 4], -1, "1 2 3 4"),
        ([1, 2], 0, "..."),
        ([], None, ""),
        ([[1, 2], [3, 4]], None, "[1 2][3]..."),
        ([[1, 2], [3, 4]], 4, "[1 2][3 4]"),
        ([[[1], [2]], [[3], [4]]], -1, "[[1][2]][[3][4]]"),
        (np.zeros((0, 2)), None, ""),
        (np.array([b"a", b"\xff"], object), None, "a \\xff"),
        ([True, False], None, "True False"),
    ],
)
def test_values_are_summarized_by_their_first_elements(value, limit, text):
    assert summarize_value(np.asarray(value), limit) == text


# Print


class Session:
    """Runs kernels that want a Context, with the state of one session."""

    def __init__(self):
        self.context = Context(np, Resources(), None)

    def run(self, tensor, *values):
        view = View(tensor.op)
        kernel = tensor.op.definition.kernel_for(DeviceKind.CPU, view.input_specs)
        return kernel.bind(tensor.op.definition, view, np)(self.context, *values)


def test_print_passes_its_input_on_and_writes_to_stderr(capfd):
    x = af.placeholder(af.float32, [None])
    y = Print(x, [x, "text", 2], message="x: ")
    value = np.array([1, 2, 3, 4], np.float32)
    assert Session().run(y, value, value, b"text", np.int32(2)) is value
    assert y.shape is x.shape
    assert capfd.readouterr().err == "x: [1.0 2.0 3.0...][text][2]\n"


def test_print_is_bounded_per_session_and_per_operation(capfd):
    y, z = Print(1.0, [1], first_n=2, message="y"), Print(1.0, [1], first_n=1, summarize=0, message="z")
    first, second = Session(), Session()
    for session in (first, first, first, second):
        session.run(y, np.float32(1), np.int32(1))
        session.run(z, np.float32(1), np.int32(1))
    assert capfd.readouterr().err.split() == ["y[1]", "z[...]", "y[1]", "y[1]", "z[...]"]


def test_a_negative_bound_is_none(capfd):
    y, session = Print(1.0, [], first_n=-1, message="y"), Session()
    for _ in range(3):
        session.run(y, np.float32(1))
    assert capfd.readouterr().err == "y\n" * 3


def test_the_gradient_goes_past_print_and_not_to_its_data():
    x, other = af.placeholder(af.float64, []), af.placeholder(af.float64, [])
    dx, dother = af.gradients(Print(x, [x, other]) * 3.0, [x, other])
    assert evaluate(dx, {x: 2.0}) == 3.0
    assert dother is None


# Assert


def test_assert_fails_the_run_with_its_data():
    operation = Assert(af.placeholder(af.bool, []), ["x is", [1, 2, 3, 4]], summarize=2, name="check")
    perform(operation, np.bool_(True), b"x is", np.arange(4))
    with pytest.raises(errors.InvalidArgumentError) as caught:
        perform(operation, np.bool_(False), np.array(b"x is", object), np.arange(4))
    assert caught.value.message == "assertion failed: [x is] [0 1...]"
    assert operation.outputs == ()


def test_assert_takes_one_truth_value():
    with pytest.raises(TypeError, match="dtype float32 is not supported; use one of bool"):
        Assert(1.0, [])
    with pytest.raises(ValueError, match=r"rank 0 is needed, the shape is \[1\]"):
        Assert([True], [])


def test_a_branch_that_must_not_be_taken_can_be_built():
    assert Assert(False, ["unreachable"]).type == "assert"


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("assert_equal", (2, 2), (2, 3)),
        ("assert_none_equal", (2, 3), (2, 2)),
        ("assert_less", (2, 3), (2, 2)),
        ("assert_less_equal", (2, 2), (3, 2)),
        ("assert_greater", (3, 2), (2, 2)),
        ("assert_greater_equal", (2, 2), (2, 3)),
        ("assert_positive", (1,), (0,)),
        ("assert_negative", (-1,), (0,)),
        ("assert_non_negative", (0,), (-1,)),
        ("assert_non_positive", (0,), (1,)),
    ],
)
def test_comparisons_fail_in_the_run_or_when_all_is_known(graph, name, holds, fails):
    build = getattr(assertions, name)
    build(*holds)
    fed = [af.placeholder(af.int32, None) for _ in holds]
    operation = build(*fed)
    constants = [np.array(0)] * (2 - len(holds))
    perform(operation, *map(np.array, holds), *constants)
    before = graph.version
    for fail in (lambda: build(*fails), lambda: perform(operation, *map(np.array, fails), *constants)):
        with pytest.raises(errors.InvalidArgumentError, match="does not hold for 1 of 1 elements"):
            fail()
    assert graph.version == before


def test_a_failed_comparison_says_where_and_what():
    with pytest.raises(errors.InvalidArgumentError) as caught:
        assertions.assert_less([[1, 5, 6]], [[4], [6]], data=["seen", [7, 8]], summarize=2, message="order")
    assert (
        caught.value.message == "order: x < y does not hold for 3 of 6 elements: x = [5 6...], y = [4 4...] [seen][7 8]"
    )
    assert caught.value.op == "assert_less"
    assert __file__ in caught.value.line
    assert caught.value.shapes[:2] == ("int32[1, 3]", "int32[2, 1]")


def test_comparisons_check_dtypes_and_shapes():
    assertions.assert_equal(["a", "b"], ["a", "b"])
    with pytest.raises(TypeError, match="dtype string is not supported"):
        assertions.assert_less("a", "b")
    with pytest.raises(ValueError, match="cannot be broadcast together"):
        assertions.assert_equal([1, 2], [1, 2, 3])
    with pytest.raises(TypeError, match=r"has dtype int32, float32 is needed; use af.cast"):
        assertions.assert_equal(af.constant(1.0), af.constant(1))


def test_nan_equals_nothing():
    with pytest.raises(errors.InvalidArgumentError, match="does not hold for 1 of 2 elements"):
        assertions.assert_equal(np.array([1.0, np.nan]), np.array([1.0, np.nan]))


# Nearness, ranks, dtypes


@pytest.mark.parametrize(
    ("arguments", "holds"),
    [
        ((1.0, 1.0 + 1e-6), True),
        ((1.0, 1.0 + 1e-5), False),
        (([1.0, 100.0], [1.1, 101.0], 0.1), True),
        ((1.0, 2.0, 0.0, 1.0), True),
        ((1.0, np.nan), False),
        ((np.inf, np.inf), True),
        ((np.inf, 1.0), False),
        ((3, 3), True),
        ((np.uint8(3), np.uint8(4), 0, 1), True),
        ((np.uint8(4), np.uint8(6), 0, 1), False),
        ((np.complex64(1j), np.complex64(1j + 1e-7)), True),
        ((np.float16(1), np.float16(1.009)), True),
        ((np.float16(1), np.float16(1.05)), False),
    ],
)
def test_near_is_within_the_tolerances(arguments, holds):
    if holds:
        with np.errstate(invalid="ignore"):
            perform(assertions.assert_near(*arguments))
    else:
        with pytest.raises(errors.InvalidArgumentError, match=r"m: x and y are not near for 1 of \d elements: x = "):
            assertions.assert_near(*arguments, message="m")


@pytest.mark.parametrize(
    ("name", "wanted", "good", "bad", "text"),
    [
        ("assert_rank", 1, [2], [], r"a rank equal to 1 is needed, "),
        ("assert_rank_at_least", 1, [2, 3], [], r"a rank of at least 1 is needed, "),
        ("assert_rank_in", (0, 2), [2, 3], [2], r"a rank among \[0, 2\] is needed, "),
    ],
)
def test_ranks_are_checked_when_built_or_else_in_the_run(name, wanted, good, bad, text):
    build = getattr(assertions, name)
    assert build(np.zeros(good), wanted).type == "no_op"
    with pytest.raises(ValueError, match=f"m: {text}constant.*:0 has shape"):
        build(np.zeros(bad), wanted, message="m")
    operation = build(af.placeholder(af.float32, None), wanted, ["seen"])
    seen = np.array(b"seen", object)
    perform(operation, np.array(good, np.int32), np.array(wanted), seen)
    with pytest.raises(errors.InvalidArgumentError, match=rf"^{text}the shape is .* \[seen\]$"):
        perform(operation, np.array(bad, np.int32), np.array(wanted), seen)


def test_what_is_known_of_a_tensor_is_asserted_when_the_graph_is_built():
    x, n = af.placeholder(af.float64, []), af.constant([1])
    assert assertions.assert_scalar(x) is x
    assert assertions.assert_type(x, "float64").type == assertions.assert_integer(n).type == "no_op"
    assert assertions.assert_same_float_dtype([x]) == assertions.assert_same_float_dtype([x], "float64") == af.float64
    assert assertions.assert_same_float_dtype() == af.float32


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: assertions.assert_scalar([1]), ValueError, r"must be known to be a scalar, its shape is \[1\]"),
        (lambda: assertions.assert_scalar(af.placeholder(af.int32)), ValueError, "its shape is <unknown>"),
        (lambda: assertions.assert_rank(1, 0.5), TypeError, "dtype float32 is not supported"),
        (lambda: assertions.assert_type(1, af.int64, "m"), TypeError, "m: constant:0 has dtype int32, not int64"),
        (lambda: assertions.assert_integer(1.0), TypeError, "has dtype float32, which holds no integers"),
        (lambda: assertions.assert_same_float_dtype([1.0], "float64"), ValueError, "has dtype float32, not af.float64"),
        (lambda: assertions.assert_same_float_dtype([af.constant(1)]), ValueError, "floating dtype is needed, not af."),
        (lambda: assertions.assert_near("a", "a"), TypeError, "dtype string is not supported"),
    ],
)
def test_what_is_not_so_is_refused_when_the_graph_is_built(build, error, text):
    with pytest.raises(error, match=text):
        build()


# check_numerics


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.complex64]
)
def test_check_numerics_counts_what_is_not_finite(dtype):
    x = af.placeholder(af.as_dtype(dtype), [None])
    y = check_numerics(x, "loss")
    good = np.array([1, 2], dtype)
    assert evaluate(y, {x: good}) is good
    assert evaluate(y, {x: good[:0]}).size == 0
    with pytest.raises(errors.InvalidArgumentError) as caught:
        evaluate(y, {x: np.array([np.nan, 1, np.inf, -np.inf], dtype)})
    assert caught.value.message == "loss: 1 NaN and 2 infinite of 4 elements"


def test_check_numerics_takes_scalars_and_floats_alone():
    x = af.placeholder(af.float32, [])
    assert evaluate(check_numerics(x, "x"), {x: np.float32(1)}) == 1
    with pytest.raises(errors.InvalidArgumentError, match="x: 0 NaN and 1 infinite of 1 elements"):
        evaluate(check_numerics(x, "x"), {x: np.float32(np.inf)})
    with pytest.raises(TypeError, match="dtype int32 is not supported"):
        check_numerics(1, "x")


def test_the_gradient_is_checked_too():
    x = af.placeholder(af.float64, [])
    (dx,) = af.gradients(check_numerics(x, "h") ** 0.5, x)
    assert evaluate(dx, {x: np.float64(4)}) == 0.25
    with pytest.raises(errors.InvalidArgumentError, match="in the gradient of: h: 0 NaN and 1 infinite"):
        evaluate(dx, {x: np.float64(0)})


def test_verify_tensor_all_finite_is_the_same():
    with pytest.raises(errors.InvalidArgumentError, match="w: 1 NaN"):
        evaluate(debugging.verify_tensor_all_finite([np.nan], "w"))


def test_the_first_tensor_that_is_not_finite_is_the_one_that_is_named(graph):
    x = af.placeholder(af.float32, [], name="x")
    af.subtract(af.log(x, name="log"), 1.0, name="later")
    af.constant(3)
    operation = add_check_numerics_ops()
    checks = [op for op in graph.get_operations() if op.type == "check_numerics"]
    assert [check.attrs["message"] for check in checks] == ["x:0", "log:0", "constant:0", "later:0"]
    for before, check in zip([(), *[(check,) for check in checks]], [*checks, operation], strict=True):
        assert check.control_inputs == before
    again = add_check_numerics_ops()
    assert len([op for op in graph.get_operations() if op.type == "check_numerics"]) == 2 * len(checks)
    assert again is not operation


def test_looking_at_all_tensors_updates_no_variable(graph):
    weight = af.Variable(1.0, name="weight")
    af.identity(weight.assign_add(1.0), name="after")
    with graph.control_dependencies([weight.assign(2.0)]):
        af.constant(1.0, name="behind")
    operation = add_check_numerics_ops()
    reached, waiting = set(), [operation]
    while waiting:
        op = waiting.pop()
        reached.add(op.type)
        waiting += [*[tensor.op for tensor in op.inputs], *op.control_inputs]
    assert "check_numerics" in reached
    assert not {"assign_variable", "assign_add_variable"} & reached
