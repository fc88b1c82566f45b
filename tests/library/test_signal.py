"""Transforms, frames and windows of signals. `oracle/ops/signal.py` compares them with TensorFlow, gradients too."""

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import aioflow as af
from tests.support.evaluate import evaluate

SAMPLES = np.random.default_rng(0).standard_normal((3, 4, 6))
COMPLEX = SAMPLES + 1j * SAMPLES[::-1]


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def fed(array):
    """An array whose sizes are known only in the run."""
    return af.placeholder_with_default(array, [None] * np.ndim(array))


async def test_transforms_are_those_of_numpy(graph):
    x, z, lengths = fed(SAMPLES), fed(COMPLEX), af.placeholder_with_default([3, 7], [2])
    both = {
        "fft": (af.fft(z), np.fft.fft(COMPLEX)),
        "ifft3d": (af.ifft3d(z), np.fft.ifftn(COMPLEX)),
        "rfft, longer": (af.signal.rfft(x, [8]), np.fft.rfft(SAMPLES, 8)),
        "rfft, shorter": (af.signal.rfft(x, [5]), np.fft.rfft(SAMPLES, 5)),
        "rfft2d": (af.signal.rfft2d(x, lengths), np.fft.rfft2(SAMPLES, (3, 7))),
        "irfft, even": (af.signal.irfft(z), np.fft.irfft(COMPLEX)),
        "irfft, odd": (af.signal.irfft(z, [7]), np.fft.irfft(COMPLEX, 7)),
        "irfft2d": (af.signal.irfft2d(z, lengths), np.fft.irfft2(COMPLEX, (3, 7))),
        "fftnd": (af.fftnd(z, [5, 2], [0, 1], "ortho"), np.fft.fftn(COMPLEX, (5, 2), (0, 1), "ortho")),
        "ifftnd": (af.ifftnd(z, axes=[-1, 0], norm="forward"), np.fft.ifftn(COMPLEX, axes=(-1, 0), norm="forward")),
        "rfftnd": (af.rfftnd(x, axes=[0, 1], norm="ortho"), np.fft.rfftn(SAMPLES, axes=(0, 1), norm="ortho")),
        "irfftnd": (af.irfftnd(z, [4, 5], norm="forward"), np.fft.irfftn(COMPLEX, (4, 5), (1, 2), "forward")),
        "fftshift": (af.signal.fftshift(x), np.fft.fftshift(SAMPLES)),
        "ifftshift": (af.signal.ifftshift(x, axes=[0, -1]), np.fft.ifftshift(SAMPLES, axes=(0, -1))),
    }
    async with af.Session(graph=graph) as session:
        found = await session.run({name: ours for name, (ours, _) in both.items()})
    for name, (_, expected) in both.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_the_precision_is_that_of_the_input(dtype):
    with af.Graph().as_default():
        z = af.constant(COMPLEX.astype(dtype))
        assert af.fft(z).dtype.np == dtype
        assert af.signal.irfft(z).dtype.np == np.dtype(dtype).type().real.dtype
        assert evaluate(af.fft(z)).dtype == dtype


def test_known_sizes_stay_known():
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [None, 400])
        assert af.signal.rfft(x).shape.as_list() == [None, 201]
        assert af.signal.rfft(x, [512]).shape.as_list() == [None, 257]
        assert af.signal.stft(x, 100, 50).shape.as_list() == [None, 7, 65]
        assert af.signal.mdct(x, 80).shape.as_list() == [None, 9, 40]
        assert af.signal.dct(x, n=30).shape.as_list() == [None, 30]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("type", "norm"), [(1, None), *[(type, norm) for type in (2, 3, 4) for norm in (None, "ortho")]]
)
def test_cosine_transforms_are_those_of_scipy(type, norm):
    with af.Graph().as_default():
        there = af.signal.dct(SAMPLES, type, norm=norm)
        back = af.signal.idct(there, type, norm=norm)
        np.testing.assert_allclose(evaluate(there), scipy.fft.dct(SAMPLES, type, norm=norm), rtol=1e-10, atol=1e-10)
        factor = 1 if norm else 2 * (SAMPLES.shape[-1] - (type == 1))
        np.testing.assert_allclose(evaluate(back), SAMPLES * factor, rtol=1e-10, atol=1e-10)


def test_frames_and_their_sum():
    with af.Graph().as_default():
        x = af.range(7)
        assert evaluate(af.signal.frame(x, 3, 2)).tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
        padded = evaluate(af.signal.frame(x, 3, 2, pad_end=True, pad_value=-1)).tolist()
        assert padded == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, -1, -1]]
        assert evaluate(af.signal.frame(x, 8, 1)).shape == (0, 8)
        columns = af.signal.frame(fed(np.arange(8).reshape(4, 2)), 2, 1, axis=0)
        assert evaluate(columns)[2].tolist() == [[4, 5], [6, 7]]
        sums = af.signal.overlap_and_add(fed(np.ones((2, 3, 4))), 3)
        assert evaluate(sums).tolist() == [[1, 1, 1, 2, 1, 1, 2, 1, 1, 1]] * 2


