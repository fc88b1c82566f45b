"""Operators compute what ONNX's reference computes, whether their settings are part of the model or fed.

`make onnx` runs ONNX's own tests of all operators; here is a case of each function that is not a line of a table.
"""

import math

import numpy as np
import pytest

import aioflow as af
from tests.onnx.models import helper, model, node, onnx, run, value
from tests.support.scale import some

reference = pytest.importorskip("onnx.reference", reason="the package onnx is not installed")

RNG = np.random.default_rng(7)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
IMAGES = RNG.normal(size=(2, 4, 7, 6)).astype(np.float32)
LINE = RNG.normal(size=(2, 4, 9)).astype(np.float32)
VOLUME = RNG.normal(size=(1, 2, 4, 5, 3)).astype(np.float32)
SQUARE = RNG.normal(size=(4, 4)).astype(np.float32)
BYTES = RNG.integers(0, 255, (4, 6)).astype(np.uint8)
REGIONS = np.float32([[0, 0, 4, 4], [1, 2, 5.5, 6], [3, 3, 2, 2], [-6, -6, 20, 20]])
"""Regions of images; one has no size, and one goes beyond the image."""
WORDS = np.array(["Monday", "tuesday", "monday"], object)


def ints(*values):
    return np.array(values, np.int64)


def weights(*shape):
    return RNG.normal(size=shape).astype(np.float32)


TEXTS = np.array([["pear", "fig", "pear", "a"], ["b", "", "b", "b"]], object)

