"""`af.onnx.save` of complex numbers: as pairs of real and imaginary parts, of which inputs and outputs are parts."""

import numpy as np
import pytest

import aioflow as af
from tests.onnx import models
from tests.onnx.models import onnx


def parts_of(*values):
    return [part for value in values for part in (af.real(value), af.imag(value))]


def arithmetic(x):
    a, b = af.complex(x[:, :3], x[:, 3:]), af.complex(x[::-1, :3], x[:, 1:4])
    kernel = af.Variable(np.array([[1 + 2j, 3], [-1j, 0.5], [2, -2 + 1j]], np.complex64))
    made = (
        a + b, a - b, a * b, a / b, -a, af.square(a), af.exp(a), af.conj(a), af.matmul(a, kernel),
        af.matmul(a, b, adjoint_b=True), af.cast(x, af.complex64) * a[:, :1], af.complex(x, x[0]), a * (2 - 1j),
    )  # fmt: skip
    hot = af.constant([0.0, 1e30, -3e38, 0.0, -0.0, 1e-30], af.float32)
    extreme = af.complex(hot, hot[::-1])
    sizes = af.abs(a), af.abs(extreme), af.angle(a), af.angle(b)
    flags = af.equal(a, b), af.not_equal(a, a)
    return *parts_of(*made, extreme / af.complex(hot + 1.0, hot)), *sizes, *flags, af.cast(a, af.float32)


def moved(x):
    a = af.complex(x, x * 2.0 + 1.0)
    first, second = af.split(a, 2, 1)
    rows = (
        af.transpose(first), af.transpose(a, conjugate=True), af.concat([first, second], 0), af.stack([first, second]),
        af.pad(a, [[1, 0], [0, 2]], constant_values=1.0), a[:, ::-2], af.gather(a, [2, 0]), af.reduce_sum(a, 1),
        af.reduce_mean(a, 0), af.reshape(a, [-1, 2]), af.where(x > 0.0, a, af.conj(a)), af.tile(a[:1], [2, 1]),
        af.cumsum(a, 1), af.zeros_like(a) + a, af.unstack(a, axis=1)[2], af.linalg.adjoint(a[:4]),
    )  # fmt: skip
    branch = af.cond(x[0, 0] > 0.0, lambda: af.abs(a), lambda: af.real(a))
    return *parts_of(*rows), branch


def transformed(x):
    images = af.reshape(x, [-1, 4, 6])
    a = af.complex(images, images[::-1])
    made = [af.signal.fft(a), af.signal.ifft(a), af.signal.fft2d(a), af.signal.ifft2d(a), af.signal.fft(a[0, 0])]
    made += [af.signal.rfft(x), af.signal.rfft(x, [9]), af.signal.rfft2d(images), af.signal.rfft(x[0])]
    made += [af.signal.stft(af.reshape(x, [2, -1]), 16, 6), af.signal.fft(af.cast(a, af.complex128))]
    half = af.signal.rfft(x)
    back = [af.signal.irfft(half), af.signal.irfft(half[:, :3], [5]), af.signal.irfft2d(af.signal.rfft2d(images))]
    spectrogram = af.abs(af.signal.stft(af.reshape(x, [1, -1]), 32, 8, pad_end=True))
    mel = af.matmul(spectrogram[0], af.signal.linear_to_mel_weight_matrix(8, 17, 8000, 80.0, 3000.0))
    return *parts_of(*made), *back, af.signal.inverse_stft(made[-2], 16, 6), spectrogram, af.log(mel + 1.0)


CASES = pytest.mark.parametrize("saved", [arithmetic, moved, transformed], indirect=True)


@CASES
async def test_complex_numbers_inside_a_model_are_pairs_that_compute_the_same(saved):
    await models.assert_loads_alike(saved)


@CASES
async def test_another_runtime_computes_the_same_of_complex_numbers(saved):
    models.assert_runs_alike(saved)


async def test_complex_inputs_may_be_moved_and_are_not_computed_with(tmp_path):
    with af.Graph().as_default() as graph:
        x, y = af.placeholder(af.complex64, [None, 2]), af.placeholder(af.float32, [2])
        turned = af.transpose(x[:, ::-1])
        outputs = {
            "ONNX takes it not apart: let its parts be inputs": af.real(x),
            "ONNX joins no parts: save af.real and af.imag": af.complex(y, y),
            "1 operations have no form in ONNX: sin of complex64": af.abs(af.sin(af.complex(y, y))),
        }
    async with af.Session(graph=graph) as session:
        for text, output in outputs.items():
            with pytest.raises((ValueError, af.errors.UnimplementedError), match=text):
                await af.onnx.save(tmp_path / "model.onnx", {"x": x, "y": y}, {"z": output}, session)
        assert list(tmp_path.iterdir()) == []
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"z": turned}, session)
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    value = np.array([[1 + 2j, 3], [4, -5j]], np.complex64)
    (found,) = await models.run((tmp_path / "model.onnx").read_bytes(), value)
    np.testing.assert_array_equal(found, value[:, ::-1].T)
