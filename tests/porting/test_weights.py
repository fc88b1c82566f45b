"""Weights of other programs imported: names, layouts, reports, and that nothing is changed unless all fits."""

import re

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import aioflow as af
from aioflow.porting import TORCH, Rule, dense_after_flatten, import_weights, match_weights

GENERATOR = np.random.default_rng(0)


def normal(*shape):
    return GENERATOR.standard_normal(shape).astype(np.float32)


# The layouts of PyTorch, whose formulas are written here in its own layout


def torch_conv(x, weight, bias):
    """A convolution of [batch, channels, height, width] without padding."""
    high, wide = x.shape[2] - weight.shape[2] + 1, x.shape[3] - weight.shape[3] + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))[:, :, :high, :wide]
    return np.einsum("bchwij,ocij->bohw", windows, weight) + bias[:, None, None]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def torch_gru(x, w):
    state, outputs = np.zeros((len(x), w["g.weight_hh_l0"].shape[1]), np.float32), []
    for step in x.swapaxes(0, 1):
        r, z, n = np.split(step @ w["g.weight_ih_l0"].T + w["g.bias_ih_l0"], 3, 1)
        s, u, m = np.split(state @ w["g.weight_hh_l0"].T + w["g.bias_hh_l0"], 3, 1)
        z = sigmoid(z + u)
        state = z * state + (1 - z) * np.tanh(n + sigmoid(r + s) * m)
        outputs.append(state)
    return np.stack(outputs, 1)


def torch_lstm(x, w):
    state = memory = np.zeros((len(x), w["l.weight_hh_l0"].shape[1]), np.float32)
    for step in x.swapaxes(0, 1):
        gates = step @ w["l.weight_ih_l0"].T + w["l.bias_ih_l0"] + state @ w["l.weight_hh_l0"].T + w["l.bias_hh_l0"]
        i, f, g, o = np.split(gates, 4, 1)
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(memory)
    return state


async def test_a_convolutional_net_in_the_layout_of_pytorch_computes_the_same_layer_by_layer(tmp_path):
    w = {
        "features.0.weight": normal(6, 3, 3, 3), "features.0.bias": normal(6),
        "features.1.weight": normal(6), "features.1.bias": normal(6), "features.1.running_mean": normal(6),
        "features.1.running_var": np.exp(normal(6)), "features.1.num_batches_tracked": np.array(3),
        "classifier.weight": normal(4, 6 * 2 * 3), "classifier.bias": normal(4),
    }  # fmt: skip
    save_file(w, tmp_path / "net.safetensors")
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 4, 5, 3], name="x")
        conv = af.layers.Conv2D(6, 3, name="conv")(x)
        norm = af.layers.BatchNormalization(epsilon=1e-5, name="norm")(conv)
        logits = af.layers.Dense(4, name="classifier")(af.layers.Flatten()(norm))
    rules = [Rule("classifier/kernel", "classifier.weight", dense_after_flatten(6, 2, 3)), *TORCH]
    images = normal(2, 3, 4, 5)
    value = torch_conv(images, w["features.0.weight"], w["features.0.bias"])
    scale = w["features.1.weight"] / np.sqrt(w["features.1.running_var"] + 1e-5)
    normed = (value - w["features.1.running_mean"][:, None, None]) * scale[:, None, None]
    normed += w["features.1.bias"][:, None, None]
    scores = normed.reshape(2, -1) @ w["classifier.weight"].T + w["classifier.bias"]
    async with af.Session(graph=graph) as session:
        names = {"features.0": "conv", "features.1": "norm"}
        report = await import_weights(session, tmp_path / "net.safetensors", name_map=names, rules=rules)
        fed = {"x:0": images.transpose(0, 2, 3, 1)}
        expected = {logits: scores, norm.name: normed, conv: value}
        comparison = await af.porting.compare_outputs(session, expected, fed, axes={4: (0, 2, 3, 1)})
        found = await session.run(norm, fed)
        broken = {**expected, norm.name: np.where(found.transpose(0, 3, 1, 2) > 1, 9, normed), logits: scores + 1}
        apart = await af.porting.compare_outputs(session, broken, fed, axes={4: (0, 2, 3, 1)})
        turned = await af.porting.compare_outputs(session, {conv: value}, fed)
    assert report.complete
    assert [str(match.variable) for match in report.matched] == [v.op.name for v in graph.get_collection("variables")]
    assert [difference.tensor for difference in comparison.differences] == [conv.name, norm.name, logits.name]
    assert comparison.first(1e-4, 1e-5) is None
    assert apart.first(1e-4, 1e-5).tensor == norm.name
    assert "test_weights.py" in apart.first(1e-4, 1e-5).line
    assert "computed [2, 2, 3, 6], expected [2, 6, 2, 3]; transposed by (0, 2, 3, 1) it would" in str(turned)


