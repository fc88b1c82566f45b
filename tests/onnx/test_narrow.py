"""Dtypes of 2, 4 and 8 bits that store weights: packed in models, and cast before anything computes with them."""

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from tests.onnx.models import arrays, model, node, onnx, run, value

DTYPES = {
    "INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4, "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn, "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


def stored(dtype, count):
    """All bytes that an element can be, over and over."""
    width = {ml_dtypes.int4: 16, ml_dtypes.uint4: 16, ml_dtypes.float4_e2m1fn: 16, ml_dtypes.int2: 4}.get(dtype, 4)
    return (np.arange(count) % width).astype(np.uint8).view(dtype)


def reading(tensor):
    """A model that casts a weight to float32 and adds an input to it."""
    message = onnx.ModelProto.FromString(
        model(
            [node("Cast", ["w"], ["wide"], to=1), node("Add", ["wide", "x"], ["y"])],
            [value("x", [])], [value("y")], opset=25,
        )
    )  # fmt: skip
    tensor.name = "w"
    message.graph.initializer.append(tensor)
    return message


@pytest.mark.parametrize("name", DTYPES)
async def test_weights_are_unpacked(name, tmp_path):
    weights = stored(DTYPES[name], 8195)
    expected = weights.astype(np.float32)
    packed = arrays.from_array(weights)
    assert packed.data_type == onnx.TensorProto.DataType.Value(name)
    small = weights[:5]
    typed = onnx.TensorProto(data_type=packed.data_type, dims=[5], int32_data=[*arrays.from_array(small).raw_data])
    for tensor, wanted in ((packed, expected), (typed, expected[:5])):
        (y,) = await run(reading(tensor).SerializeToString(), np.float32(0))
        np.testing.assert_array_equal(y, wanted)
    path = tmp_path / "model.onnx"
    onnx.save(reading(packed), path, save_as_external_data=True, location="weights", size_threshold=0)
    np.testing.assert_array_equal((await run(path, np.float32(0)))[0], expected)


def test_packed_weights_of_another_length_are_refused():
    message = reading(arrays.from_array(stored(ml_dtypes.int4, 5)))
    message.graph.initializer[0].raw_data += b"\0"
    with pytest.raises(af.errors.DataLossError, match=r"'w' of shape \[5\] needs 3 bytes, the model has 4"):
        af.onnx.load(message.SerializeToString(), af.Graph())


async def test_a_quantised_weight_of_4_bits_is_saved_again(tmp_path):
    weights, scale = np.arange(-8, 8).reshape(4, 4).astype(ml_dtypes.int4), np.float32(0.5)
    nodes = [node("DequantizeLinear", ["w", "scale"], ["wide"]), node("MatMul", ["x", "wide"], ["y"])]
    imported = af.onnx.load(model(nodes, [value("x", [1, 4])], [value("y")], w=weights, scale=scale), af.Graph())
    x = np.array([[1, 2, 3, 4]], np.float32)
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        await af.onnx.save(tmp_path / "again.onnx", imported.inputs, imported.outputs, session)
    for each in onnx.load(tmp_path / "again.onnx").graph.initializer:
        if each.data_type == onnx.TensorProto.INT4:
            np.testing.assert_array_equal(arrays.to_array(each), weights)
            break
    else:
        pytest.fail("no weight of 4 bits was written")
    np.testing.assert_array_equal((await run(tmp_path / "again.onnx", x))[0], x @ (weights.astype(np.float32) * scale))


@pytest.mark.parametrize(
    ("dtype", "version"),
    [("float32", 21), ("int4", 21), ("float4_e2m1fn", 23), ("float8_e8m0fnu", 24), ("uint2", 25), ("int2", 25)],
)
async def test_a_saved_model_has_the_oldest_version_that_has_its_dtypes(dtype, version, tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.as_dtype(dtype), [2])
        y = af.cond(af.reduce_sum(af.cast(x, af.float32)) > 0.0, lambda: af.identity(x), lambda: af.reshape(x, [2]))
    async with af.Session(graph=graph) as session:
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    assert [each.version for each in onnx.load(tmp_path / "model.onnx").opset_import] == [version]


async def test_a_cast_to_powers_of_two_is_not_saved(tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2])
        y = af.cast(x, af.float8_e8m0fnu)
    async with af.Session(graph=graph) as session:
        with pytest.raises(ValueError, match="ONNX rounds to powers of two in another way"):
            await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
async def test_powers_of_two_are_found_by_the_mode_of_rounding(mode):
    nodes = [node("Cast", ["x"], ["a"], to=24, round_mode=mode), node("Cast", ["a"], ["y"], to=1)]
    x = np.array([-1, 1.5, 3, 2.0**-127 * 1.25, 2.0**-127, 3e38, 0, np.inf, np.nan], np.float32)
    (y,) = await run(model(nodes, [value("x", [9])], [value("y")], opset=25), x)
    np.testing.assert_array_equal(y, arrays.to_float8e8m0(x, True, mode).astype(np.float32))
