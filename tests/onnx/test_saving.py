"""`af.onnx.save`: what is written computes the same, here and in another runtime."""

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.nn.layer_norm import layer_norm
from tests.onnx import models
from tests.onnx.models import onnx

RNG = np.random.default_rng(0)


def dense(x):
    w, b = af.Variable(RNG.normal(size=(6, 4)).astype(np.float32), name="w"), af.Variable(np.ones(4, np.float32))
    hidden = af.nn.relu(af.matmul(x, w) + b)
    return af.nn.softmax(af.matmul(hidden, w, transpose_b=True))


def images(x):
    picture = af.reshape(x, [-1, 4, 4, 3])
    kernel = af.Variable(RNG.normal(size=(3, 3, 3, 2)).astype(np.float32))
    each = af.Variable(RNG.normal(size=(2, 2, 2, 2)).astype(np.float32))
    ones = af.Variable(np.ones(2, np.float32))
    y = af.nn.bias_add(af.nn.conv2d(picture, kernel, 1, "SAME"), ones)
    y = af.nn.fused_batch_norm(y, ones, ones, ones * 0.5, ones * 2.0, is_training=False)[0]
    y = af.nn.max_pool(y, 2, 1, "SAME") + af.nn.avg_pool(y, 2, 1, "SAME")
    return af.nn.depthwise_conv2d(y, each, 2, [[0, 0], [1, 0], [0, 1], [0, 0]])


def channels_first(x):
    picture = af.transpose(af.reshape(x, [-1, 4, 4, 3]), [0, 3, 1, 2])
    kernel = af.constant(RNG.normal(size=(2, 2, 3, 2)).astype(np.float32))
    y = af.nn.conv2d(picture, kernel, [2, 1], "VALID", data_format="NCHW")
    wide = af.nn.conv2d(picture, kernel, [2, 1], "SAME", data_format="NCHW", dilations=[2, 3])
    return af.nn.bias_add(y, af.constant([1.0, 2.0]), "NCHW"), wide


def shapes(x):
    a, b = af.split(x, 2, 1)
    c, d = af.split(x, [2, -1], 1)
    rows = af.stack([a, b], 1)[:, ::-1, af.newaxis, 1:]
    wide = af.tile(af.expand_dims(af.concat([c, d], 1), 1), [1, 2, 1])
    return af.squeeze(rows, [2]), af.pad(wide, [[0, 0], [0, 1], [2, 0]], constant_values=1.0), x[..., -1], x[:, -2::-2]


def numbers(x):
    y = af.where(x > 0, af.exp(x), af.square(x) / 3.0) - af.rsqrt(x * x + 1.0)
    places = af.cast(af.argmax(y, 1, output_type=af.int32), af.float32)
    table = af.gather(af.constant(np.arange(12, dtype=np.float32).reshape(4, 3)), af.cast(x > 0, af.int32))
    smooth = af.nn.gelu(x) + af.nn.gelu(x, approximate=True)
    return (
        af.reduce_mean(y, [1], keepdims=True),
        places,
        af.reduce_sum(af.nn.relu6(table)),
        smooth,
        af.nn.leaky_relu(x, 0.3),
    )


def volumes(x):
    picture, block = af.reshape(x, [-1, 4, 4, 3]), af.reshape(x, [-1, 2, 4, 2, 3])
    kernel = af.constant(RNG.normal(size=(1, 2, 2, 3, 2)).astype(np.float32))
    solid = af.nn.conv3d(af.nn.max_pool3d(block, 2, 1, "SAME"), kernel, [1, 1, 1, 1, 1], "VALID")
    normal = af.layers.BatchNormalization()(x), af.layers.BatchNormalization()(block)
    wider = [
        af.layers.Conv2DTranspose(2, size, strides, padding)(picture)
        for size, strides, padding in ((3, 2, "same"), (3, 2, "valid"), (2, 3, "same"), (3, 1, "same"))
    ]
    return solid, *normal, *wider


