"""Models that are damaged or forged: specific errors, and nothing is built or read elsewhere."""

import contextlib
import math
import os
from random import Random

import numpy as np
import pytest

import aioflow as af
from tests.onnx.models import graph, helper, initial, model, node, onnx, run, sparse, value, with_sparse
from tests.support.scale import amount

GOOD = model([node("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])])


def changed(change, data=GOOD):
    """The model after a change of its message."""
    message = onnx.ModelProto.FromString(data)
    change(message)
    return message.SerializeToString()


def refused(data, kind, match):
    """Loading raises that error, and the graph stays empty."""
    target = af.Graph()
    with pytest.raises(kind, match=match):
        af.onnx.load(data, target)
    assert list(target.get_operations()) == []


def test_bytes_that_are_no_model_are_refused():
    refused(b"", af.errors.DataLossError, "no graph")
    refused(b"\xff" * 64, af.errors.DataLossError, "64 bytes are not a model")


@pytest.mark.parametrize("name", [b"Add", b"input", b"weight", b"output", b"theNode"])
def test_names_that_are_no_text_are_refused(name):
    weights = {"weight": np.ones(2, np.float32)}
    nodes = [node("Add", ["input", "weight"], ["output"], "theNode")]
    data = model(nodes, [value("input", [2])], [value("output", [2])], **weights)
    assert name in data
    refused(data.replace(name, name[:-1] + b"\xff"), af.errors.DataLossError, "is not UTF-8")


def test_every_truncated_model_is_refused_or_another_model():
    weights = model([node("Add", ["x", "w"], ["y"])], [value("x", [2])], [value("y", [2])], w=np.ones(2, np.float32))
    for end in range(len(weights)):
        try:
            af.onnx.load(weights[:end], af.Graph())
        except (af.errors.OpError, ValueError, TypeError):
            continue


def test_a_cycle_of_nodes_is_refused():
    nodes = [node("Relu", ["b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second")]
    refused(model(nodes, [], [value("a")]), af.errors.InvalidArgumentError, "2 nodes wait for each other in a cycle")


async def test_nodes_may_come_in_any_order():
    nodes = [node("Neg", ["a"], ["y"]), node("Abs", ["x"], ["a"])]
    imported = af.onnx.load(model(nodes, [value("x", [1])], [value("y", [1])]), af.Graph())
    async with af.Session(graph=imported.graph) as session:
        assert await session.run(imported.outputs["y"], {imported.inputs["x"]: [-2.0]}) == [-2]


def test_names_that_are_missing_or_given_twice_are_refused():
    missing = model([node("Add", ["x", "nowhere"], ["y"])], [value("x", [1])], [value("y", [1])])
    refused(missing, af.errors.InvalidArgumentError, "nothing computes 'nowhere'")
    twice = model([node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])], [value("x", [1])], [value("y", [1])])
    refused(twice, af.errors.InvalidArgumentError, "'y' is computed more than once")
    inputs = model([node("Relu", ["x"], ["y"])], [value("x", [1]), value("x", [2])], [value("y")])
    refused(inputs, af.errors.InvalidArgumentError, "more than one input is named 'x'")
    weights = changed(lambda message: message.graph.initializer.extend([*initial(w=[1.0]), *initial(w=[2.0])]))
    refused(weights, af.errors.InvalidArgumentError, "more than one initial value is named 'w'")
    nameless = changed(lambda message: message.graph.input.extend([value("", [1])]))
    refused(nameless, af.errors.InvalidArgumentError, "an input has no name")
    own = helper.make_function(
        "own", "F", ["a", "a"], ["b"], [node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    call = model([node("F", ["x", "x"], ["y"], domain="own")], [value("x", [1])], [value("y")], 21, [own], ["own"])
    refused(call, af.errors.InvalidArgumentError, "more than one input of the function 'F' is named 'a'")


def test_an_output_of_another_type_than_the_model_declares_is_refused():
    numbers = model([node("Shape", ["x"], ["y"])], [value("x", [1])], [value("y", [1])])
    refused(numbers, af.errors.InvalidArgumentError, "'y' is declared as float32, and the node '.*' makes int64")
    tensor = model([node("SequenceConstruct", ["x"], ["y"])], [value("x", [1])], [value("y", [1])])
    refused(tensor, af.errors.InvalidArgumentError, "output 'y' is declared as a tensor, and nodes make a sequence")
    declared = helper.make_tensor_sequence_value_info("y", onnx.TensorProto.FLOAT, [1])
    sequence = model([node("Relu", ["x"], ["y"])], [value("x", [1])], [declared])
    refused(sequence, af.errors.InvalidArgumentError, "output 'y' is declared as a sequence, and nodes make a tensor")


def test_an_output_that_an_operator_does_not_have_is_refused():
    data = model([node("Relu", ["x"], ["y", "z"])], [value("x", [1])], [value("z")])
    refused(data, ValueError, r"node 'y' \(Relu\): it has 1 outputs, and 'z' would be number 2")


@pytest.mark.parametrize(
    ("inputs", "kind", "match"),
    [
        (["x", "", "x"], ValueError, r"node 'y' .Where.: its input 'X' is missing"),
        (["x", "x"], ValueError, r"node 'y' .Where.: its input 'Y' is missing"),
        (["x", "list", "x"], TypeError, r"node 'y' .Where.: its input 'X' must be a tensor, and a sequence is given"),
    ],
)
def test_inputs_that_do_not_fit_an_operator_are_refused(inputs, kind, match):
    nodes = [node("SequenceConstruct", ["x"], ["list"]), node("Where", inputs, ["y"])]
    refused(model(nodes, [value("x", [1], np.bool_)], [value("y")]), kind, match)


def test_functions_that_call_each_other_without_end_are_refused():
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    again = helper.make_function("own", "Again", ["a"], ["b"], [node("Again", ["a"], ["b"], domain="own")], opsets)
    nodes = [node("Again", ["x"], ["y"], domain="own")]
    data = model(nodes, [value("x", [1])], [value("y")], functions=[again], domains=["own"])
    refused(data, af.errors.InvalidArgumentError, "call each other 33 deep")


def test_functions_that_multiply_are_refused():
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    calls = [[node(f"F{level}", ["a"], [f"b{i}"], domain="own") for i in range(10)] for level in range(12)]
    functions = [helper.make_function("own", "F0", ["a"], ["b0"], [node("Identity", ["a"], ["b0"])], opsets)]
    functions += [helper.make_function("own", f"F{1 + i}", ["a"], ["b0"], each, opsets) for i, each in enumerate(calls)]
    nodes = [node("F12", ["x"], ["y"], domain="own")]
    data = model(nodes, [value("x", [1])], [value("y")], functions=functions, domains=["own"])
    refused(data, af.errors.InvalidArgumentError, "13 deep and build 2111111111112 nodes: at most 32 and 262144")
    inside = graph([node("F12", ["x"], ["z"], domain="own")], [], [value("z")])
    nodes = [node("If", ["q"], ["y"], then_branch=inside, else_branch=inside)]
    data = model(nodes, [value("x"), value("q", [], np.bool_)], [value("y")], functions=functions, domains=["own"])
    refused(data, af.errors.InvalidArgumentError, "build 4222222222225 nodes")


def test_more_nodes_or_initial_values_than_a_graph_can_hold_are_refused(monkeypatch):
    monkeypatch.setattr("aioflow.onnx.expansion.MOST_NODES", 20)
    many = {f"w{index}": np.zeros(1, np.float32) for index in range(20)}
    data = model([node("Relu", ["x"], ["y"])], [value("x", [1])], [value("y")], **many)
    refused(data, af.errors.InvalidArgumentError, "build 22 nodes")
    going = [value("i", [], np.int64), value("go", [], np.bool_)]
    body = graph([node("Identity", ["go"], ["on"]), node("Neg", ["x"], ["z"])], going, [value("on"), value("z")])
    for _ in range(2):
        nodes = [node("Identity", ["go"], ["on"]), node("Loop", ["n", ""], ["z"], body=body)]
        body = graph(nodes, going, [value("on"), value("z")])
    data = model([node("Loop", ["n", ""], ["y"], body=body)], [value("x"), value("n", [], np.int64)], [value("y")])
    refused(data, af.errors.InvalidArgumentError, "build 21 nodes")  # a trial tells the dtypes of each loop's results


@pytest.mark.parametrize(
    "bad",
    [
        node("MaxPool", ["x"], ["y", "z"], kernel_shape=[1 << 40, 1 << 40]),
        node("MaxPool", ["x"], ["y", "z"], kernel_shape=[4000, 4000]),
        node("AveragePool", ["x"], ["y"], kernel_shape=[1 << 20, 1], dilations=[2, 2]),
        node("AveragePool", ["x"], ["y"], kernel_shape=[0, 1]),
        node("Split", ["x"], ["y"], num_outputs=1 << 40),
        node("Split", ["x"], ["y"], num_outputs=0),
        node("SplitToSequence", ["x"], ["y"], axis=3),
        node("DepthToSpace", ["x"], ["y"], blocksize=0),
        node("SpaceToDepth", ["x"], ["y"], blocksize=-1),
        node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[1]),
        node("Scan", ["x"], ["y"], num_scan_inputs=0, body=graph([], [value("a")], [value("a")])),
        node("Scan", ["x"], ["y"], num_scan_inputs=2, body=graph([], [value("a")], [value("a")])),
    ],
)
def test_numbers_that_would_build_operations_without_end_are_refused(bad):
    refused(model([bad], [value("x", [1, 1, 5, 1 << 40])], [value("y")]), ValueError, f"node 'y' .{bad.op_type}.")


HUGE = r"result would have the sizes\]? \[.*2000000000.*\]"
SCALES = "scales are finite numbers greater than 0, not"


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(
    ("bad", "sizes", "match"),
    [
        (node("Resize", ["x", "", "s"], ["y"]), np.float32([1e9, 1e9]), (HUGE, HUGE)),
        (node("Resize", ["x", "", "s"], ["y"], mode="linear"), np.float32([1e9, 1e9]), (HUGE, HUGE)),
        (node("Resize", ["x", "", "s"], ["y"]), np.float32([-1, 1]), (SCALES, r"sizes\] \[-2 2\]")),
        (node("Resize", ["x", "", "", "s"], ["y"]), np.array([2000000000, 2000000000]), (HUGE, HUGE)),
        (node("Resize", ["x", "", "", "s"], ["y"]), np.array([-3, 2]), (r"sizes \[-3, 2\]", r"sizes\] \[-3 2\]")),
        (node("Pad", ["x", "s"], ["y"], mode="edge"), np.array([0, 0, 1999999998, 1999999998]), (HUGE, HUGE)),
        (node("Pad", ["x", "s"], ["y"], mode="wrap"), np.array([0, -2, 0, -2]),
         (r"sizes \[2, -2\]", r"sizes\] \[2 -2\]")),
        (node("AffineGrid", ["t", "s"], ["y"]), np.array([1, 1, 2000000000, 2000000000]), (HUGE, HUGE)),
    ],
)  # fmt: skip
async def test_sizes_that_no_result_can_have_are_refused_before_anything_is_computed(bad, sizes, match, fed):
    inputs = [value("x", [2, 2]), value("t", [1, 2, 3])] + ([value("s", sizes.shape, sizes.dtype)] if fed else [])
    data = model([bad], inputs, [value("y")], **({} if fed else {"s": sizes}))
    if not fed:
        refused(data, ValueError, f"node 'y' .{bad.op_type}.: .*{match[0]}")
        return
    with pytest.raises(af.errors.InvalidArgumentError, match=match[1]):
        await run(data, np.ones([2, 2], np.float32), np.ones([1, 2, 3], np.float32), sizes)


@pytest.mark.parametrize("attributes", [{"output_width": 1 << 40}, {"sampling_ratio": 1 << 20}, {"output_height": -1}])
def test_regions_of_sizes_that_no_result_can_have_are_refused(attributes):
    align = node("RoiAlign", ["x", "r", "b"], ["y"], **attributes)
    inputs = [value("x", [1, 1, 2, 2]), value("r", [1, 4]), value("b", [1], np.int64)]
    refused(model([align], inputs, [value("y")]), ValueError, "node 'y' .RoiAlign.: the result would have the sizes")


@pytest.mark.parametrize("scale", [math.nan, math.inf, 0])
@pytest.mark.parametrize("size", [2, "open"])
def test_scales_that_are_no_finite_numbers_above_0_are_refused(scale, size):
    data = model([node("Resize", ["x", "", "s"], ["y"])], [value("x", [size])], [value("y")], s=np.float32([scale]))
    refused(data, ValueError, f"node 'y' .Resize.: {SCALES}")


@pytest.mark.parametrize("length", [1 << 24, 1 << 40])
@pytest.mark.parametrize(
    ("type", "inputs", "shape"),
    [
        ("Slice", ["x", "v", "v"], [3]),
        ("Reshape", ["x", "v"], [3]),
        ("Expand", ["x", "v"], [3]),
        ("Col2Im", ["x", "v", "v"], [1, 4, 4]),
        ("AffineGrid", ["x", "v"], [1, 2, 3]),
    ],
)
def test_fed_vectors_for_more_axes_than_a_tensor_has_are_refused(type, inputs, shape, length):
    data = model([node(type, inputs, ["y"])], [value("x", shape), value("v", [length], np.int64)], [value("y")])
    refused(data, ValueError, f"node 'y' .{type}.: 'v:0' has {length} numbers for axes, .* at most 64")


@pytest.mark.parametrize(
    ("bad", "feeds", "match"),
    [
        (node("TopK", ["x", "k"], ["y", "i"]), {"k": np.array([-1])}, "does not lead from 0 to -1"),
        (node("TopK", ["x", "k"], ["y", "i"]), {"k": np.array([4])}, "index 3 is out of range for size 3"),
        (node("OneHot", ["x", "k", "x"], ["y"]), {"k": np.array(-1 << 40)}, "depth cannot be negative"),
        (node("OneHot", ["x", "k", "x"], ["y"]), {"k": np.array(1 << 40)}, "needs 26,388,279,066,624 bytes"),
        (
            node("Scan", ["x", "k"], ["y"], num_scan_inputs=2,
                 body=graph([node("Add", ["a", "b"], ["c"])], [value("a"), value("b", None, np.int64)], [value("c")])),
            {"k": np.ones(4, np.int64)}, "index 3 is out of range for size 3",
        ),
        (
            node("Scan", ["x", "k"], ["y"], num_scan_inputs=2,
                 body=graph([node("Add", ["a", "b"], ["c"])], [value("a"), value("b", None, np.int64)], [value("c")])),
            {"k": np.ones(2, np.int64)}, "index 2 is out of range for size 2",
        ),
    ],
)  # fmt: skip
async def test_sizes_of_the_run_that_do_not_fit_fail(bad, feeds, match):
    declared = [value("k", [None] * feeds["k"].ndim, np.int64), value("x", [None], np.int64)]
    imported = af.onnx.load(model([bad], declared, [value("y", None, np.int64)]), af.Graph())
    given = {imported.inputs["k"]: feeds["k"], imported.inputs["x"]: np.array([1, 2, 3])}
    async with af.Session(graph=imported.graph) as session:
        with pytest.raises(af.errors.OpError, match=match):
            await session.run(imported.outputs["y"], given)


def test_models_with_random_changes_end_in_specific_errors():
    then, otherwise = (graph([node(type, ["r"], ["a"])], [], [value("a")]) for type in ("Neg", "Abs"))
    weights = model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            node("Reshape", ["c", "shape"], ["r"]),
            node("If", ["q"], ["y"], then_branch=then, else_branch=otherwise),
        ],
        [value("x", [1, 2, 4, 4]), value("q", [], np.bool_)],
        [value("y")],
        w=np.ones((3, 2, 3, 3), np.float32),
        shape=np.array([1, -1]),
    )
    random = Random(5)
    for _ in range(amount(30, 5000)):
        data = bytearray(weights)
        for _ in range(random.choice([1, 1, 2, 4])):
            data[random.randrange(len(data))] = random.randrange(256)
        with contextlib.suppress(af.errors.OpError, ValueError, TypeError):
            af.onnx.load(bytes(data), af.Graph())


def test_graphs_inside_each_other_without_end_are_refused():
    deep = graph([node("Relu", ["x"], ["z"])], [], [value("z")])
    for _ in range(20):
        deep = graph([node("Loop", ["", "c"], ["z"], body=deep)], [], [value("z")])
    data = model([node("Loop", ["", "c"], ["y"], body=deep)], [value("x", [1]), value("c", [], np.bool_)], [value("y")])
    refused(data, af.errors.InvalidArgumentError, "more than 16 graphs lie inside each other")


@pytest.mark.parametrize(
    ("dims", "match"),
    [
        ([1 << 40, 1 << 40], "would have"),
        ([0, 1 << 62, 1 << 62], "would have"),
        ([-2], "cannot have the shape"),
        ([3], "needs 12 bytes, the model has 8"),
        ([1] * 70, "cannot have the shape"),
    ],
)
def test_sizes_that_do_not_fit_the_data_are_refused(dims, match):
    weights = model([node("Add", ["x", "w"], ["y"])], [value("x", [2])], [value("y")], w=np.ones(2, np.float32))

    def forge(message):
        del message.graph.initializer[0].dims[:]
        message.graph.initializer[0].dims.extend(dims)

    refused(changed(forge, weights), af.errors.DataLossError, match)


@pytest.mark.parametrize(
    ("values", "indices", "sizes", "kind", "match"),
    [
        ([1, 2], [1, 6], [2, 3], af.errors.DataLossError, "no place for the index 6"),
        ([1, 2], [[0, 0], [0, 3]], [2, 3], af.errors.DataLossError, r"no place for the index \[0, 3\]"),
        ([1, 2], [[0, 0], [-1, 0]], [2, 3], af.errors.DataLossError, r"no place for the index \[-1, 0\]"),
        ([1, 2], [1, 1], [2, 3], af.errors.DataLossError, "not in ascending order"),
        ([1, 2], [1], [2, 3], af.errors.DataLossError, r"values of shape \[2\] at int64 indices of shape \[1\]"),
        ([1, 2], [1.0, 2.0], [2, 3], af.errors.DataLossError, "at float64 indices"),
        ([1], [1], [0, 1 << 40], af.errors.ResourceExhaustedError, "has 4,398,046,511,104 bytes as a dense one"),
        ([1], [1], [-2], af.errors.DataLossError, "cannot have the shape"),
    ],
)
def test_sparse_tensors_whose_parts_do_not_fit_are_refused(values, indices, sizes, kind, match):
    data = model([node("MatMul", ["x", "w"], ["y"])], [value("x", [2])], [value("y")])
    refused(with_sparse(data, sparse("w", np.float32(values), indices, sizes)), kind, match)


def test_sparse_tensors_have_names_of_their_own():
    tensor = sparse("w", np.float32([1]), [0], [2])
    data = model([node("Neg", ["w"], ["y"])], [], [value("y")], w=np.ones(2, np.float32))
    refused(with_sparse(data, tensor), af.errors.InvalidArgumentError, "more than one initial value is named 'w'")


def test_unknown_versions_domains_and_dtypes_are_refused():
    refused(changed(lambda m: setattr(m.opset_import[0], "version", 999)), af.errors.UnimplementedError, "version 999")
    refused(changed(lambda m: m.ClearField("opset_import")), af.errors.UnimplementedError, "no version")
    forged = changed(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99))
    refused(forged, af.errors.UnimplementedError, "'x' has the dtype 99")


