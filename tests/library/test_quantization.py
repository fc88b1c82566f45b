"""Numbers stored in few bits. `oracle/ops/quantisation.py` compares them with TensorFlow, gradients too."""

import numpy as np
import pytest

import aioflow as af

X = np.array([-7, -1, 0.3, 0.5, 2, 9, np.nan], np.float32)


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_stored_numbers_come_back_within_half_a_step(graph):
    kinds = [(af.qint8, 8), (af.quint8, 8), (af.qint16, 16), (af.quint16, 16), (af.qint32, 32)]
    inside, back = np.linspace(-2, 3, 101, dtype=np.float32), {}
    for dtype, bits in kinds:
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            if mode != "SCALED" or not dtype.is_unsigned:
                stored = af.quantization.quantize(inside, -2.0, 3.0, dtype, mode)
                back[dtype.name, mode, 6 / (2**bits - 2)] = af.quantization.dequantize(*stored, mode=mode)
    async with af.Session(graph=graph) as session:
        for (name, mode, step), values in (await session.run(back)).items():
            np.testing.assert_allclose(values, inside, atol=step / 2 + 3e-7, err_msg=f"{name} {mode}")


async def test_numbers_beyond_the_limits_are_stored_as_limits_and_nan_as_0(graph):
    stored = [af.quantize_v2(X, -2.0, 3.0, dtype)[0] for dtype in (af.qint8, af.qint32)]
    async with af.Session(graph=graph) as session:
        narrow, wide = await session.run(stored)
        assert narrow.tolist() == [-128, -77, -11, -1, 76, 127, 0]
        assert (wide[0], wide[-2], wide[-1]) == (-(2**31), 2**31 - 1, 0)
        assert narrow.dtype == np.int8


async def test_fake_quantisation_passes_gradients_inside_and_sums_them_at_the_limits(graph):
    x, low, high = af.constant([[-3.0, 0.2], [0.4, 5.0]]), af.constant([-1.0, 0.0]), af.constant([1.0, 2.0])
    y = af.fake_quant_with_min_max_vars_per_channel(x, low, high)
    weights = af.constant([[1.0, 2.0], [3.0, 4.0]])
    first = af.gradients(y, [x, low, high], [weights])
    second = af.gradients(first, weights)[0]
    async with af.Session(graph=graph) as session:
        value, (dx, dlow, dhigh), again = await session.run([y, first, second])
    np.testing.assert_allclose(value, [[-254 / 255, 50 / 255], [102 / 255, 2]], rtol=1e-6)
    assert dx.tolist() == [[0, 2], [3, 0]]
    assert (dlow.tolist(), dhigh.tolist()) == ([1, 0], [0, 4])
    assert again.tolist() == [[1, 1], [1, 1]]  # each element's gradient went to one place


async def test_limits_that_are_equal_store_zeros_alone(graph):
    found = [
        af.fake_quant_with_min_max_vars(X, 0.0, 0.0),
        af.quantization.quantize_and_dequantize(X, 0.0, 0.0, range_given=True),
    ]
    async with af.Session(graph=graph) as session:
        assert [value.tolist() for value in await session.run(found)] == [[0] * 7] * 2


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: af.fake_quant_with_min_max_args(X, 1, 1), "min must be below max, not 1 and 1"),
        (lambda: af.fake_quant_with_min_max_vars(X, 0.0, 1.0, num_bits=17), "num_bits is from 2 to 16, not 17"),
        (lambda: af.fake_quant_with_min_max_vars(X, [0.0], [1.0]), r"min: rank 0 is needed, the shape is \[1\]"),
        (
            lambda: af.fake_quant_with_min_max_vars_per_channel(X, [0.0], [1.0]),
            r"\[1\] do not fit the last axis .*\[7\]",
        ),
        (lambda: af.quantize_v2(X, 0.0, 1.0, af.int64), "int64 is not supported; use one of int16, int32, int8"),
        (
            lambda: af.quantize_v2(X, 0.0, 1.0, af.qint8, "MAX"),
            "mode is one of MIN_COMBINED, MIN_FIRST, SCALED, not 'MAX'",
        ),
        (lambda: af.quantize(X, 0.0, 1.0, af.qint8, round_mode="HALF_TO_EVEN"), "is for mode SCALED"),
        (
            lambda: af.quantize(X, [0.0], [1.0], af.qint8, axis=0),
            r"limits of shape \[1\] do not fit axis 0 of shape \[7\]",
        ),
        (lambda: af.quantization.quantize_and_dequantize(X, 0.0, 1.0, num_bits=1), "num_bits is from 2 to 62, not 1"),
        (lambda: af.quantization.quantized_concat(0, [X], [], []), "1 values have 0 lower and 0 upper limits"),
    ],
)
def test_wrong_arguments_are_named(graph, build, text):
    with pytest.raises((ValueError, TypeError), match=text):
        build()


async def test_limits_out_of_order_are_found_in_the_run(graph):
    found = [
        af.fake_quant_with_min_max_vars(X, 1.0, -1.0),
        af.quantize_v2(X, 1.0, -1.0, af.qint8)[0],
        af.dequantize(np.int8([1]), 1.0, -1.0),
        af.quantization.quantize_and_dequantize(X, 1.0, -1.0, range_given=True),
    ]
    async with af.Session(graph=graph) as session:
        for tensor in found:
            with pytest.raises(af.errors.InvalidArgumentError, match=r"min\w* is above (input_)?max\w*: 1.0 and -1.0"):
                await session.run(tensor)


def test_quantised_dtypes_are_those_of_the_stored_integers():
    assert af.qint8 is af.int8 is af.as_dtype("qint8")
    assert {af.qint8, af.qint16, af.qint32, af.quint8, af.quint16} == af.QUANTIZED_DTYPES
