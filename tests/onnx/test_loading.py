"""`af.onnx.load`: names, weights, gradients, branches, loops, functions, missing operators."""

import io

import numpy as np
import pytest

import aioflow as af
from tests.onnx.models import graph, helper, initial, model, node, onnx, run, sparse, value, with_sparse

W, B = np.array([[1.0, -1.0], [2.0, 0.5]], np.float32), np.array([0.5, -0.25], np.float32)
LAYER = model(
    [node("MatMul", ["x", "w"], ["x w"], "product"), node("Add", ["x w", "b"], ["sum"]), node("Relu", ["sum"], ["y"])],
    [value("x", ["batch", 2])],
    [value("y", ["batch", 2])],
    w=W,
    b=B,
)


async def test_a_model_computes_what_it_describes():
    x = np.array([[1.0, 2.0], [-3.0, 0.0]], np.float32)
    (y,) = await run(LAYER, x)
    np.testing.assert_array_equal(y, np.maximum(x @ W + B, 0))


async def test_a_model_is_loaded_from_a_path(tmp_path):
    path = tmp_path / "layer.onnx"
    path.write_bytes(LAYER)
    (y,) = await run(path, np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(y, [[3.5, 0]])


def test_the_names_of_a_model_are_those_of_operations_and_variables():
    imported = af.onnx.load(LAYER, af.Graph())
    assert imported.inputs["x"].shape.as_list() == [None, 2]
    assert imported.inputs["x"].op.name == "x"
    assert imported.outputs["y"].op.name == "y"
    assert imported.tensors["x w"].op.name.startswith("product/")
    assert {name: variable.op.name for name, variable in imported.variables.items()} == {"w": "w", "b": "b"}


def test_each_built_node_is_told():
    shown = io.StringIO()
    with af.train.Progress(unit="node", stream=shown, every=0.0, clock=lambda: 0.0) as progress:
        af.onnx.load(LAYER, af.Graph(), progress=progress)
    assert shown.getvalue().splitlines() == ["node 1/3", "node 2/3", "node 3/3"]


def test_the_default_graph_gets_the_model_where_none_is_given():
    with af.Graph().as_default() as target:
        assert af.onnx.load(LAYER).graph is target
    assert [variable.op.name for variable in target.get_collection("trainable_variables")] == ["w", "b"]


async def test_a_loaded_model_is_fine_tuned():
    imported = af.onnx.load(LAYER, af.Graph())
    with imported.graph.as_default():
        loss = af.reduce_sum(af.square(imported.outputs["y"] - 1.0))
        step = af.train.GradientDescentOptimizer(0.05).minimize(loss)
    feeds = {imported.inputs["x"]: np.array([[1.0, 2.0], [0.5, 1.0]], np.float32)}
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        before = await session.run(loss, feeds)
        for _ in range(20):
            await session.run(step, feeds)
        assert await session.run(loss, feeds) < before / 10


def test_statistics_and_settings_are_no_weights():
    ones = np.ones(2, np.float32)
    data = model(
        [
            node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["normal"]),
            node("Clip", ["normal", "low"], ["y"]),
        ],
        [value("x", [1, 2, 3, 3])],
        [value("y", [1, 2, 3, 3])],
        scale=ones, shift=ones, mean=ones, variance=ones, low=np.float32(0),
    )  # fmt: skip
    imported = af.onnx.load(data, af.Graph())
    trainable = {name for name, variable in imported.variables.items() if variable.trainable}
    assert trainable == {"scale", "shift"}
    assert imported.variables.keys() - trainable == {"mean", "variance"}
    assert not any(
        variable.trainable for variable in af.onnx.load(data, af.Graph(), trainable=False).variables.values()
    )


async def test_declared_sizes_that_nodes_leave_open_are_known_and_checked_in_the_run():
    nodes = [node("Reshape", ["x", "sizes"], ["features"]), node("Neg", ["features"], ["y"])]
    nodes += [node("Neg", ["w"], ["other"])]
    given = [value("x", ["n"]), value("sizes", [2], np.int64)]
    made = helper.make_graph(nodes, "graph", given, [value("y", ["m", 4])], initial(w=B))
    made.value_info.extend([value("features", [-1, 4]), value("other", [7]), value("sizes", [2])])
    data = helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    with af.Graph().as_default() as target:
        imported = af.onnx.load(data)
        features, y = imported.tensors["features"], imported.outputs["y"]
        head = af.layers.Dense(2)(features)
    assert [each.shape.as_list() for each in (features, y, head)] == [[None, 4], [None, 4], [None, 2]]
    assert imported.tensors["other"].shape.as_list() == [2]
    x, sizes = imported.inputs.values()
    async with af.Session(graph=target) as session:
        assert (await session.run(y, {x: np.ones(8, np.float32), sizes: [-1, 4]})).shape == (2, 4)
        with pytest.raises(af.errors.InvalidArgumentError, match=r"\[4, 2\] and \[\?, 4\] are not compatible"):
            await session.run(y, {x: np.ones(8, np.float32), sizes: [-1, 2]})