# Type, inputs of which the first is fed, attributes, number of outputs
CASES = [
    ("ArgMax", [X], {"axis": 1, "select_last_index": 1}, 1),
    ("AveragePool", [IMAGES], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2]}, 1),
    ("AveragePool", [IMAGES], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, 1),
    ("AveragePool", [IMAGES], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, 1),
    ("AveragePool", [VOLUME], {"kernel_shape": [2, 2, 2]}, 1),
    ("BatchNormalization", [IMAGES, *[np.abs(weights(4)) for _ in range(4)]], {}, 1),
    ("BatchNormalization", [LINE, *[np.abs(weights(4)) for _ in range(4)]], {"epsilon": 0.1}, 1),
    ("BatchNormalization", [IMAGES, *[np.abs(weights(4)) for _ in range(4)]], {"training_mode": 1}, 3),
    ("BitShift", [BYTES, BYTES % 8], {"direction": "LEFT"}, 1),
    ("Cast", [X], {"to": 7}, 1),
    ("Clip", [X, np.float32(-0.5), np.float32(0.5)], {}, 1),
    ("Col2Im", [weights(1, 8, 6), ints(4, 3), ints(2, 2)], {}, 1),
    ("Compress", [X, np.array([False, True, True])], {"axis": 1}, 1),
    ("Concat", [X, X], {"axis": -1}, 1),
    ("ConstantOfShape", [ints(2, 3)], {}, 1),
    ("Conv", [IMAGES, weights(3, 4, 3, 2), weights(3)], {"pads": [1, 0, 1, 1], "strides": [2, 1]}, 1),
    ("Conv", [IMAGES, weights(6, 2, 2, 2)], {"group": 2, "dilations": [2, 1]}, 1),
    ("Conv", [IMAGES, weights(8, 1, 3, 3)], {"group": 4, "auto_pad": "SAME_LOWER"}, 1),
    ("Conv", [LINE, weights(3, 4, 3)], {"pads": [1, 0], "strides": [2]}, 1),
    ("Conv", [VOLUME, weights(3, 2, 2, 2, 2)], {}, 1),
    ("ConvInteger", [BYTES.reshape(1, 1, 4, 6), BYTES[:2, :2].reshape(1, 1, 2, 2), np.uint8(3)], {}, 1),
    (
        "ConvTranspose",
        [IMAGES, weights(4, 3, 3, 3)],
        {"strides": [2, 2], "pads": [1, 1, 0, 1], "output_padding": [1, 0]},
        1,
    ),
    ("ConvTranspose", [IMAGES, weights(4, 2, 2, 2), weights(2)], {"auto_pad": "SAME_LOWER", "dilations": [2, 1]}, 1),
    ("CumSum", [X, np.int64(1)], {"exclusive": 1, "reverse": 1}, 1),
    ("DFT", [X[..., None], ints(6)[0], ints(2)[0]], {"onesided": 1}, 1),
    ("DepthToSpace", [IMAGES], {"blocksize": 2, "mode": "CRD"}, 1),
    ("DequantizeLinear", [BYTES, weights(6), BYTES[0]], {"axis": 1}, 1),
    ("Det", [SQUARE], {}, 1),
    ("Einsum", [X, weights(4, 5)], {"equation": "bij, jk -> bik"}, 1),
    ("Elu", [X], {"alpha": 2.0}, 1),
    ("Expand", [X[:, :1], ints(1, 3, 1)], {}, 1),
    ("EyeLike", [SQUARE], {"k": -1}, 1),
    ("Flatten", [X], {"axis": 2}, 1),
    ("GRU", [weights(3, 2, 4), weights(1, 15, 4), weights(1, 15, 5), weights(1, 30)], {"hidden_size": 5}, 2),
    ("GRU", [weights(3, 2, 4), weights(1, 15, 4), weights(1, 15, 5)], {"hidden_size": 5, "linear_before_reset": 1}, 2),
    ("Gather", [X, ints(-1, 0)], {"axis": 1}, 1),
    ("GatherElements", [X, RNG.integers(-4, 4, (2, 3, 2))], {"axis": 2}, 1),
    ("GatherND", [X, ints(0, -1, 1).reshape(3, 1)], {}, 1),
    ("Gemm", [SQUARE, weights(3, 4), weights(3)], {"transB": 1, "alpha": 0.5, "beta": 2.0}, 1),
    ("GlobalAveragePool", [IMAGES], {}, 1),
    ("GridSample", [IMAGES, RNG.uniform(-1.2, 1.2, (2, 3, 5, 2)).astype(np.float32)], {"padding_mode": "border"}, 1),
    ("HardSigmoid", [X], {"alpha": 0.4}, 1),
    ("Hardmax", [X], {"axis": 1}, 1),
    ("InstanceNormalization", [IMAGES, weights(4), weights(4)], {}, 1),
    ("IsInf", [np.array([math.inf, -math.inf, 1], np.float32)], {"detect_negative": 0}, 1),
    ("LRN", [np.abs(IMAGES)], {"size": 3, "bias": 2.0}, 1),
    ("LSTM", [weights(3, 2, 4), weights(1, 20, 4), weights(1, 20, 5), weights(1, 40)], {"hidden_size": 5}, 3),
    ("LayerNormalization", [X, weights(3, 4), weights(3, 4)], {"axis": 1}, 3),
    ("LayerNormalization", [X, weights(4)], {}, 3),
    ("LayerNormalization", [X, weights(1)], {}, 3),
    ("LeakyRelu", [X], {"alpha": 0.3}, 1),
    ("LogSoftmax", [X], {"axis": 1}, 1),
    ("LpNormalization", [np.abs(X)], {"p": 1}, 1),
    ("LpPool", [IMAGES], {"kernel_shape": [2, 2]}, 1),
    ("MatMul", [X, weights(4)], {}, 1),
    ("MatMulInteger", [BYTES, BYTES.T, np.uint8(5), np.uint8(9)], {}, 1),
    ("Max", [X, X[:, :1], -X], {}, 1),
    ("MaxPool", [IMAGES], {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1], "strides": [2, 1]}, 2),
    ("MaxPool", [IMAGES], {"kernel_shape": [2, 2], "dilations": [2, 2]}, 1),
    ("MaxPool", [LINE], {"kernel_shape": [3], "auto_pad": "SAME_UPPER", "strides": [2]}, 1),
    ("Mean", [X, -X, X[:1]], {}, 1),
    ("Mod", [X, X[::-1]], {"fmod": 1}, 1),
    ("NonZero", [np.array([[1, 0], [0, 2]], np.float32)], {}, 1),
    ("OneHot", [ints(1, -1, 7), ints(4)[0], np.array([2, 5], np.float32)], {"axis": 0}, 1),
    ("PRelu", [X, weights(3, 1)], {}, 1),
    ("Pad", [X, ints(0, 1, 0, 0, 0, 2), np.float32(9)], {}, 1),
    ("Pad", [SQUARE, ints(1, 2, 2, 1)], {"mode": "reflect"}, 1),
    ("Pad", [X, ints(1, 2), np.float32(0), ints(-1)], {"mode": "constant"}, 1),
    ("Pow", [np.abs(X), ints(2)], {}, 1),
    ("QuantizeLinear", [X, np.float32(0.02), np.uint8(100)], {}, 1),
    ("RNN", [weights(3, 2, 4), weights(1, 5, 4), weights(1, 5, 5)], {"hidden_size": 5}, 2),
    ("Range", [np.float32(1), np.float32(4), np.float32(0.5)], {}, 1),
    ("ReduceL2", [X, ints(1)], {}, 1),
    ("ReduceLogSumExp", [X, ints(-1, 0)], {"keepdims": 0}, 1),
    ("ReduceMax", [X, ints(2)], {"keepdims": 0}, 1),
    ("ReduceSum", [X, ints(0, 2)], {}, 1),
    ("Reshape", [X, ints(0, -1, 2)], {}, 1),
    ("Resize", [IMAGES, np.array([], np.float32), np.array([1, 1, 1.5, 0.5], np.float32)], {"mode": "linear"}, 1),
    ("Resize", [IMAGES, np.array([], np.float32), np.array([], np.float32), ints(2, 4, 3, 9)], {"mode": "cubic"}, 1),
    ("ReverseSequence", [SQUARE, ints(1, 2, 3, 4)], {"time_axis": 0, "batch_axis": 1}, 1),
    ("RoiAlign", [IMAGES, REGIONS, ints(0, 1, 0, 1)], {"output_height": 2, "output_width": 3}, 1),
    ("RoiAlign", [IMAGES, REGIONS, ints(0, 1, 0, 1)], {"output_height": 2, "sampling_ratio": 2}, 1),
    (
        "RoiAlign",
        [IMAGES, REGIONS, ints(0, 1, 0, 1)],
        {"mode": "max", "spatial_scale": 0.5, "coordinate_transformation_mode": "output_half_pixel"},
        1,
    ),
    ("ScatterElements", [SQUARE, ints(1, 1).reshape(1, 2), weights(1, 2)], {"reduction": "add"}, 1),
    ("ScatterND", [SQUARE, ints(0, 2, 0).reshape(3, 1), weights(3, 4)], {"reduction": "max"}, 1),
    ("Selu", [X], {}, 1),
    ("Shape", [X], {"start": -2}, 1),
    ("Slice", [X, ints(-1, 1), ints(-100, 100), ints(2, 1), ints(-2, 1)], {}, 1),
    ("Softmax", [X], {"axis": 0}, 1),
    ("SpaceToDepth", [weights(1, 2, 4, 6)], {"blocksize": 2}, 1),
    ("Split", [X, ints(1, 3)], {"axis": -1}, 2),
    ("Squeeze", [X[:, :1], ints(-2)], {}, 1),
    ("StringConcat", [WORDS, WORDS[:1]], {}, 1),
    ("StringNormalizer", [WORDS], {"case_change_action": "UPPER", "stopwords": ["monday"]}, 1),
    ("TopK", [X, ints(2)], {"axis": 1, "largest": 0}, 2),
    ("Transpose", [X], {"perm": [2, 0, 1]}, 1),
    ("Trilu", [SQUARE, ints(-1)[0]], {"upper": 0}, 1),
    ("Unique", [ints(5, 2, 5, 1)], {}, 4),
    ("Unique", [TEXTS], {}, 4),
    ("Unsqueeze", [X, ints(0, -1)], {}, 1),
    ("Where", [X > 0, X, X[:1]], {}, 1),
]


