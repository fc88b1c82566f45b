"""Graphs of TensorFlow become graphs of aioflow that compute the same; files that are none are told apart."""

from pathlib import Path

import numpy as np
import pytest

import aioflow as af
from aioflow.graph.op import REGISTRY
from aioflow.kernels.data import tensor_wire
from aioflow.kernels.data.node_messages import TensorShapeProto
from aioflow.tensorflow_files import messages
from aioflow.tensorflow_files.registry import OPERATORS, Same
from tests.support.docstring_examples import failures

DATA = Path(__file__).parent / "data"
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
MODELS = [
    "perceptron", "convolutional", "primitive_branch", "primitive_loop", "functional_loop", "lstm", "functional_lstm",
]  # fmt: skip
load = af.tensorflow_files.import_graph_def


def node(name, op, *inputs, **attr):
    return messages.NodeDef(name=name, op=op, input=list(inputs), attr=attr)


def const(name, value, *inputs):
    tensor = messages.AttrValue(tensor=tensor_wire.encode(np.asarray(value)))
    return node(name, "Const", *inputs, value=tensor)


def placeholder(name, number=1):
    return node(name, "Placeholder", dtype=messages.AttrValue(type=number))


def graph_def(*nodes, functions=()):
    return messages.GraphDef(node=nodes, library=messages.FunctionLibrary(function=functions)).SerializeToString()


@pytest.mark.parametrize("model", MODELS)
async def test_a_model_that_tensorflow_wrote_gives_its_numbers(model):
    with af.Graph().as_default() as graph:
        x, y = load(DATA / f"{model}.pb", return_elements=["x:0", "y:0"])
        assert (x.name, y.name) == ("import/x:0", "import/y:0")
    async with af.Session(graph=graph) as session:
        np.testing.assert_allclose(await session.run(y, {x: X}), np.load(DATA / f"{model}.npy"), 1e-5)


async def test_variables_of_tensorflow_are_read_where_ops_take_values_and_changed_where_they_are_assigned():
    shape, number = messages.AttrValue(shape=TensorShapeProto()), messages.AttrValue(type=1)
    data = graph_def(
        node("v", "VariableV2", dtype=messages.AttrValue(type=101), shape=shape), const("one", np.float32(1)),
        node("init", "Assign", "v", "one"), node("more", "AssignAdd", "v", "one"), node("twice", "AddV2", "v", "v"),
        node("after", "Neg", "more"), node("w", "VarHandleOp", dtype=number, shape=shape),
        node("set", "AssignVariableOp", "w", "one"), node("read", "ReadVariableOp", "w", "^set"),
    )  # fmt: skip
    with af.Graph().as_default() as graph:
        init, twice, after, read = load(data, return_elements=["init", "twice:0", "after:0", "read:0"], name="")
    async with af.Session(graph=graph) as session:
        await session.run(init)
        assert (await session.run(twice), await session.run(after), await session.run(twice)) == (2, -2, 4)
        assert await session.run(read) == 1


async def test_inputs_are_replaced_and_only_what_is_asked_for_is_built():
    data = graph_def(placeholder("x"), node("y", "Relu", "x"), node("z", "Unheard", "y"), node("axes", "Neg", "y"))
    with af.Graph().as_default() as graph:
        (y,) = load(data, {"x:0": af.constant([-1.0, 3.0])}, ["y:0"], name="net")
        assert [each.name for each in graph.get_operations() if each.name.startswith("net")] == ["net/x", "net/y"]
    async with af.Session(graph=graph) as session:
        np.testing.assert_array_equal(await session.run(y), [0, 3])


async def test_a_sum_over_all_axes_of_a_tensor_of_unknown_rank_is_known():
    data = graph_def(
        placeholder("x"), node("rank", "Rank", "x"), const("zero", np.int32(0)), const("one", np.int32(1)),
        node("axes", "Range", "zero", "rank", "one"), node("y", "Sum", "x", "axes"),
    )  # fmt: skip
    with af.Graph().as_default() as graph:
        load(data, name="")
    async with af.Session(graph=graph) as session:
        assert await session.run("y:0", {"x:0": [[1.0, 2.0]]}) == 3