def of_any_size(x):
    """The height and the width of the pictures depend on the batch."""
    picture = af.reshape(x, [1, af.shape(x)[0], -1, 2])
    window = af.constant(RNG.normal(size=(3, 2, 3, 2)).astype(np.float32))
    height, width = af.shape(picture)[1], af.shape(picture)[2]
    cut = [[0, 0], [1, 0], [0, 1], [0, 0]]
    sizes = [(height * 2, width * 3), (height * 2, width * 3 - 1), (height * 2 + 1, width * 3), (height * 2, width * 3)]
    return tuple(
        af.nn.conv2d_transpose(picture, window, af.stack([1, *size, 3]), [2, 3], padding)
        for size, padding in zip(sizes, ("SAME", "SAME", "VALID", cut), strict=True)
    )


def picked(x):
    whole = af.cast(x * 9.0, af.int32)
    rests = af.floormod(x, -0.7), af.floormod(whole, 4), whole // -3, af.floor(x // 0.5)
    cut_off = af.truncatediv(whole, -3), af.truncatediv(x, 0.3), af.truncatemod(whole, -4), af.truncatemod(x, -0.7)
    ordered = af.sort(x, 0, "DESCENDING"), af.argsort(whole // 9), af.argsort(x, 0, "DESCENDING")
    chosen = af.nn.top_k(x, 2), af.one_hot(whole, 3, 5.0, -1.0, axis=1), af.gather_nd(x, [[0, 1], [2, 5]])
    parts = af.unstack(x, axis=1)[1], af.slice(x, [1, 2], [-1, 3]), af.where(x > 1.0)
    flags = af.reduce_all(x > -1.0, 1, keepdims=True), af.reduce_any(x > 2.0)
    return (
        *rests,
        *cut_off,
        *ordered,
        *chosen[0],
        *chosen[1:],
        *parts,
        *flags,
        af.cumsum(x, 1, exclusive=True, reverse=True),
    )


def layers(x):
    rows, wide = af.reshape(x, [-1, 2, 3]), af.cast(x, af.float16)
    weights = [af.Variable(RNG.normal(size=size).astype(np.float32)) for size in ([3], [3], [2, 3], [2, 3])]
    y, mean, _ = layer_norm(rows, *weights[2:])
    narrow = af.cast(af.nn.layer_normalization(wide, variance_epsilon=0.1), af.float32)
    return af.nn.layer_normalization(rows, *weights[:2], variance_epsilon=0.01), y, mean, narrow


def edges(x):
    none = x[:, :0] > 0.0
    products = af.cumprod(x[:, :0], 1), af.cumprod(x[:0], 1), af.cumprod(x[:0], exclusive=True, reverse=True)
    flags = af.reduce_any(none, 1), af.reduce_all(none, 1), af.reduce_any(x > 0.0, [])
    kept = af.reduce_sum(x, []), af.reduce_max(x, [], keepdims=True), af.reduce_logsumexp(x, [])
    tenths = af.rint(x * 10.0) * 0.1
    divisors = [af.constant(value, af.float32) for value in (0.1, -0.1, 0.0, np.inf, -np.inf)]
    rests = [rest for divisor in divisors for rest in (tenths // divisor, af.floormod(tenths, divisor))]
    smallest = af.cast(x, af.int8) * 0 + af.constant([-128, -128, -127, 127, 127, -1], af.int8)
    rests += [smallest // af.constant([5, -128, 126, -128, 127, 127], af.int8)]
    large = [af.cast(af.cast(x * 1e6, small), af.float32) for small in (af.float8_e4m3fn, af.float8_e5m2)]
    return *flags, *kept, *rests, *large, *products


def precise(x):
    near = af.concat([x * 1e-5, x * 9.0, af.constant([[0.0, np.inf, -np.inf, np.nan, -1.0, 50.0]])], 0)
    checks = af.not_equal(af.rint(x), 0.0), af.is_finite(near)
    return *checks, af.log1p(near), af.expm1(near)


def placed(x):
    places = af.constant([[1, 0], [0, 2], [1, 0]])
    updates = x[0, :3]
    whole = af.scatter_nd(places, updates, af.stack([2, af.shape(x)[1]]))
    last = af.shape(x)[1] - 2
    parts = x[1:last, last], x[af.constant(-1), ..., last:0:-2], x[af.newaxis, -last:, 1]
    before = -4 * last
    parts += x[:, before::-1], x[:, -9::-1], x[-9 : last - 9 : -2], x[:, : before - 9 : -1]
    return (
        whole,
        af.tensor_scatter_add(x, places, updates),
        af.tensor_scatter_update(x, places[:2], updates[:2]),
        *parts,
    )


def resized(x):
    picture = af.reshape(x, [-1, 4, 6, 3])
    sizes = [af.constant([7, 3]), af.shape(picture)[1:3] * 2]
    ways = [{}, {"half_pixel_centers": True}, {"align_corners": True}]
    functions = af.image.resize_bilinear, af.image.resize_nearest_neighbor, af.image.resize_bicubic
    made = [function(picture, size, **way) for function in functions for size in sizes for way in ways]
    return *made, af.nn.local_response_normalization(picture, 1, 2.0, 0.5, 0.75)


def segmented(x):
    ids = af.constant([2, -1, 0, 2, 1, 0])
    sums = af.unsorted_segment_sum(af.transpose(x), ids, 4), af.segment_sum(x[:4], [0, 0, 2, 2])
    places = af.unravel_index(af.cast(af.abs(x) * 5.0, af.int32), af.stack([3, af.shape(x)[1]]))
    lengths = af.cast(af.abs(x[:3]) * 2.0, af.int32)
    masks = af.sequence_mask(lengths, 3, af.int32), af.sequence_mask(lengths[0])
    distinct, which = af.unique(af.cast(x[0] * 2.0, af.int32))
    turned = af.roll(x, [2, -1], [0, 1]), af.reverse_sequence(x[:3], [2, 0, 5], 1)
    square = af.reshape(x[:6], [-1, 6, 6])
    bands = af.matrix_band_part(square, 1, 2), af.matrix_band_part(square, -1, 0), af.matrix_transpose(square)
    return *sums, places, *masks, distinct, which, *turned, *bands, af.boolean_mask(x, x[:, 0] > 0.0)


def less_common(x):
    picture, whole = af.reshape(x, [-1, 4, 6, 4]), af.cast(x * 9.0, af.int32)
    deep = af.space_to_depth(picture, 2)
    first = af.transpose(picture, [0, 3, 1, 2])
    bits = af.bitwise.bitwise_and(whole, 6), af.bitwise.bitwise_or(whole, 6), af.bitwise.bitwise_xor(whole, 6)
    zeros = af.where(x > 0.0, x, af.zeros_like(x))
    safe = af.div_no_nan(x, zeros), af.multiply_no_nan(x / zeros, zeros)
    sums = af.norm(x, axis=1), af.nn.l2_loss(x), af.count_nonzero(zeros, 1), af.size(x)
    weights = af.linspace(0.0, 1.0, 6) * af.cast(af.cumprod(af.constant([1, 2, 3, 1, 1, 1])), af.float32)
    return (
        deep, af.depth_to_space(deep, 2), af.depth_to_space(first, 2, data_format="NCHW"), *bits,
        af.bitwise.invert(whole), *safe, *sums, af.linalg.det(af.reshape(x[:6], [1, 6, 6])), af.round(x * 2.0),
        *af.identity_n([x, whole]), af.ensure_shape(x, [None, 6]), x * weights + af.eye(6)[0],
    )  # fmt: skip


def composed(x):
    special = af.constant([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan])
    angles = af.atan2(x, x[:, ::-1]), af.atan2(af.expand_dims(special, 1), special)
    gamma = af.lgamma(x * 20.0), af.lgamma(af.constant([0.0, 1.0, 2.0, -1.0, -1.5, 1e-3, 1e4, np.inf, -np.inf, np.nan]))
    fed = [af.linspace(x[0, 0], x[0, 1], count) for count in (1, 2, 7, af.shape(x)[1])]
    ways = [{"exclusive": exclusive, "reverse": reverse} for exclusive in (False, True) for reverse in (False, True)]
    products = [af.cumprod(x, axis, **way) for axis, way in zip((0, 1, -1, 1), ways, strict=True)]
    return *angles, *gamma, *fed, *products, af.cumprod(x[:, 0])


def open_sizes(x):
    picture = af.reshape(x, af.stack([-1, af.shape(x)[1] - 2, 4, 3]))
    kernel = af.constant(RNG.normal(size=(3, 3, 3, 2)).astype(np.float32))
    pooled = [pool(picture, 3, 2, "SAME") for pool in (af.nn.max_pool, af.nn.avg_pool)]
    return *pooled, *[af.nn.conv2d(picture, kernel, stride, "SAME") for stride in (1, 2)]


CASES = pytest.mark.parametrize(
    "saved",
    [
        dense,
        images,
        channels_first,
        shapes,
        numbers,
        volumes,
        of_any_size,
        picked,
        layers,
        edges,
        precise,
        placed,
        resized,
        segmented,
        less_common,
        composed,
        open_sizes,
    ],
    indirect=True,
)


@CASES
async def test_a_saved_graph_computes_the_same_when_it_is_loaded(saved):
    await models.assert_loads_alike(saved)


@CASES
async def test_another_runtime_computes_the_same_of_a_saved_graph(saved):
    models.assert_runs_alike(saved)


async def test_the_values_of_variables_are_those_of_the_session(tmp_path):
    graph = af.Graph()
    with graph.as_default():
        x, w = af.placeholder(af.float32, [2]), af.Variable([1.0, 2.0], name="weights")
        y, change = x * w, af.assign(w, [3.0, 4.0])
    async with af.Session(graph=graph) as session:
        await session.run(change)
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)
    weights = {
        each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(tmp_path / "model.onnx").graph.initializer
    }
    np.testing.assert_array_equal(weights["weights"], [3, 4])


async def test_what_has_no_form_in_onnx_is_listed_and_nothing_is_written(tmp_path):
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [2], name="x")
        y = af.zeta(x, x) + af.igamma(x, x)
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.UnimplementedError, match=r"2 operations have no form in ONNX: zeta.*igamma"):
            await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)
        with pytest.raises(af.errors.InvalidArgumentError, match="placeholder 'x', which is not among the inputs"):
            await af.onnx.save(tmp_path / "model.onnx", {}, {"y": x * 2.0}, session)
    assert not (tmp_path / "model.onnx").exists()


