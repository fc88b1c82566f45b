"""`af.onnx.save` of branches, loops, lists and recurrent layers: they compute the same, here and in another runtime."""

import numpy as np
import pytest

import aioflow as af
from tests.onnx.models import onnx

X = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)


def branches(x):
    total = af.reduce_sum(x)
    either = af.cond(total > 0, lambda: x * 2.0, lambda: x + af.constant([1.0, 2.0, 3.0]))
    one_of = af.case([(total > 100.0, lambda: x), (total > -100.0, lambda: -x)], default=lambda: x * x)
    return either, one_of


def loops(x):
    w = af.Variable(np.eye(3, dtype=np.float32) * 0.7)

    def step(i, a):
        turned = af.reshape(af.matmul(af.reshape(a, [-1, 3]), w), [-1, 4, 3])
        return i + 1, af.cond(af.equal(i, 1), lambda: turned * 2.0, lambda: turned + x)

    counted = af.while_loop(lambda i, a: i < 3, step, [af.constant(0), x])
    limited = af.while_loop(lambda a: af.reduce_max(a) < 1e9, lambda a: a * 2.0, [x], maximum_iterations=5)
    flagged = af.while_loop(lambda a, go: go, lambda a, go: (a * 2.0, af.reduce_max(a) < 9.0), [x, af.constant(True)])
    inside = af.cond(af.reduce_max(x) > -1.0, lambda: af.foldl(lambda a, row: a + row, x), lambda: x[0])
    return *counted, limited, *flagged, inside


def lists(x):
    doubled = af.map_fn(lambda row: row * 2.0, x)
    sums = af.scan(lambda a, row: a + row, af.transpose(x, [1, 0, 2]))
    scalars = af.scan(lambda a, row: a + af.reduce_sum(row), x, af.constant(0.0))
    grown = af.TensorArray(af.float32, 0, dynamic_size=True).write(0, x[0])
    _, grown = af.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a.write(i, x[0] * af.cast(i, af.float32))), [af.constant(1), grown]
    )
    first_to_last = [
        af.scan(lambda a, row: a * 0.5 + row, rows, reverse=True) for rows in (x, af.transpose(x, [1, 0, 2]))
    ]
    from_zero = af.scan(lambda a, row: a + af.reduce_sum(row), x, af.constant(0.0), reverse=True)
    unrolled = af.TensorArray(af.float32, 3).write(2, x[0]).write(1, x[0] * 2.0).write(0, x[0] * 3.0).stack()
    return doubled, sums, scalars, grown.stack(), grown.size(), *first_to_last, from_zero, unrolled


def layers(x):
    both = af.layers.Bidirectional(af.layers.GRU(4, return_sequences=True))(x)
    plain = af.layers.SimpleRNN(3)(both)
    cells = [af.nn.rnn_cell.LSTMCell(5), af.nn.rnn_cell.GRUCell(2)]
    stacked, _ = af.nn.dynamic_rnn(af.nn.rnn_cell.MultiRNNCell(cells), x, sequence_length=[2, 4], dtype=af.float32)
    return plain, stacked, af.layers.LSTM(5)(x)


@pytest.mark.parametrize("build", [branches, loops, lists, layers])
async def test_control_flow_computes_the_same_when_it_is_loaded_and_in_another_runtime(build, tmp_path):
    path, graph = tmp_path / "model.onnx", af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None, 4, 3])
        outputs = {f"y{i}": y for i, y in enumerate(build(x))}
        initializer = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(initializer)
        expected = await session.run(outputs, {x: X})
        await af.onnx.save(path, {"x": x}, outputs, session)
    onnx.checker.check_model(str(path), full_check=True)
    imported = af.onnx.load(path, af.Graph())
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        loaded = await session.run(imported.outputs, {imported.inputs["x"]: X})
        await af.onnx.save(tmp_path / "again.onnx", imported.inputs, imported.outputs, session)
    for name, value in expected.items():
        np.testing.assert_allclose(loaded[name], value, rtol=1e-5, atol=1e-6)
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    for file in ("model.onnx", "again.onnx"):
        results = runtime.InferenceSession(tmp_path / file).run([*expected], {"x": X})
        for result, value in zip(results, expected.values(), strict=True):
            np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-5)