async def test_recurrent_layers_in_the_layout_of_pytorch_compute_the_same():
    w = {
        "g.weight_ih_l0": normal(12, 3), "g.weight_hh_l0": normal(12, 4), "g.bias_ih_l0": normal(12),
        "g.bias_hh_l0": normal(12), "l.weight_ih_l0": normal(8, 4), "l.weight_hh_l0": normal(8, 2),
        "l.bias_ih_l0": normal(8), "l.bias_hh_l0": normal(8),
    }  # fmt: skip
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 5, 3])
        gru = af.layers.GRU(4, return_sequences=True, name="g")(x)
        lstm = af.layers.LSTM(2, name="l")(gru)
    steps = normal(2, 5, 3)
    expected = {gru: torch_gru(steps, w), lstm: torch_lstm(torch_gru(steps, w), w)}
    async with af.Session(graph=graph) as session:
        await import_weights(session, w, rules=TORCH)
        assert (await af.porting.compare_outputs(session, expected, {x: steps})).first(1e-4, 1e-5) is None


async def test_attention_depthwise_and_transposed_convolution_and_embeddings_have_rules():
    w = {
        "att.in_proj_weight": normal(12, 4), "att.in_proj_bias": normal(12), "att.out_proj.weight": normal(4, 4),
        "att.out_proj.bias": normal(4), "deep.weight": normal(6, 1, 3, 2), "up.weight": normal(6, 2, 3, 3),
        "emb.weight": normal(7, 4),
    }  # fmt: skip
    with af.Graph().as_default() as graph:
        embedded = af.layers.Embedding(7, 4, name="emb")(af.placeholder(af.int32, [None, 5]))
        af.layers.MultiHeadAttention(2, 2, name="att")(embedded, embedded)
        deep = af.layers.DepthwiseConv2D([3, 2], depth_multiplier=2, use_bias=False, name="deep")
        spread = deep(af.placeholder(af.float32, [None, 9, 9, 3]))
        af.layers.Conv2DTranspose(2, 3, use_bias=False, name="up")(spread)
        weights = {variable.op.name: variable for variable in af.global_variables()}
    async with af.Session(graph=graph) as session:
        await import_weights(session, w, rules=TORCH)
        found = await session.run(weights)
    q, k, v = np.split(w["att.in_proj_weight"], 3)
    for name, part in {"query": q, "key": k, "value": v, "output": w["att.out_proj.weight"]}.items():
        np.testing.assert_array_equal(found[f"att/{name}/kernel"], part.T)
    np.testing.assert_array_equal(found["att/key/bias"], w["att.in_proj_bias"][4:8])
    np.testing.assert_array_equal(found["att/output/bias"], w["att.out_proj.bias"])
    np.testing.assert_array_equal(found["emb/embeddings"], w["emb.weight"])
    np.testing.assert_array_equal(found["deep/depthwise_kernel"][:, :, 2, 1], w["deep.weight"][5, 0])
    np.testing.assert_array_equal(found["up/kernel"][:, :, 1, 4], w["up.weight"][4, 1])