async def test_outputs_that_wait_for_a_change_of_their_variables_are_refused(tmp_path):
    with af.Graph().as_default() as graph:
        x, w, other = af.placeholder(af.float32, [2]), af.Variable([1.0, 2.0]), af.Variable([1.0, 2.0])
        with af.control_dependencies([af.group(af.assign_add(w, x, name="change"))]):
            after = x * w.read_value()
        with af.control_dependencies([af.assign_add(other, x)]):
            y = x * w.read_value()
    async with af.Session(graph=graph) as session:
        await session.run([w.initializer, other.initializer])
        with pytest.raises(af.errors.UnimplementedError, match="wait for changes of their variables: change"):
            await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": after}, session)
        assert list(tmp_path.iterdir()) == []
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)


async def test_a_dilated_convolution_states_its_padding_in_numbers(tmp_path):
    """ONNX Runtime refuses the padding by name."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, None, 5, 1])
        y = af.nn.conv2d(x, af.constant(np.ones((3, 2, 1, 1), np.float32)), 1, "SAME", dilations=2)
    async with af.Session(graph=graph) as session:
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)
    nodes = onnx.load(tmp_path / "model.onnx").graph.node
    (found,) = [{each.name: [*each.ints] for each in node.attribute} for node in nodes if node.op_type == "Conv"]
    assert found == {"strides": [1, 1], "dilations": [2, 2], "pads": [2, 1, 2, 1]}


async def test_the_sizes_of_parts_are_stated_in_numbers(tmp_path):
    with af.Graph().as_default() as graph:
        x, z = af.placeholder(af.float32, [2, 6]), af.placeholder(af.float32, [None, 6])
        y = af.split(x, [1, -1, 2], -1)
        of_open = af.split(z, [1, -1], 0)[1]
    async with af.Session(graph=graph) as session:
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y[1]}, session)
        with pytest.raises(ValueError, match="ONNX needs the size that takes the rest"):
            await af.onnx.save(tmp_path / "open.onnx", {"x": z}, {"y": of_open}, session)
    initial = [onnx.numpy_helper.to_array(each) for each in onnx.load(tmp_path / "model.onnx").graph.initializer]
    np.testing.assert_array_equal(initial, [[1, 3, 2]])


async def test_a_model_holds_no_constants_on_the_way_to_those_that_it_needs(tmp_path):
    x = af.placeholder(af.float32, [2, 2], name="x")
    y = x + af.matrix_inverse(af.matrix_inverse(af.constant([[2.0, 1.0], [0.0, 4.0]])))
    async with af.Session() as session:
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)
    (kept,) = onnx.load(str(tmp_path / "model.onnx")).graph.initializer
    np.testing.assert_allclose(onnx.numpy_helper.to_array(kept), [[2, 1], [0, 4]], rtol=1e-6)


async def test_a_name_for_an_input_and_an_output_is_refused(tmp_path):
    x = af.placeholder(af.float32, [2], name="x")
    async with af.Session() as session:
        with pytest.raises(ValueError, match="'x' names an input and an output of a saved model"):
            await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"x": x + 1.0}, session)


@pytest.mark.parametrize(
    ("inputs", "outputs", "match"),
    [
        ("x", "", "'' cannot name"),
        ("", "y", "'' cannot name"),
        (3, "y", "3 cannot name"),
        ("x", None, "needs an output"),
    ],
)
async def test_a_model_without_names_or_outputs_is_refused(tmp_path, inputs, outputs, match):
    x = af.placeholder(af.float32, [2])
    named = {} if outputs is None else {outputs: x + 1.0}
    async with af.Session() as session:
        with pytest.raises(ValueError, match=match):
            await af.onnx.save(tmp_path / "model.onnx", {inputs: x}, named, session)
    assert list(tmp_path.iterdir()) == []


async def test_lists_of_tensors_become_sequences(tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 6])
        written = af.TensorArray(af.float32, 2, element_shape=[None, 6]).write(0, x).write(1, x * 2.0)
        squares = af.map_fn(lambda row: row * row, x)
        unstacked = af.TensorArray(af.float32, af.shape(x)[0]).unstack(squares)
        outputs = {"pair": [x, x[:1]], "written": written, "rows": unstacked, "y": x + 1.0}
    async with af.Session(graph=graph) as session:
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, outputs, session)
        for given, text in (([], r"'y' of a saved model .* not \[\]"), ([x, af.shape(x)], "a list of tensors of one")):
            with pytest.raises(TypeError, match=text):
                await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": given}, session)
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    batch = RNG.normal(size=(3, 6)).astype(np.float32)
    imported = af.onnx.load(tmp_path / "model.onnx", af.Graph())
    async with af.Session(graph=imported.graph) as session:
        results = await session.run(imported.outputs, {imported.inputs["x"]: batch})
    wanted = {"pair": [batch, batch[:1]], "written": [batch, batch * 2], "rows": [*batch**2], "y": batch + 1}
    assert results.keys() == wanted.keys()
    for name, values in wanted.items():
        assert len(results[name]) == len(values)
        for mine, other in zip(results[name], values, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-6)


async def test_a_loaded_model_of_folded_columns_is_saved_again(tmp_path):
    folded = models.node("Col2Im", ["x", "size", "block"], ["y"], strides=[2, 1], pads=[1, 0, 0, 1])
    declared = [models.value("x", [2, 12, 8])], [models.value("y", [2, 2, 4, 5])]
    source = models.model([folded], *declared, size=np.array([4, 5]), block=np.array([2, 3]))
    batch, found = RNG.normal(size=(2, 12, 8)).astype(np.float32), []
    for _ in range(2):
        imported = af.onnx.load(source, af.Graph())
        async with af.Session(graph=imported.graph) as session:
            found.append(await session.run(imported.outputs["y"], {imported.inputs["x"]: batch}))
            await af.onnx.save(tmp_path / "again.onnx", imported.inputs, imported.outputs, session)
        source = (tmp_path / "again.onnx").read_bytes()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)