async def test_a_loop_that_was_trained_is_saved_without_its_records(tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2, 4, 3])
        y = af.layers.GRU(2)(x)
        af.train.GradientDescentOptimizer(0.1).minimize(af.reduce_sum(y))
        initializer = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(initializer)
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)
    types = [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node]
    assert types.count("Loop") == 1


@pytest.mark.parametrize("lengths", [None, [4, 1]], ids=["all", "lengths"])
async def test_an_lstm_in_one_operation_is_one_node(lengths, tmp_path):
    path = tmp_path / "model.onnx"
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2, 4, 3])
        cell = af.nn.rnn_cell.BasicLSTMCell(2)
        outputs, state = af.nn.dynamic_rnn(cell, x, lengths, dtype=af.float32)
        made = {"outputs": outputs, "c": state.c, "h": state.h}
        initializer = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(initializer)
        expected = await session.run(made, {x: X})
        await af.onnx.save(path, {"x": x}, made, session)
    types = [node.op_type for node in onnx.load(path).graph.node]
    assert (types.count("LSTM"), types.count("Loop")) == (1, 0)
    imported = af.onnx.load(path, af.Graph())
    assert "lstm" in {operation.type for operation in imported.graph.get_operations()}
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        found = await session.run(imported.outputs, {imported.inputs["x"]: X})
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    results = runtime.InferenceSession(path).run([*expected], {"x": X})
    for (name, value), result in zip(expected.items(), results, strict=True):
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-6)


def turned(x):
    array = af.TensorArray(af.float32, 4).write(3, x[0]).write(2, x[1])
    body = lambda i, a: (i + 1, a.write(i - 2, x[0]))  # noqa: E731
    return af.while_loop(lambda i, a: i < 4, body, [af.constant(2), array])[1].stack()


def from_both_ends(x):
    return af.TensorArray(af.float32, 3).write(0, x[0]).write(1, x[0]).write(0, x[0]).stack()


def read_back(x):
    array = af.TensorArray(af.float32, 5, clear_after_read=False).write(0, x[0])
    body = lambda i, a: (i + 1, a.write(i, a.read(i - 1) * 2.0))  # noqa: E731
    return af.while_loop(lambda i, a: i < 5, body, [af.constant(1), array])[1].stack()


def written_by_an_inner_loop(x):
    def inner(i, array):
        once = af.while_loop(lambda j, a: j < i + 1, lambda j, a: (j + 1, a.write(j, x[0])), [i, array])
        return i + 1, once[1]

    array = af.TensorArray(af.float32, 2)
    return af.while_loop(lambda i, a: i < 2, inner, [af.constant(0), array])[1].stack()


def exchanged(x):
    lists = [af.TensorArray(af.float32, 2) for _ in range(2)]
    body = lambda i, a, b: (i + 1, b.write(i, x[0]), a.write(i, x[1]))  # noqa: E731
    return af.while_loop(lambda i, a, b: i < 2, body, [af.constant(0), *lists])[1].stack()


def counted(x):
    return af.while_loop(lambda a: af.reduce_sum(a) < 9.0, lambda a: a + 1.0, [x]).op.outputs[1]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (turned, "writes the slot of a list that follows the slots written before"),
        (from_both_ends, "written from the first one on, or from the last one on"),
        (read_back, "reads the list .* inside the loop that writes it"),
        (written_by_an_inner_loop, "an inner loop writes a list of the loop around it"),
        (exchanged, "a list of a loop becomes another one of its variables"),
        (counted, r"'while:1' is int32\[\], for which ONNX has no tensor"),
    ],
)
async def test_what_has_no_form_in_onnx_names_the_operation(build, match, tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2, 3])
        y = build(x)
    async with af.Session(graph=graph) as session:
        with pytest.raises(ValueError, match=match):
            await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)
    assert list(tmp_path.iterdir()) == []


async def test_operations_within_bodies_that_have_no_form_are_listed(tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2])
        y = af.cond(af.reduce_sum(x) > 0, lambda: af.igamma(x, x), lambda: af.map_fn(lambda z: af.zeta(z, z), x))
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.UnimplementedError, match=r"2 operations .*igamma.*zeta"):
            await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)
