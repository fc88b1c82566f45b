"""Weights of a loaded model are pages of its file, or one copy where they lie unaligned; damaged files are refused."""

from random import Random

import numpy as np
import pytest

import aioflow as af
from aioflow.onnx.detaching import Detached, detach
from aioflow.tensors.fixed_memory import is_fixed
from tests.onnx.models import model, node, onnx, value
from tests.support.doubles import light
from tests.support.scale import amount

W = np.arange(1 << 16, dtype=np.float32).reshape(256, 256)


def product(weight="w", title="product", **more):
    """A model with a large weight. Whether it lies aligned in the file depends on the length of the node's title."""
    nodes = [node("MatMul", ["x", weight], ["y"], title)]
    return model(nodes, [value("x", [1, 256])], [value("y", [1, 256])], **{weight: W}, **more)


def constant_of(imported, name):
    return imported.variables[name].initial_value.op.attrs["value"]


async def test_a_weight_is_in_memory_once_until_it_is_changed(tmp_path):
    aligned = []
    for title in ("n", "nn", "nnn", "nnnn"):
        path = tmp_path / title
        path.write_bytes(product(title=title))
        imported = af.onnx.load(path, af.Graph())
        variable, constant = imported.variables["w"], constant_of(imported, "w")
        with imported.graph.as_default():
            grown = af.assign_add(variable, np.ones((256, 256), np.float32))
            seen = []
            look = light(variable.value(), lambda w, seen=seen: seen.append(w) or w)
        assert is_fixed(constant)
        assert constant.flags.aligned
        async with af.Session(graph=imported.graph) as session:
            await session.run(imported.initializer)
            await session.run(look.op)
            assert np.shares_memory(seen.pop(), constant)
            np.testing.assert_array_equal(await session.run(grown), W + 1)
        np.testing.assert_array_equal(constant, W)
        assert path.read_bytes() == product(title=title)
        aligned.append(path.read_bytes().index(W.tobytes()) % 4 == 0)
    assert sorted(aligned) == [False, False, False, True]


async def test_a_weight_of_bytes_and_one_beside_the_model_are_in_memory_once(tmp_path):
    imported = af.onnx.load(product(), af.Graph())
    assert is_fixed(constant_of(imported, "w"))
    message = onnx.ModelProto.FromString(product())
    onnx.save(message, tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    beside = constant_of(af.onnx.load(tmp_path / "model.onnx", af.Graph()), "w")
    assert is_fixed(beside)
    np.testing.assert_array_equal(beside, W)


def test_only_memory_that_nobody_changes_is_fixed():
    writable = W.copy()
    read_only = writable.view()
    read_only.flags.writeable = False
    for array in (writable, read_only, np.float32(1), np.frombuffer(W.tobytes(), np.float32)):
        assert not is_fixed(array)


async def test_a_model_is_saved_over_the_file_that_it_was_loaded_from(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(product())
    imported = af.onnx.load(path, af.Graph())
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        before = np.array(await session.run(imported.variables["w"]))
        await af.onnx.save(path, imported.inputs, {"z": imported.inputs["x"] * 2.0}, session)
        np.testing.assert_array_equal(await session.run(imported.variables["w"]), before)
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]
    assert path.stat().st_size < 1000


async def test_a_large_tensor_of_a_node_is_that_of_the_file(tmp_path):
    constant = node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(W))
    data = model([constant, node("MatMul", ["x", "w"], ["y"])], [value("x", [1, 256])], [value("y", [1, 256])])
    slim, _ = detach(memoryview(data))
    assert len(slim) < 1000
    imported = af.onnx.load(data, af.Graph())
    x = np.ones((1, 256), np.float32)
    async with af.Session(graph=imported.graph) as session:
        (y,) = (await session.run(imported.outputs, {imported.inputs["x"]: x})).values()
    np.testing.assert_allclose(y, x @ W, rtol=1e-5)


# What the walk over the fields must not change


def whole(data):
    """The model that the parser gets, with its data put back."""
    slim, detached = detach(memoryview(data))
    message = onnx.ModelProto.FromString(slim)
    for tensor in message.graph.initializer:
        if tensor.HasField("raw_data"):
            tensor.raw_data = bytes(detached.find(tensor.raw_data))
    return message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        product(),
        product(b=np.arange(4, dtype=np.int64)),  # 32 bytes of data, as many as a mark has
        product() + product("v"),  # two graphs, which are merged
        product() + b"\xa0\x06\x07\xa2\x06\x03abc",  # unknown fields
        b"\xba\x80\x00\x02" + product(),  # a number in more bytes than it needs: an empty graph's
    ],
)
def test_the_parser_gets_the_model_that_the_file_holds(data):
    try:
        expected = onnx.ModelProto.FromString(data)
    except Exception:
        expected = None
    assert whole(data) == expected if expected is not None else detach(memoryview(data))[0] == data


def test_a_damaged_model_is_damaged_in_the_same_way():
    data, random = product(b=np.arange(4, dtype=np.int64)), Random(3)
    places = [*range(200), *range(len(data) - 200, len(data))]
    for _ in range(amount(100, 10_000)):
        changed = bytearray(data)
        for _ in range(random.choice([1, 1, 2])):
            changed[random.choice(places)] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])
        outcomes = []
        for parse in (onnx.ModelProto.FromString, whole):
            try:
                outcomes.append(parse(bytes(changed)))
            except Exception as error:  # the parser's own, of whichever implementation of protobuf
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]


def test_a_mark_of_another_model_is_data():
    slim, detached = detach(memoryview(product()))
    (tensor,) = onnx.ModelProto.FromString(slim).graph.initializer
    assert bytes(detached.find(tensor.raw_data)) == W.tobytes()
    assert detached.find(tensor.raw_data[:-1]) == tensor.raw_data[:-1]
    assert Detached(memoryview(b"other")).find(tensor.raw_data) == tensor.raw_data


def test_a_model_that_ends_within_a_weight_is_refused(tmp_path):
    path, data = tmp_path / "model.onnx", product()
    start = data.index(W.tobytes())
    for end in (start - 3, start - 1, start, start + 1, start + W.nbytes // 2, start + W.nbytes - 1):
        path.write_bytes(data[:end])
        with pytest.raises(af.errors.DataLossError, match="are not a model"):
            af.onnx.load(path, af.Graph())
    path.write_bytes(b"")
    with pytest.raises(af.errors.DataLossError, match="0 bytes are not a model"):
        af.onnx.load(path, af.Graph())


@pytest.mark.parametrize(
    "tail",
    [
        b"\x3a\xff\xff\xff\xff\x7f",  # a graph of 34 GB
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a length of 70 bits
        b"\x3b",  # a group
        b"\x02\x00",  # field 0
        b"\x80" * 30,
    ],
)
def test_fields_that_do_not_fit_the_model_are_left_to_the_parser(tail):
    data = product() + tail
    assert detach(memoryview(data))[0] == data
    with pytest.raises(af.errors.DataLossError, match=f"{len(data)} bytes are not a model"):
        af.onnx.load(data, af.Graph())


def test_a_model_of_very_many_fields_is_left_to_the_parser(monkeypatch):
    monkeypatch.setattr("aioflow.onnx.detaching._MOST_FIELDS", 1000)
    data = product() + b"\xa0\x06\x07" * 1000
    assert detach(memoryview(data))[0] == data
    assert af.onnx.load(data, af.Graph()).variables.keys() == {"w"}