async def test_cells_norms_activations_and_separable_convolutions_have_rules():
    w = {
        "cell.weight_ih": normal(8, 3), "cell.weight_hh": normal(8, 2), "cell.bias_ih": normal(8),
        "cell.bias_hh": normal(8), "rms.weight": normal(3), "each.weight": normal(3), "channel.weight": normal(4),
        "d.weight": normal(8, 1, 3, 2), "p.weight": normal(5, 8, 1, 1), "p.bias": normal(5),
        "att.q_proj_weight": normal(4, 4), "att.k_proj_weight": normal(4, 3), "att.v_proj_weight": normal(4, 2),
        "att.in_proj_bias": normal(12), "att.out_proj.weight": normal(4, 4), "att.out_proj.bias": normal(4),
    }  # fmt: skip
    with af.Graph().as_default() as graph:
        x, images = af.placeholder(af.float32, [None, 3]), af.placeholder(af.float32, [None, 7, 6, 4])
        state = [af.placeholder(af.float32, [None, 2])] * 2
        af.layers.LSTMCell(2, name="cell")(x, state)
        af.layers.PReLU(name="each")(af.layers.RMSNormalization(name="rms")(x))
        separable = af.layers.SeparableConv2D(5, [3, 2], depth_multiplier=2, name="sep")
        separable(af.layers.PReLU(shared_axes=[1, 2], name="channel")(images))
        steps = [af.placeholder(af.float32, [None, 5, size]) for size in (4, 2, 3)]
        af.layers.MultiHeadAttention(2, 2, name="att")(*steps)
        weights = {variable.op.name: variable for variable in af.global_variables()}
    async with af.Session(graph=graph) as session:
        names = {"d": "sep.depthwise", "p": "sep.pointwise"}
        assert (await import_weights(session, w, name_map=names, rules=TORCH)).complete
        found = await session.run(weights)
        pixels = normal(1, 7, 6, 4)
        computed = await session.run(separable(images), {images: pixels})
    expected = {
        "cell/kernel": w["cell.weight_ih"].T, "cell/recurrent_kernel": w["cell.weight_hh"].T,
        "cell/bias": w["cell.bias_ih"] + w["cell.bias_hh"], "rms/scale": w["rms.weight"],
        "each/alpha": w["each.weight"], "channel/alpha": w["channel.weight"][None, None],
        "att/query/kernel": w["att.q_proj_weight"].T, "att/key/kernel": w["att.k_proj_weight"].T,
        "att/value/kernel": w["att.v_proj_weight"].T, "att/value/bias": w["att.in_proj_bias"][8:],
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    whole = np.zeros([8, 4, 3, 2], np.float32)  # a depthwise convolution as one of all channels
    whole[np.arange(8), np.arange(8) // 2] = w["d.weight"][:, 0]
    deep = torch_conv(pixels.transpose(0, 3, 1, 2), whole, np.zeros(8, np.float32))
    wanted = torch_conv(deep, w["p.weight"], w["p.bias"])
    np.testing.assert_allclose(computed.transpose(0, 3, 1, 2), wanted, rtol=1e-4, atol=1e-5)


# Names


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        af.Variable(np.zeros([2, 3], np.float32), name="a/kernel")
        af.Variable(np.zeros(3, np.float32), name="a/bias")
    return graph


STATE = {"net.fc.weight": np.ones((3, 2), np.float32), "net.fc.bias": np.full(3, 2, np.float32)}


@pytest.mark.parametrize(
    "name_map",
    [
        {"net.fc": "a"},
        {"net": "nowhere", "net.fc.weight": "a.weight", "net.fc.bias": "a/bias"},
        lambda name: name.replace("net.fc", "a"),
        [("^net", "x"), (r"^x\.(\w)c", "a")],
    ],
)
async def test_names_are_mapped_by_modules_functions_and_patterns(graph, name_map):
    async with af.Session(graph=graph) as session:
        await import_weights(session, STATE, name_map=name_map, rules=TORCH)
        kernel, bias = await session.run(["a/kernel/read:0", "a/bias/read:0"])
    assert kernel.tolist() == [[1] * 3] * 2
    assert bias.tolist() == [2] * 3


@pytest.mark.parametrize(
    "name_map",
    [
        {"net.fc": "a", "net.fc.bias": None},
        [(r"bias$", None), ("net.fc", "a")],
        lambda name: None if "bias" in name else "a/weight",
    ],
)
async def test_tensors_that_a_name_map_leaves_out_are_neither_used_nor_unexpected(graph, name_map):
    report = await match_weights(STATE, graph.get_collection("variables"), name_map=name_map, rules=TORCH)
    assert [match.tensors for match in report.matched] == [("net.fc.weight",)]
    assert report.unexpected == ()
    assert [misfit.variable for misfit in report.missing] == ["a/bias"]


@pytest.mark.parametrize(
    ("name_map", "error", "text"),
    [
        ({"net.fx": "a"}, ValueError, "name_map names ['net.fx'], and no tensor or module"),
        (lambda name: "a/kernel", ValueError, "gives 'net.fc.weight' and 'net.fc.bias' the same name, 'a/kernel'"),
        (lambda name: 3, TypeError, "gives a name, or None, for 'net.fc.weight', not 3"),
        ("net", TypeError, "a dict, a function or a list of pairs, not 'net'"),
        ([("(", "a")], ValueError, "has '(', which is no regular expression"),
        ([("", r"\1")], ValueError, r"which is no replacement: invalid group reference 1"),
        ([("", r"\g<a>")], ValueError, r"which is no replacement: unknown group name"),
        (["net"], TypeError, "pairs of a regular expression and its replacement, not 'net'"),
    ],
)
async def test_wrong_name_maps_are_refused(graph, name_map, error, text):
    with pytest.raises(error, match=re.escape(text)):
        await match_weights(STATE, graph.get_collection("variables"), name_map=name_map)


# Reports


async def test_the_report_names_all_that_does_not_fit_with_proposals_and_nothing_is_changed(tmp_path):
    with af.Graph().as_default() as graph:
        fine = af.Variable(np.float32(5), name="fine")
        af.Variable(np.zeros([2, 3], np.float32), name="turned")
        af.Variable(np.zeros([4], np.float32), name="half")
        af.Variable(np.zeros([7], np.float32), name="layer/bias")
        af.Variable(np.zeros([7], np.float32), name="failing")
        init = af.global_variables_initializer()
    state = {
        "fine": np.array(6, np.float32), "turned": np.zeros((3, 2), np.float32),
        "half": np.zeros(4, ml_dtypes.bfloat16), "layer.offset": np.zeros(7, np.float32), "rest": np.zeros(9),
        "failing": np.zeros(3, np.float32),
    }  # fmt: skip
    save_file(state, tmp_path / "a.safetensors")
    rules = Rule("failing", "failing", lambda array: array.reshape(7))
    async with af.Session(graph=graph) as session:
        await session.run(init)
        with pytest.raises(af.errors.InvalidArgumentError, match="none was changed") as raised:
            await import_weights(session, tmp_path / "a.safetensors", rules=rules)
        assert await session.run(fine) == 5
        report = await match_weights(tmp_path / "a.safetensors", graph.get_collection("variables"), rules=rules)
        with pytest.raises(af.errors.InvalidArgumentError):
            await import_weights(session, state, allow_missing=True, allow_unexpected=True)
        some = [variable for variable in graph.get_collection("variables") if variable.op.name in ("fine", "half")]
        with pytest.raises(af.errors.InvalidArgumentError, match="0 missing, 4 unexpected"):
            await import_weights(session, state, some, cast=True)
        await import_weights(session, state, some, cast=True, allow_unexpected=True)
        assert await session.run(fine) == 6
    lines = str(report).splitlines()
    assert str(report) in str(raised.value)
    assert not report.complete
    assert lines[:4] == [
        "1 matched, 3 different, 1 missing, 2 unexpected",
        "matched: fine float32[] = fine",
        "different: turned float32[2, 3] does not fit turned float32[3, 2]; transposed by (1, 0) it would",
        "different: half float32[4] does not fit half bfloat16[4]; cast=True converts the numbers",
    ]
    assert lines[4].startswith("different: failing float32[7] cannot be made of failing float32[3]: ValueError: cannot")
    assert lines[5:] == [
        "missing: layer/bias float32[7] has no tensor; similar: layer.offset float32[7]",
        "unexpected: layer.offset",
        "unexpected: rest",
    ]


async def test_wrong_arguments_are_refused_before_anything_is_read(graph):
    variables = graph.get_collection("variables")
    with af.Graph().as_default() as other:
        value = af.zeros([2])
        shared = [af.Variable(value, name="one"), af.Variable(value, name="two")]
    async with af.Session(graph=other) as session:
        for arguments, error, text in [
            ((session, STATE, variables), ValueError, "'a/kernel' belongs to another graph"),
            ((session, STATE, shared), ValueError, "'one' and 'two' have one initial value"),
            ((session, STATE, []), ValueError, "there are no variables"),
            ((session, STATE, ["a"]), TypeError, "variables are af.Variable, not 'a'"),
            ((session, {"a": object()}, shared[:1]), TypeError, "'a' is no array"),
            ((session, {1: 2}, shared[:1]), TypeError, "weights have names, not 1"),
            ((None, STATE), TypeError, "needs an af.Session"),
        ]:
            with pytest.raises(error, match=re.escape(text)):
                await import_weights(*arguments)
        with pytest.raises(TypeError, match=r"rules are af\.porting\.Rule, not 3"):
            await import_weights(session, STATE, shared[:1], rules=[3])
        with pytest.raises(ValueError, match="nothing is expected"):
            await af.porting.compare_outputs(session, {})
        with pytest.raises(TypeError, match="is of no use"):
            await af.porting.compare_outputs(session, {value: np.zeros([2])}, axes={1: (1, 0)})
    with pytest.raises(ValueError, match="a rule without convert has one tensor"):
        Rule("a", ["b", "c"])
    with pytest.raises(TypeError, match="convert must be a function"):
        Rule("a", "b", "transpose")