# Branches, loops, functions

POSITIVE = graph([node("Mul", ["x", "two"], ["doubled"])], [], [value("doubled")])
NEGATIVE = graph([node("Neg", ["x"], ["turned"])], [], [value("turned")])


@pytest.mark.parametrize(("x", "y"), [(3.0, 6.0), (-3.0, 3.0)])
async def test_a_branch_sees_the_values_around_it(x, y):
    data = model(
        [
            node("Constant", [], ["two"], value_float=2.0),
            node("Constant", [], ["zero"], value_float=0.0),
            node("Greater", ["x", "zero"], ["positive"]),
            node("If", ["positive"], ["y"], then_branch=POSITIVE, else_branch=NEGATIVE),
        ],
        [value("x", [])],
        [value("y", [])],
    )
    assert (await run(data, np.float32(x))) == [y]


async def test_a_loop_ends_by_its_condition_and_stacks_what_each_iteration_adds():
    body = graph(
        [
            node("Add", ["total", "step"], ["next"]),
            node("Less", ["next", "limit"], ["again"]),
            node("Identity", ["next"], ["seen"]),
        ],
        [value("i", [], np.int64), value("going", [], np.bool_), value("total", [])],
        [value("again", [], np.bool_), value("next", []), value("seen", [])],
    )
    data = model(
        [node("Loop", ["most", "", "start"], ["last", "all"], body=body)],
        [value("most", [], np.int64), value("start", []), value("step", []), value("limit", [])],
        [value("last", []), value("all", [None])],
    )
    last, every = await run(data, np.int64(10), np.float32(0), np.float32(2), np.float32(5))
    assert last == 6
    np.testing.assert_array_equal(every, [2, 4, 6])
    assert (await run(data, np.int64(1), np.float32(0), np.float32(2), np.float32(5)))[0] == 2


async def test_a_loop_carries_and_stacks_the_same_value():
    double, same = node("Add", ["a", "a"], ["b"]), node("Identity", ["c"], ["d"])
    given = [value("i", [], np.int64), value("c", [], bool), value("a", [2])]
    body = graph([double, same], given, [value("d", [], bool), value("b", [2]), value("b", [2])])
    loop = node("Loop", ["n", "", "x"], ["last", "all"], body=body)
    data = model([loop], [value("x", [2])], [value("last"), value("all")], n=np.array(2))
    last, stacked = await run(data, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(last, [4, 8])
    np.testing.assert_array_equal(stacked, [[2, 4], [4, 8]])


async def test_a_scan_takes_rows_from_the_last_on():
    body = graph(
        [node("Add", ["sum", "row"], ["next"]), node("Identity", ["next"], ["made"])],
        [value("sum", []), value("row", [])],
        [value("next", []), value("made", [])],
    )
    data = model(
        [node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1, scan_input_directions=[1])],
        [value("start", []), value("x", ["n"])],
        [value("last", []), value("y", ["n"])],
    )
    last, y = await run(data, np.float32(0), np.array([1, 2, 4], np.float32))
    assert last == 7
    np.testing.assert_array_equal(y, [4, 6, 7])