def declared(name, array):
    """The declaration of an input, all of whose sizes are known."""
    if array.dtype == object:
        return helper.make_tensor_value_info(name, onnx.TensorProto.STRING, array.shape)
    return value(name, array.shape, array.dtype)


def of_case(type, inputs, attributes, outputs, fed):
    """The bytes of a model of one node, of which so many inputs are fed, and the names of these."""
    names = [f"i{place}" if np.size(each) else "" for place, each in enumerate(inputs)]
    given = [(name, np.asarray(each)) for name, each in zip(names, inputs, strict=True) if name]
    results = [f"o{place}" for place in range(outputs)]
    data = model(
        [node(type, names, results, **attributes)],
        [declared(name, each) for name, each in given[:fed]],
        [helper.make_empty_tensor_value_info(name) for name in results],
        **dict(given[fed:]),
    )
    return data, dict(given[:fed])


@pytest.mark.parametrize("all_fed", [False, True], ids=["settings in the model", "settings fed"])
@pytest.mark.parametrize("case", some(CASES, 48), ids=lambda case: case[0])
async def test_an_operator_computes_what_the_reference_does(case, all_fed):
    type, inputs, attributes, outputs = case
    if all_fed and len(inputs) == 1:
        return
    data, feeds = of_case(type, inputs, attributes, outputs, len(inputs) if all_fed else 1)
    expected = reference.ReferenceEvaluator(onnx.ModelProto.FromString(data)).run(None, feeds)
    imported = af.onnx.load(data, af.Graph())
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        given = {imported.inputs[name]: array for name, array in feeds.items()}
        results = await session.run([*imported.outputs.values()], given)
    for result, wanted in zip(results, expected, strict=True):
        if wanted.dtype.kind in "OU":
            assert [each.decode() for each in result.ravel()] == [*wanted.ravel()]
        else:
            np.testing.assert_allclose(result, wanted, rtol=2e-4, atol=1e-5)
            assert result.dtype == wanted.dtype