def test_a_signal_comes_back_from_its_spectra_where_frames_overlap():
    signal = np.random.default_rng(1).standard_normal((2, 512))
    with af.Graph().as_default():
        spectra = af.signal.stft(fed(signal), 64, 16)
        window = af.signal.inverse_stft_window_fn(16)
        back = evaluate(af.signal.inverse_stft(spectra, 64, 16, window_fn=window))
        np.testing.assert_allclose(back[:, 64:-64], signal[:, 64:-64], atol=1e-10)
        lapped = evaluate(af.signal.inverse_mdct(af.signal.mdct(fed(signal), 64)))
        np.testing.assert_allclose(lapped[:, 32:-32], signal[:, 32:-32], atol=1e-10)


@pytest.mark.whole
@pytest.mark.parametrize("length", [1, 2, 7, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_are_those_of_scipy(length, periodic):
    windows = {"hann_window": "hann", "hamming_window": "hamming"}
    with af.Graph().as_default():
        for ours, theirs in windows.items():
            found = evaluate(getattr(af.signal, ours)(length, periodic, af.float64))
            expected = scipy.signal.get_window(theirs, length, fftbins=periodic and length % 2 == 0)
            np.testing.assert_allclose(found, expected, atol=1e-12)
        kaiser = evaluate(af.signal.kaiser_window(length, 5.0, af.float64))
        np.testing.assert_allclose(kaiser, scipy.signal.get_window(("kaiser", 5.0), length, fftbins=False), atol=1e-12)


def test_the_squares_of_lapped_windows_have_the_sum_1():
    with af.Graph().as_default():
        for window in (af.signal.vorbis_window, af.signal.kaiser_bessel_derived_window):
            weights = evaluate(window(16, dtype=af.float64))
            np.testing.assert_allclose(weights[:8] ** 2 + weights[8:] ** 2, 1, rtol=1e-12)


def test_mel_bands_are_triangles():
    with af.Graph().as_default():
        weights = evaluate(af.signal.linear_to_mel_weight_matrix(4, 65, 8000, 100.0, 3000.0, af.float64))
    hertz = np.linspace(0, 4000, 65)
    edges = 700 * np.expm1(np.linspace(np.log1p(100 / 700), np.log1p(3000 / 700), 6))
    assert weights.shape == (65, 4)
    for band in range(4):
        inside = (hertz > edges[band]) & (hertz < edges[band + 2])
        assert ((weights[:, band] > 0) == inside).all()
    assert weights.max() <= 1


@pytest.mark.whole
@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: af.fft(af.zeros([2])), TypeError, "float32 is not supported"),
        (lambda: af.signal.rfft(np.zeros(3, np.int32)), TypeError, "int32 is not supported"),
        (lambda: af.signal.rfft(af.zeros([2, 0])), ValueError, "no elements to transform"),
        (lambda: af.signal.rfft2d(af.zeros([4])), ValueError, "axis -2"),
        (lambda: af.signal.rfft2d(af.zeros([4, 4]), [3]), ValueError, "1 numbers, and 2 are needed"),
        (lambda: af.signal.irfft(af.zeros([4], af.complex64), [0]), ValueError, "must be 1 or more, not 0"),
        (lambda: af.fftnd(af.zeros([4], af.complex64), norm="none"), ValueError, "norm is one of"),
        (lambda: af.signal.rfft(af.placeholder(af.float32), [4]), ValueError, "rank .* must be known"),
        (lambda: af.signal.dct(af.zeros([4]), 5), ValueError, "type is one of 1, 2, 3 and 4, not 5"),
        (lambda: af.signal.dct(af.zeros([4]), 1, norm="ortho"), ValueError, "type 1 does not have"),
        (lambda: af.signal.dct(af.zeros([1]), 1), ValueError, "2 elements or more"),
        (lambda: af.signal.dct(af.zeros([4, 4]), axis=0), ValueError, "axis is the last one"),
        (lambda: af.signal.frame(af.zeros([4]), 2, 0), ValueError, "frame_step must be 1 or more"),
        (lambda: af.signal.overlap_and_add(af.zeros([4]), 2), ValueError, r"\[..., frames, length\]"),
        (lambda: af.signal.hann_window(0), ValueError, "must be 1 or more, not 0"),
        (lambda: af.signal.hann_window(4, dtype=af.int32), ValueError, "floating dtype, not int32"),
        (lambda: af.signal.mdct(af.zeros([16]), 6), ValueError, "positive multiple of 4, not 6"),
        (lambda: af.signal.linear_to_mel_weight_matrix(upper_edge_hertz=5000.0), ValueError, "half of sample_rate"),
        (lambda: af.signal.mfccs_from_log_mel_spectrograms(af.zeros([])), ValueError, "known number of bins"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_and_named(build, error, text):
    with af.Graph().as_default(), pytest.raises(error, match=text):
        build()


async def test_wrong_lengths_in_a_run_are_refused(graph):
    length = af.placeholder(af.int32, [1])
    made = af.signal.irfft(af.constant(COMPLEX[0]), length)
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match="irfft"):
            await session.run(made, {length: [0]})