async def test_a_function_of_the_model_gets_its_attributes():
    nodes = [node("Constant", [], ["factor"]), node("Mul", ["a", "factor"], ["b"])]
    nodes[0].attribute.append(onnx_reference("value_float", "by"))
    scale = helper.make_function("own", "Scale", ["a"], ["b"], nodes, [helper.make_opsetid("", 21)], ["by"])
    data = model(
        [node("Scale", ["x"], ["y"], domain="own", by=2.5)],
        [value("x", [2])],
        [value("y", [2])],
        functions=[scale],
        domains=["own"],
    )
    (y,) = await run(data, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(y, [2.5, 5])


def onnx_reference(name, attribute):
    """An attribute whose value is that of an attribute of the function."""
    made = helper.make_attribute(name, 0.0)
    made.ref_attr_name = attribute
    return made


async def test_an_operator_that_onnx_defines_by_nodes_needs_no_function():
    data = model([node("HardSwish", ["x"], ["y"])], [value("x", [3])], [value("y", [3])])
    x = np.array([-4, 1, 4], np.float32)
    (y,) = await run(data, x)
    np.testing.assert_allclose(y, x * np.clip(x / 6 + 0.5, 0, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("type", "more", "attributes", "opsets"),
    [
        ("GroupNormalization", [np.ones(4, np.float32)] * 2, {"num_groups": 2}, (21, 22, 28)),
        ("RMSNormalization", [np.ones(3, np.float32)], {}, (23, 24, 28)),
        ("CenterCropPad", [np.array([1, 5, 2])], {}, (18, 19, 28)),
        ("NegativeLogLikelihoodLoss", [np.array([[0, 1, 2], [3, 0, 1]])], {}, (13, 14, 28)),
    ],
)
async def test_a_definition_by_nodes_holds_in_later_versions_too(type, more, attributes, opsets):
    x = np.random.default_rng(2).normal(size=(2, 4, 3)).astype(np.float32)
    names = [f"input{index}" for index in range(len(more))]
    first, *others = opsets
    given = dict(zip(names, more, strict=True))

    def loaded(opset):
        return model(
            [node(type, ["x", *names], ["y"], **attributes)], [value("x", x.shape)], [value("y")], opset, **given
        )

    (wanted,) = await run(loaded(first), x)
    for opset in others:
        (y,) = await run(loaded(opset), x)
        np.testing.assert_array_equal(y, wanted)


async def test_gradients_pass_through_loops_of_a_model():
    body = graph(
        [node("Mul", ["power", "x"], ["next"]), node("Identity", ["going"], ["again"])],
        [value("i", [], np.int64), value("going", [], np.bool_), value("power", [])],
        [value("again", [], np.bool_), value("next", [])],
    )
    nodes = [node("Loop", ["three", "", "one"], ["y"], body=body)]
    data = model(nodes, [value("x", [])], [value("y", [])], three=np.int64(3), one=np.float32(1))
    imported = af.onnx.load(data, af.Graph())
    with imported.graph.as_default():
        (slope,) = af.gradients(imported.outputs["y"], [imported.inputs["x"]])
    async with af.Session(graph=imported.graph) as session:
        assert await session.run(slope, {imported.inputs["x"]: np.float32(2)}) == 12


# What cannot be loaded


def test_all_missing_operators_are_listed_and_nothing_is_built():
    inner = graph([node("Bogus", ["x"], ["z"])], [], [value("z")])
    data = model(
        [
            node("Nonsense", ["x"], ["a"]),
            node("Other", ["a"], ["b"], domain="own"),
            node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
        ],
        [value("x", [1]), value("c", [], np.bool_)],
        [value("y", [1])],
        domains=["own"],
    )
    target = af.Graph()
    with pytest.raises(af.errors.UnimplementedError, match=r"3 operators .*Nonsense.*own\.Other.*Bogus"):
        af.onnx.load(data, target)
    assert list(target.get_operations()) == []


def test_a_sequence_is_fed_as_a_list():
    sequence = helper.make_value_info("x", helper.make_sequence_type_proto(value("x", [2]).type))
    imported = af.onnx.load(
        model([node("SequenceLength", ["x"], ["y"])], [sequence], [value("y", [], np.int64)]), af.Graph()
    )
    assert imported.inputs["x"].element_shape == [2]


async def test_a_sequence_of_known_length_is_cut_and_joined():
    data = model(
        [
            node("SplitToSequence", ["x"], ["parts"], axis=0),
            node("SequenceInsert", ["parts", "x", "zero"], ["more"]),
            node("SequenceAt", ["more", "place"], ["one"]),
            node("ConcatFromSequence", ["more"], ["all"], axis=0),
        ],
        [value("x", [2, 2]), value("place", [], np.int64)],
        [value("one"), value("all"), helper.make_empty_tensor_value_info("parts")],
        zero=np.int64(0),
    )
    x = np.array([[1, 2], [3, 4]], np.float32)
    one, everything, parts = await run(data, x, np.int64(-1))
    np.testing.assert_array_equal(one, [[3, 4]])
    np.testing.assert_array_equal(everything, [[1, 2], [3, 4], [1, 2], [3, 4]])
    assert [part.tolist() for part in parts] == [[[1, 2]], [[3, 4]]]


async def test_text_is_compared_with_a_constant():
    nodes, declared = [node("Equal", ["x", "one"], ["y"])], ([value("x", [2], object)], [value("y", None, bool)])
    data = model(nodes, *declared, one=np.array("a", object))
    (found,) = await run(data, np.array(["a", "b"], object))
    np.testing.assert_array_equal(found, [True, False])


def test_what_an_operator_cannot_do_names_the_node():
    nodes = [node("RNN", ["x", "w", "r"], ["y"], "my layer", hidden_size=2, activations=["Swish"])]
    data = model(
        nodes, [value("x", [3, 1, 2])], [value("y")], w=np.ones((1, 2, 2), np.float32), r=np.ones((1, 2, 2), np.float32)
    )
    with pytest.raises(af.errors.UnimplementedError, match=r"node 'my layer' \(RNN\): activation Swish"):
        af.onnx.load(data, af.Graph())


def test_an_error_of_a_node_names_it_and_leaves_the_graph_as_it_was():
    data = model([node("MatMul", ["x", "w"], ["y"], "my product")], [value("x", [2, 3])], [value("y")], w=W)
    target = af.Graph()
    with pytest.raises(ValueError, match=r"node .my product. \(MatMul\)"):
        af.onnx.load(data, target)
    assert list(target.get_operations()) == []


async def test_fit_trains_a_loaded_model_with_new_layers_behind_it():
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["r"]), node("GlobalAveragePool", ["r"], ["y"])]
    data = model(nodes, [value("x", ["n", 1, 4, 4])], [value("y", ["n", 2, 1, 1])], w=np.ones((2, 1, 3, 3), np.float32))
    with af.Graph().as_default():
        imported = af.onnx.load(data)
        features = af.layers.Flatten()(imported.outputs["y"])
        async with af.Model(imported.inputs["x"], af.layers.Dense(1)(features)) as made:
            made.compile("sgd", "mse")
            images, wanted = np.random.default_rng(0).normal(size=(8, 1, 4, 4)).astype(np.float32), np.arange(8.0)
            before = await made.get_weights()
            np.testing.assert_array_equal(before[0], np.ones((2, 1, 3, 3)))
            history = await made.fit(images, wanted, epochs=5, verbose=0)
            assert history.history["loss"][-1] < history.history["loss"][0]
            assert (before[0] != (await made.get_weights())[0]).any()


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
@pytest.mark.parametrize("where", ["initial value", "constant"])
async def test_a_sparse_tensor_is_read_as_a_dense_one(indices, where):
    tensor = sparse("w", np.float32([7, 8]), np.int64(indices), [2, 3])
    constants = [node("Constant", [], ["w"], sparse_value=tensor)] if where == "constant" else []
    data = model([*constants, node("MatMul", ["x", "w"], ["y"])], [value("x", [2])], [value("y")])
    (found,) = await run(data if constants else with_sparse(data, tensor), np.float32([1, 10]))
    np.testing.assert_array_equal(found, [0, 7, 80])