def test_the_size_of_a_resized_image_is_known_when_the_graph_is_built():
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode="linear")]
    scales = np.array([1, 1, 2, 1.5], np.float32)
    imported = af.onnx.load(model(nodes, [value("x", ["n", 3, 8, 9])], [value("y")], scales=scales), af.Graph())
    assert imported.outputs["y"].shape.as_list() == [None, 3, 16, 13]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("axes", [None, [1]])
def test_the_size_of_a_padded_tensor_is_known_when_the_graph_is_built(mode, axes):
    inputs = {"pads": ints(0, 1, 0, 2)} if axes is None else {"pads": ints(1, 2), "axes": ints(*axes)}
    pad = node("Pad", ["x", "pads", "", *(["axes"] if axes else [])], ["y"], mode=mode)
    imported = af.onnx.load(model([pad], [value("x", ["n", 4])], [value("y")], **inputs), af.Graph())
    assert imported.outputs["y"].shape.as_list() == [None, 7]


ROUNDED_UP = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1], "ceil_mode": 1}


@pytest.mark.parametrize(
    ("type", "attributes"),
    [
        ("MaxPool", ROUNDED_UP),
        ("AveragePool", ROUNDED_UP),
        ("AveragePool", {**ROUNDED_UP, "count_include_pad": 1}),
        ("ConvTranspose", {"strides": [2, 3], "pads": [1, 0, 1, 1], "output_padding": [1, 0]}),
        ("ConvTranspose", {"strides": [2, 1], "auto_pad": "SAME_UPPER", "dilations": [1, 2]}),
        ("ConvTranspose", {"strides": [2, 3], "auto_pad": "SAME_LOWER", "group": 2}),
    ],
)
async def test_images_whose_size_only_the_run_knows_get_the_same_windows(type, attributes):
    filters = {"w": weights(4, 3, 3, 3)} if type == "ConvTranspose" else {}
    nodes = [node(type, ["x", *filters], ["y"], **attributes)]
    known = [
        (IMAGES[:, :, :height, :width], model(nodes, [value("x", [2, 4, height, width])], [value("y")], **filters))
        for height, width in ((7, 6), (4, 3), (5, 5))
    ]
    imported = af.onnx.load(model(nodes, [value("x", ["n", 4, "h", "w"])], [value("y")], **filters), af.Graph())
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        for images, data in known:
            (wanted,) = await run(data, images)
            found = await session.run(imported.outputs["y"], {imported.inputs["x"]: images})
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("mode", "padding", "found"),
    [
        ("linear", "zeros", [math.nan, math.nan, 0, 20]),
        ("nearest", "zeros", [0, 0, 0, 20]),
        ("cubic", "border", [math.nan, math.nan, 17, 20]),
        ("linear", "border", [24, 5, 17, 20]),
        ("nearest", "border", [24, 5, 17, 20]),
        ("nearest", "reflection", [24, 0, None, 20]),
    ],
)
async def test_points_of_a_grid_that_are_no_finite_numbers_spoil_no_others(mode, padding, found):
    """The numbers are those of PyTorch."""
    sample = node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding)
    data = model([sample], [value("x", [1, 1, 5, 6]), value("grid", [1, 1, 4, 2])], [value("y")])
    points = np.float32([[[[math.nan, 0.9], [math.inf, -math.inf], [1e30, 0], [-0.16666667, 0.4]]]])
    (made,) = await run(data, np.arange(30, dtype=np.float32).reshape(1, 1, 5, 6), points)
    kept = [place for place, number in enumerate(found) if number is not None]
    np.testing.assert_allclose(made.ravel()[kept], np.float32([found[place] for place in kept]), rtol=1e-5)