async def test_an_attribute_that_is_zero_is_not_the_default():
    data = graph_def(placeholder("x"), node("y", "LeakyRelu", "x", alpha=messages.AttrValue(f=0.0)))
    with af.Graph().as_default() as graph:
        load(data, name="")
    async with af.Session(graph=graph) as session:
        assert await session.run("y:0", {"x:0": -1.0}) == 0


def refused(data, error, *words, **options):
    with af.Graph().as_default() as graph, pytest.raises(error) as found:
        load(data, **options)
    assert graph.version == 0, "nothing is built"
    assert [word for word in words if word not in str(found.value)] == []


def test_all_missing_ops_are_listed_also_those_of_functions_before_anything_is_built():
    body = messages.FunctionDef(
        signature=messages.OpDef(name="f", input_arg=[messages.ArgDef(name="a")]), node_def=[node("n", "Hidden", "a")]
    )
    call = node("c", "PartitionedCall", "x", f=messages.AttrValue(func=messages.FunctionName(name="f")))
    data = graph_def(placeholder("x"), node("y", "Unheard", "x"), call, functions=[body])
    refused(data, af.errors.UnimplementedError, "2 ops", "Hidden (node 'n')", "Unheard (node 'y')")


def test_functions_that_call_themselves_are_refused():
    again = node("c", "PartitionedCall", "a", f=messages.AttrValue(func=messages.FunctionName(name="f")))
    body = messages.FunctionDef(
        signature=messages.OpDef(name="f", input_arg=[messages.ArgDef(name="a")]), node_def=[again]
    )
    data = graph_def(placeholder("a"), again, functions=[body])
    refused(data, af.errors.InvalidArgumentError, "call each other")


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", af.errors.DataLossError, ["has none"]),
        (b"{'nodes': []}", af.errors.DataLossError, ["no GraphDef of TensorFlow"]),
        (graph_def(placeholder("x"), node("y", "Relu", "x"))[:-3], af.errors.DataLossError, ["are said to follow"]),
        (graph_def(placeholder("x"), placeholder("x")), af.errors.DataLossError, ["two nodes 'x'"]),
        (graph_def(node("y", "Relu", "gone")), af.errors.DataLossError, ["'gone'", "not there"]),
        (graph_def(node("y", "Relu", "y")), af.errors.InvalidArgumentError, ["cycle"]),
        (graph_def(node("a b", "NoOp")), af.errors.DataLossError, ["'a b'"]),
        (graph_def(placeholder("x"), node("y", "Relu", "x:1")), ValueError, ["'y' (Relu)", "no output 1"]),
        (graph_def(placeholder("x"), node("y", "ArgMax", "x", "x")), ValueError, ["'y' (ArgMax)", "before a run"]),
        (graph_def(placeholder("x", 21)), af.errors.UnimplementedError, ["'x' (Placeholder)", "dtype 21"]),
        (graph_def(node("x", "Placeholder")), ValueError, ["no attribute 'dtype'"]),
        (graph_def(placeholder("x"), placeholder("s", 7), node("y", "Add", "x", "s")), TypeError, ["'y' (Add)"]),
    ],
)
def test_damage_is_named_and_nothing_is_built(data, error, words):
    refused(data, error, *words)


def test_names_that_are_not_there_are_errors():
    data = graph_def(placeholder("x"))
    refused(data, ValueError, "'z:0'", return_elements=["z:0"])
    refused(data, ValueError, "output 3", return_elements=["x:3"])
    refused(data, ValueError, "'z:0'", input_map={"z:0": 1.0})
    with af.Graph().as_default(), pytest.raises(af.errors.NotFoundError, match=r"gone\.pb"):
        load("gone.pb")
    with af.Graph().as_default():
        load(data, name="")
        with pytest.raises(ValueError, match="already"):
            load(data, name="")


def test_the_table_names_ops_that_there_are():
    REGISTRY.complete()
    OPERATORS.complete()
    named = {op: rule.build.name for op, rule in OPERATORS.items() if isinstance(rule.build, Same)}
    assert len(named) > 100
    assert {op: name for op, name in named.items() if name not in REGISTRY} == {}


async def test_the_example_of_the_docstring_runs():
    assert await failures(load) == []