# External data


def external(location, **more):
    """A model whose weights lie in a file."""
    weights = model([node("Add", ["x", "w"], ["y"])], [value("x", [2])], [value("y")], w=np.array([1, 2], np.float32))

    def move(message):
        tensor = message.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, text in {"location": location, **more}.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, text

    return changed(move, weights)


async def test_external_data_beside_the_model_are_read(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"\0" * 4 + np.array([1, 2], np.float32).tobytes())
    (tmp_path / "model.onnx").write_bytes(external("weights.bin", offset="4", length="8"))
    imported = af.onnx.load(tmp_path / "model.onnx", af.Graph())
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        y = await session.run(imported.outputs["y"], {imported.inputs["x"]: np.zeros(2, np.float32)})
    np.testing.assert_array_equal(y, [1, 2])


@pytest.mark.parametrize(
    ("entries", "kind", "match"),
    [
        ({"location": "../weights.bin"}, af.errors.PermissionDeniedError, "outside of the model's folder"),
        ({"location": "/etc/passwd"}, af.errors.PermissionDeniedError, "outside of the model's folder"),
        ({"location": "link"}, af.errors.PermissionDeniedError, "outside of the model's folder"),
        ({"location": ""}, af.errors.PermissionDeniedError, "outside of the model's folder"),
        ({"location": "weights\0.bin"}, af.errors.DataLossError, "no name of a file"),
        ({"location": "x" * 5000}, af.errors.DataLossError, "no name of a file"),
        ({"location": "nothing.bin"}, af.errors.NotFoundError, "does not exist"),
        ({"location": "pipe"}, af.errors.FailedPreconditionError, "no regular file"),
        ({"location": "."}, af.errors.FailedPreconditionError, "no regular file"),
        ({"location": "short.bin"}, af.errors.DataLossError, "needs 8 bytes from byte 0 .*which has 4"),
        ({"location": "short.bin", "offset": "-4"}, af.errors.DataLossError, "offset '-4'"),
        ({"location": "short.bin", "length": "4"}, af.errors.DataLossError, "states 4"),
    ],
)
def test_external_data_elsewhere_or_damaged_are_refused(tmp_path, entries, kind, match):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 8)
    (folder / "short.bin").write_bytes(b"\0" * 4)
    (folder / "link").symlink_to(tmp_path / "weights.bin")
    os.mkfifo(folder / "pipe")
    (folder / "model.onnx").write_bytes(external(**entries))
    refused(folder / "model.onnx", kind, match)


