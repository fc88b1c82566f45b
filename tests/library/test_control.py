"""Scopes and collections of the default graph, group, tuple: library/control.py."""

import numpy as np
import pytest

import aioflow as af
from aioflow.library import control


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_scopes_are_those_of_the_default_graph(graph):
    x = af.no_op(name="x")
    with (
        control.name_scope("s") as scope,
        control.control_dependencies([x]),
        control.container("c"),
        control.device("/gpu:0"),
    ):
        y = af.no_op(name="y")
    with control.colocate_with(y):
        z = af.no_op(name="z")
    assert (scope, y.name, y.control_inputs, y.container, y.device) == ("s/", "s/y", (x,), "c", "/device:GPU:0")
    assert z.colocation == ("s/y",)


def test_a_name_scope_takes_name_default_or_the_graph_of_its_values():
    with af.Graph().as_default() as other:
        value = af.constant(1.0)
    for arguments, expected in (
        (("n", "d"), "n/"), ((None, "d"), "d/"), (("", "d"), ""), ((None,), ""), (("n_1/",), "n_1/"),
    ):  # fmt: skip
        with control.name_scope(*arguments) as scope:
            assert scope == expected
    with control.name_scope(None, "d", [3, value]) as scope:
        assert (scope, af.get_default_graph()) == ("d/", other)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((None, None, [1]), ValueError, "needs a name or a default_name"),
        ((3,), TypeError, "a name scope's name is text, not 3"),
        (("_",), ValueError, "'_' is not a valid scope name"),
    ],
)
def test_a_malformed_name_scope_is_refused(arguments, error, text):
    with pytest.raises(error, match=text), control.name_scope(*arguments):
        pass


def test_collections_are_those_of_the_default_graph(graph):
    control.add_to_collection("one", 1)
    control.add_to_collections(["one", "two"], 2)
    control.get_collection_ref("two").append(3)
    assert (control.get_collection("one"), control.get_collection("two")) == ([1, 2], [2, 3])
    assert control.get_collection("one", "x") == []


def test_a_group_is_done_when_all_is(graph):
    x, y, variable = af.constant(1.0), af.no_op(), af.Variable(1.0)
    operation = control.group(x, [y, {"v": variable}], (x,), name="all")
    assert (operation.name, operation.inputs) == ("all", ())
    assert operation.control_inputs == (x.op, y, variable.op)
    assert control.group().control_inputs == ()
    with pytest.raises(TypeError, match="3 of type int is neither an operation nor a tensor"):
        control.group(x, 3)


def test_a_group_is_in_the_graph_of_its_inputs():
    with af.Graph().as_default() as other:
        x = af.constant(1.0)
    assert control.group(x).graph is other


async def test_a_tuple_is_available_when_all_of_it_is(graph):
    order = []
    x = af.py_func(lambda: order.append("x") or np.float32(1), [], af.float32)
    y = af.constant(2.0)
    first = af.py_func(lambda: order.append("first"), [], [])
    one, none, two, op = control.tuple([x, None, y, af.no_op()], control_inputs=[first])
    assert none is None
    assert isinstance(op, af.Operation)
    last = af.py_func(lambda value: order.append("last"), [two], [])
    async with af.Session(graph=graph) as session:
        assert await session.run([one, two, op]) == [1, 2, None]
        assert sorted(order) == ["first", "x"]
        order.clear()
        await session.run(last)
    assert (sorted(order), order[-1]) == (["first", "last", "x"], "last")


def test_indexed_slices_are_held_back_by_their_values(graph):
    slices = af.IndexedSlices(af.constant([[1.0]]), af.constant([0]))
    (held,) = control.tuple([slices])
    assert isinstance(held, af.IndexedSlices)
    assert held.indices is slices.indices
    assert held.values.op.control_inputs[0].control_inputs == (slices.values.op,)


def test_a_tuple_that_cannot_be_built_leaves_the_graph_as_it_was(graph):
    x = af.no_op()
    with pytest.raises(ValueError, match="at least one tensor or operation"):
        control.tuple([None])
    with pytest.raises(TypeError, match="neither an operation nor a tensor"):
        control.tuple([1.0, x], control_inputs=[3])
    assert graph.version == 1


def test_what_is_a_tensor():
    x = af.constant([1.0])
    yes = x, af.Variable(1.0), af.IndexedSlices(x, af.constant([0]))
    assert all(map(control.is_tensor, yes))
    assert not any(map(control.is_tensor, (1.0, np.ones(2), [x], x.op, af.TensorShape([1]), None)))


@pytest.fixture
def celsius():
    kind = type("Celsius", (), {"degrees": 3.0})
    yield kind
    control.CONVERTERS.pop(kind, None)
    control._REGISTERED.pop(kind, None)


def test_a_class_is_taught_to_become_a_tensor(celsius):
    asked = []

    def declined(value, dtype=None, name=None, as_ref=False):
        asked.append((dtype, name, as_ref))
        return NotImplemented

    def made(value, dtype=None, name=None, as_ref=False):
        return af.constant(value.degrees, dtype)

    control.register_tensor_conversion_function(celsius, made)
    control.register_tensor_conversion_function((celsius,), declined, priority=50)
    assert af.add(celsius(), af.constant(1.0, af.float64)).dtype is af.float64
    assert af.convert_to_tensor(type("Hot", (celsius,), {})()).shape == []
    assert asked == [(af.float64, None, False), (None, None, False)]


def test_a_class_that_makes_no_tensor_says_so(celsius):
    control.register_tensor_conversion_function(celsius, lambda value, **options: NotImplemented)
    with pytest.raises(TypeError, match=r"no function makes a tensor of .* of dtype int32"):
        af.convert_to_tensor(celsius(), "int32")
    control.register_tensor_conversion_function(celsius, lambda value, **options: 3, 1)
    with pytest.raises(TypeError, match="made 3 of a Celsius, which is not a tensor"):
        af.convert_to_tensor(celsius())


@pytest.mark.parametrize(
    ("kind", "function", "text"),
    [
        (3, abs, "base_type is a class or a tuple of classes, not 3"),
        ((), abs, "base_type is a class"),
        (str, abs, "how str becomes a tensor cannot be changed"),
        (np.ndarray, abs, "how ndarray becomes a tensor cannot be changed"),
        (object, abs, "how object becomes a tensor cannot be changed"),
        (af.Variable, abs, "how Variable becomes a tensor cannot be changed"),
        (set, 3, "conversion_func must be callable, not 3"),
    ],
)
def test_what_a_class_is_taught_must_make_sense(kind, function, text):
    with pytest.raises(TypeError, match=text):
        control.register_tensor_conversion_function(kind, function)


async def test_an_init_scope_builds_outside_of_branches_and_control_dependencies():
    with af.Graph().as_default() as graph:
        before = af.no_op(name="before")
        with af.control_dependencies([before]), af.name_scope("outer"), af.device("/cpu:0"):
            with af.init_scope() as nothing:
                y = af.constant(2, name="y")
            inside = {}

            def branch():
                with af.init_scope():
                    inside["lifted"] = af.constant(3, name="lifted")
                return inside["lifted"] * 2

            z = af.cond(af.constant(True), branch, lambda: af.constant(0))
        assert (nothing, y.op.name, y.op.control_inputs) == (None, "outer/y", ())
        assert inside["lifted"].graph is graph
        assert inside["lifted"].op.control_inputs == ()
        async with af.Session(graph=graph) as session:
            assert await session.run([z, inside["lifted"]]) == [6, 3]
