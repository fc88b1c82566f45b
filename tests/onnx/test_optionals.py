"""Optionals of which only the run knows whether they are empty: fed, fetched, made by branches, carried by loops."""

import numpy as np
import pytest

import aioflow as af
from tests.onnx.models import graph, helper, model, node, onnx, value
from tests.onnx.test_sequences import assert_same, outputs_of

X = np.array([1, 2], np.float32)


def optional(name, element):
    """The declaration of an optional of what that declaration says."""
    return helper.make_value_info(name, helper.make_optional_type_proto(element.type))


def listed(name):
    """The declaration of a sequence of float32."""
    return helper.make_tensor_sequence_value_info(name, onnx.TensorProto.FLOAT, None)


def filled(name, of):
    """A branch that returns an optional with `of`."""
    return graph([node("Optional", [of], [name])], [], [optional(name, value(name, [None]))])


def nothing(name, element):
    """A branch that returns an empty optional."""
    return graph([node("Optional", [], [name], type=element.type)], [], [optional(name, element)])


@pytest.mark.parametrize(
    ("element", "given"),
    [
        (value("x", [None]), X),
        (value("x"), X),
        (value("x", ["n"], np.int64), np.array([3])),
        (helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [None]), np.array([b"tea"], object)),
        (listed("x"), [X, X[:1]]),
    ],
)
async def test_an_optional_input_is_fed_its_value_or_none(element, given):
    data = model(
        [node("OptionalHasElement", ["x"], ["has"]), node("Identity", ["x"], ["y"])],
        [optional("x", element)],
        [value("has", [], np.bool_), optional("y", element)],
    )
    with_value, without = await outputs_of(data, (given,), (None,))
    assert (bool(with_value[0]), bool(without[0]), without[1]) == (True, False, None)
    assert_same(with_value[1], given)


async def test_a_branch_fills_an_optional_and_the_other_one_leaves_it_empty():
    data = model(
        [
            node("If", ["q"], ["y"], then_branch=filled("a", "x"), else_branch=nothing("b", value("b", [None]))),
            node("OptionalHasElement", ["y"], ["has"]),
        ],
        [value("q", [], np.bool_), value("x", [2])],
        [optional("y", value("y", [None])), value("has", [], np.bool_)],
    )
    (full, has), (empty, has_not) = await outputs_of(data, (True, X), (False, X))
    assert_same(full, X)
    assert (empty, bool(has), bool(has_not)) == (None, True, False)


async def test_the_element_of_an_empty_optional_fails_the_run_unless_a_branch_avoids_it():
    get = graph([node("OptionalGetElement", ["x"], ["a"])], [], [value("a", [None])])
    other = graph([node("Identity", ["d"], ["b"])], [], [value("b", [None])])
    data = model(
        [
            node("OptionalHasElement", ["x"], ["has"]),
            node("If", ["has"], ["y"], then_branch=get, else_branch=other),
        ],
        [optional("x", value("x", [None])), value("d", [None])],
        [value("y", [None])],
    )
    (y,), (default,) = await outputs_of(data, (X, X[:1]), (None, X[:1]))
    assert_same([y, default], [X, X[:1]])
    plain = model([node("OptionalGetElement", ["x"], ["y"])], [optional("x", value("x", [2]))], [value("y", [2])])
    assert_same(await outputs_of(plain, (X,)), [[X]])
    with pytest.raises(af.errors.InvalidArgumentError, match="the optional has no value"):
        await outputs_of(plain, (None,))


@pytest.mark.parametrize("kind", ["tensor", "sequence"])
async def test_a_loop_carries_an_optional_that_an_iteration_fills_or_empties(kind):
    element = value("x", [2]) if kind == "tensor" else listed("x")
    full = X if kind == "tensor" else [X]
    pick = node("Optional", ["x" if kind == "tensor" else "list"], ["a"])
    fill = graph([node("SequenceConstruct", ["x"], ["list"]), pick], [], [optional("a", element)])
    step = graph(
        [
            node("OptionalHasElement", ["before"], ["has"]),
            node("If", ["has"], ["after"], then_branch=nothing("b", element), else_branch=fill),
            node("Identity", ["go"], ["on"]),
            node("Identity", ["has"], ["had"]),
        ],
        [value("i", [], np.int64), value("go", [], np.bool_), optional("before", element)],
        [value("on", [], np.bool_), optional("after", element), value("had", [], np.bool_)],
    )
    data = model(
        [
            node("Optional", [], ["empty"], type=element.type),
            node("Loop", ["n", "", "empty"], ["y", "flags"], body=step),
        ],
        [value("n", [], np.int64), value("x", [2])],
        [optional("y", element), value("flags", [None], np.bool_)],
    )
    (none, flags), (some, more), (never, no_flags) = await outputs_of(data, *[(np.int64(n), X) for n in (2, 3, 0)])
    assert (none, never) == (None, None)
    assert_same(some, full)
    assert [each.tolist() for each in (flags, more, no_flags)] == [[False, True], [False, True, False], []]


def test_an_optional_is_no_input_of_an_operator_that_needs_its_element():
    data = model([node("Relu", ["x"], ["y"])], [optional("x", value("x", [2]))], [value("y", [2])])
    with pytest.raises(TypeError, match="its input 'X' must be a tensor, and an optional is given"):
        af.onnx.load(data, af.Graph())