async def test_a_region_without_a_finite_size_has_no_points():
    align = node("RoiAlign", ["x", "regions", "batch"], ["y"], output_height=2, output_width=2)
    inputs = [value("x", [2, 4, 7, 6]), value("regions", ["n", 4]), value("batch", ["n"], np.int64)]
    data = model([align], inputs, [value("y")])
    regions = np.float32([[math.nan, 0, 4, 4], [0, 0, 4, math.nan], [0, 0, 1e9, 1e9]])
    (made,) = await run(data, IMAGES, regions[:2], ints(0, 1))
    np.testing.assert_array_equal(made, np.zeros([2, 4, 2, 2]))
    with pytest.raises(af.errors.InvalidArgumentError, match=r"would have the sizes\] \[1000000000 1000000000\]"):
        await run(data, IMAGES, regions[2:], ints(0))
    (none,) = await run(data, IMAGES, regions[:0], ints())
    assert none.shape == (0, 4, 2, 2)


@pytest.mark.parametrize(("rows", "sizes"), [(7, [3, 3, 1]), (6, [2, 2, 2]), (2, [1, 1, 0])])
async def test_an_axis_whose_size_only_the_run_knows_is_split_evenly(rows, sizes):
    names = ["a", "b", "c"]
    data = model(
        [node("Split", ["x"], names, num_outputs=3)], [value("x", ["N", 2])], [value(name, [None, 2]) for name in names]
    )
    x = np.arange(2.0 * rows, dtype=np.float32).reshape(rows, 2)
    parts = await run(data, x)
    assert [len(part) for part in parts] == sizes
    np.testing.assert_array_equal(np.concatenate(parts), x)