def test_a_cache_of_links_to_a_model_and_its_weights_is_read(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "revision"
    blobs.mkdir(), snapshot.mkdir(parents=True)
    (blobs / "1a").write_bytes(external("weights.bin"))
    (blobs / "2b").write_bytes(np.array([1, 2], np.float32).tobytes())
    (tmp_path / "3c").write_bytes(b"\0" * 8)
    (snapshot / "model.onnx").symlink_to("../../blobs/1a")
    (snapshot / "weights.bin").symlink_to("../../blobs/2b")
    assert af.onnx.load(snapshot / "model.onnx", af.Graph()).variables.keys() == {"w"}
    (snapshot / "weights.bin").unlink()
    (snapshot / "weights.bin").symlink_to("../../3c")
    refused(snapshot / "model.onnx", af.errors.PermissionDeniedError, "outside of the model's folder")


@pytest.mark.parametrize(
    ("name", "kind", "match"),
    [
        ("pipe", af.errors.FailedPreconditionError, "no regular file"),
        ("/dev/zero", af.errors.FailedPreconditionError, "no regular file"),
        (".", af.errors.FailedPreconditionError, "no regular file"),
        ("nothing", af.errors.NotFoundError, "no such file"),
    ],
)
def test_paths_that_are_no_file_are_refused(tmp_path, name, kind, match):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / name, kind, match)


def test_a_model_from_bytes_reads_no_file():
    refused(external("weights.bin"), af.errors.PermissionDeniedError, "bytes have no folder")


def test_strings_are_never_read_from_a_file(tmp_path):
    def as_strings(message):
        message.graph.initializer[0].data_type = onnx.TensorProto.STRING

    (tmp_path / "weights.bin").write_bytes(b"\0" * 64)
    (tmp_path / "model.onnx").write_bytes(changed(as_strings, external("weights.bin")))
    refused(tmp_path / "model.onnx", af.errors.DataLossError, r"'w' of shape \[2\] has 0 strings")