@pytest.mark.parametrize("indices", [np.zeros([0], np.int64), np.zeros([0, 2], np.int64)])
async def test_a_sparse_tensor_without_values_is_all_zeros(indices):
    data = model([node("MatMul", ["x", "w"], ["y"])], [value("x", [2])], [value("y")])
    tensor = sparse("w", np.zeros(0, np.float32), indices, [2, 3])
    (found,) = await run(with_sparse(data, tensor), np.float32([1, 10]))
    np.testing.assert_array_equal(found, [0, 0, 0])


async def test_an_input_with_a_default_value_may_be_fed():
    data = model(
        [node("Add", ["x", "w"], ["sum"]), node("Pad", ["sum", "pads", "s"], ["y"])],
        [value("x", [2]), value("w", [2]), value("s", []), value("pads", [2], np.int64)],
        [value("y")],
        w=np.float32([1, 2]),
        s=np.float32(3),
        pads=np.array([0, 1]),
    )
    imported = af.onnx.load(data, af.Graph())
    assert [[*imported.inputs], [*imported.defaults]] == [["x"], ["w", "s"]]
    x, w, s = imported.inputs["x"], imported.defaults["w"], imported.defaults["s"]
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        found = [await session.run(imported.outputs["y"], {x: [0, 0], **fed}) for fed in ({}, {w: [4, 5], s: 6})]
    np.testing.assert_array_equal(found, [[1, 2, 3], [4, 5, 6]])


def test_no_input_of_the_first_versions_of_the_format_has_a_default_value():
    """They list each initial value among the inputs."""
    message = onnx.ModelProto.FromString(LAYER)
    message.ir_version = 3
    message.graph.input.extend([value("w", [2, 2]), value("b", [2])])
    imported = af.onnx.load(message.SerializeToString(), af.Graph())
    assert [[*imported.inputs], [*imported.defaults]] == [["x"], []]