async def test_distinct_slices_of_strings_are_in_the_order_of_their_elements():
    data, feeds = of_case("Unique", [TEXTS], {"axis": 1}, 4, 1)
    found, firsts, which, counts = await run(data, *feeds.values())
    assert found.tolist() == [[b"a", b"fig", b"pear"], [b"b", b"", b"b"]]
    assert [each.tolist() for each in (firsts, which, counts)] == [[3, 1, 0], [2, 1, 2, 0], [1, 1, 2]]


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("units", [1, 5])
@pytest.mark.parametrize(("type", "gates"), [("GRU", 3), ("RNN", 1), ("LSTM", 4)])
async def test_a_recurrent_layer_takes_an_open_batch_beside_a_given_state(type, gates, units, lengths):
    names = ["x", "w", "r", "", "lengths" if lengths else "", "h"]
    layer = node(type, names, ["", "y"], hidden_size=units, clip=100.0)
    initials = {"w": weights(1, gates * units, 4), "r": weights(1, gates * units, units), "h": weights(1, 1, units)}
    counts, x = [value("lengths", ["batch"], np.int32)] if lengths else [], weights(3, 1, 4)
    found = []
    for shape in (["steps", "batch", 4], x.shape):
        data = model([layer], [value("x", shape), *counts], [value("y")], **initials)
        found += await run(data, x, *[np.array([2], np.int32) for _ in counts])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("name", "alpha", "beta", "function"),
    [
        ("ScaledTanh", [1.2], [0.7], lambda x: 1.2 * np.tanh(0.7 * x)),
        ("Affine", [0.7], [0.3], lambda x: 0.7 * x + 0.3),
        ("ThresholdedRelu", [0.7], [], lambda x: np.where(x >= 0.7, x, 0)),
        ("ThresholdedRelu", [], [], lambda x: np.where(x >= 1, x, 0)),
        ("LeakyRelu", [0.7], [], lambda x: np.where(x < 0, 0.7 * x, x)),
        ("Elu", [0.7], [], lambda x: np.where(x < 0, 0.7 * np.expm1(x), x)),
        ("HardSigmoid", [0.7], [], lambda x: np.clip(0.7 * x + 0.5, 0, 1)),
        ("Tanh", [9.0], [9.0], np.tanh),
    ],
)
async def test_the_functions_of_a_recurrent_layer_take_their_parameters_in_order(name, alpha, beta, function):
    """The gate takes none, the function of the new state takes the first ones."""
    names = ["Sigmoid", name]
    given = {f"activation_{key}": numbers for key, numbers in (("alpha", alpha), ("beta", beta)) if numbers}
    layer = node("GRU", ["x", "w", "r"], ["", "y"], hidden_size=1, activations=names, **given)
    w, x = np.float32([[[1], [0], [1]]]), np.float32([[[-1.3], [0.4], [0.8], [1.6]]])
    data = model([layer], [value("x", x.shape)], [value("y")], w=w, r=np.zeros([1, 3, 1], np.float32))
    (found,) = await run(data, x)
    np.testing.assert_allclose(found.ravel(), (function(x) / (1 + np.exp(x))).ravel(), rtol=1e-5)


def test_a_function_without_a_parameter_that_it_needs_is_refused():
    layer = node("RNN", ["x", "w", "w"], ["", "y"], hidden_size=1, activations=["ScaledTanh"], activation_alpha=[1.2])
    data = model([layer], [value("x", [3, 2, 1])], [value("y")], w=np.ones([1, 1, 1], np.float32))
    with pytest.raises(ValueError, match=r"node 'y' .RNN.: activation ScaledTanh needs a number of activation_beta"):
        af.onnx.load(data, af.Graph())


async def test_a_state_of_another_batch_is_refused():
    layer = node("GRU", ["x", "w", "r", "", "", "h"], ["", "y"], hidden_size=5)
    initials = {"w": weights(1, 15, 4), "r": weights(1, 15, 5), "h": weights(1, 1, 5)}
    data = model([layer], [value("x", ["steps", "batch", 4])], [value("y")], **initials)
    with pytest.raises(af.errors.InvalidArgumentError, match=r"\[2, 3, 15\] and \[\?, 1, 15\]"):
        await run(data, weights(2, 3, 4))
