"""Variables that become constants, and parts of graphs as plain data."""

import numpy as np
import pytest

import aioflow as af
from aioflow import errors

util = af.graph_util


def model():
    """A graph that reads variables by themselves, by rows, in a loop in a branch, and trains them."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2], name="x")
        weight, bias = af.Variable([2.0, 3.0], name="weight"), af.Variable([0.5, 0.5], name="bias")
        count = af.Variable(3, trainable=False, name="count")

        def turned():
            return af.while_loop(lambda i, v: i < count, lambda i, v: (i + 1, v * weight + bias), [0, x])[1]

        y = af.cond(x[0] > 0, turned, lambda: x - bias)
        z = af.identity(af.check_numerics(y + af.nn.embedding_lookup(weight, [1, 0]), "bad"), name="z")
        af.train.GradientDescentOptimizer(0.1).minimize(af.reduce_sum(z), name="train")
        return graph, af.global_variables_initializer()


async def test_constants_take_the_place_of_variables_wherever_they_are_read():
    graph, init = model()
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.FailedPreconditionError):
            await util.convert_variables_to_constants(session, graph.as_graph_def(), ["z"])
        await session.run(init)
        feeds = [np.array([1.0, 2.0], np.float32), np.array([-1.0, 2.0], np.float32)]
        expected = [(await session.run("z:0", {"x:0": feed})).tolist() for feed in feeds]
        frozen = await util.convert_variables_to_constants(session, graph.as_graph_def(), ["z"])
        partly = await util.convert_variables_to_constants(session, graph.as_graph_def(), ["z"], ["weight", "bias"])
        mostly = await util.convert_variables_to_constants(session, graph.as_graph_def(), ["z"], None, ["bias"])
        with pytest.raises(ValueError, match=r"'train.*needs the variable '(weight|bias)' itself"):
            await util.convert_variables_to_constants(session, graph.as_graph_def(), ["train"])
        with pytest.raises(ValueError, match="no operation 'gone'"):
            await util.convert_variables_to_constants(session, graph.as_graph_def(), ["gone"])
        with pytest.raises(TypeError, match=r"an af.Session, not of 7"):
            await util.convert_variables_to_constants(7, graph.as_graph_def(), ["z"])

    def kept(nodes):
        return [node.name for node in nodes.node if node.op == "variable"]

    assert (kept(frozen), kept(partly), kept(mostly)) == ([], ["count"], ["bias"])
    slim = util.remove_training_nodes(frozen, ["z"])
    assert [node.op for node in slim.node].count("check_numerics") == 0
    with af.Graph().as_default() as again:
        (z,) = af.import_graph_def(slim, return_elements=["z:0"], name="")
    async with af.Session(graph=again) as session:
        assert [(await session.run(z, {"x:0": feed})).tolist() for feed in feeds] == expected


def test_a_part_of_a_graph_is_what_its_outputs_need():
    graph, _ = model()
    nodes = graph.as_graph_def()
    part = util.extract_sub_graph(nodes, ["z"])
    assert {"x", "weight", "z"} <= {node.name for node in part.node} < {node.name for node in nodes.node}
    assert not [node.name for node in part.node if node.name.startswith(("train", "gradients"))]
    with pytest.raises(TypeError, match="dest_nodes is a list of names, not 'z'"):
        util.extract_sub_graph(nodes, "z")
    with pytest.raises(TypeError, match="a GraphDef is needed"):
        util.extract_sub_graph(graph, ["z"])


def test_operations_of_training_stay_where_the_order_needs_them():
    with af.Graph().as_default() as graph:
        x = af.constant(1.0, name="x")
        first = af.identity(x, name="first")
        second = af.identity(first, name="second")
        with af.control_dependencies([first]):
            waits = af.identity(x, name="waits")
        af.add(second, waits, name="sum")
    slim = util.remove_training_nodes(graph.as_graph_def())
    assert {node.name: node.input for node in slim.node} == {
        "x": (), "first": ("x",), "waits": ("x", "^first"), "sum": ("first", "waits")
    }  # fmt: skip
    assert "second" in {node.name for node in util.remove_training_nodes(graph.as_graph_def(), ["second"]).node}


def test_places_and_shapes_of_operations():
    with af.Graph().as_default() as graph:
        af.placeholder(af.float32, [2, None], name="x")
        af.Variable(1.0, name="v")
        text = af.constant("a", name="text")
        names = af.placeholder(af.string, [], name="names")
        af.FIFOQueue(1, [af.int32], name="queue")
    nodes = {node.name: node for node in graph.as_graph_def().node}
    for name, expected in {"x": False, "v": False, "text": True, "names": True, "queue": True}.items():
        assert util.must_run_on_cpu(nodes[name]) is util.must_run_on_cpu(graph.get_operation_by_name(name)) is expected
    assert util.must_run_on_cpu(nodes["v"], pin_variables_on_cpu=True)
    assert [text.op.name, names.op.name] == ["text", "names"]
    with pytest.raises(TypeError, match="an Operation or a NodeDef"):
        util.must_run_on_cpu("x")
    assert util.tensor_shape_from_node_def_name(graph, "^x").as_list() == [2, None]
    with pytest.raises(KeyError):
        util.tensor_shape_from_node_def_name(graph, "gone")


async def test_an_operation_is_made_from_the_name_of_its_op():
    with af.Graph().as_default() as graph:
        one = np.ones((1, 1), np.float32)
        made = graph.create_op("matmul", [one, 2 * one], [af.float32], name="product", attrs={"transpose_a": True})
        assert (made.name, made.attrs["transpose_a"], made.attrs["transpose_b"]) == ("product", True, False)
        before = graph.version
        for build, error, text in [
            (lambda: graph.create_op("MatMul", []), ValueError, "no op 'MatMul'; did you mean 'matmul'?"),
            (lambda: graph.create_op("matmul", [1.0]), ValueError, "it takes 2 inputs, and has 1"),
            (lambda: graph.create_op("matmul", [one, one], [af.int32]), TypeError, "its outputs are float32"),
            (lambda: graph.create_op("matmul", [one, one], input_types=[af.int32] * 2), TypeError, "its inputs are"),
            (lambda: graph.create_op("matmul", [one, one], attrs={"a": 1}), ValueError, "no attribute 'a'"),
        ]:
            with pytest.raises(error, match=text.replace("?", r"\?")):
                build()
        assert graph.version == before
    async with af.Session(graph=graph) as session:
        assert (await session.run("product:0")).tolist() == [[2.0]]
