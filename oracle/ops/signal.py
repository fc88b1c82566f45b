"""Transforms, frames and windows of signals."""

import functools
from typing import Any

from oracle.draw import COMPLEX, Call, Draw, call
from oracle.table import compare

REAL = ("float32", "float64")


def transformed(d: Draw, dtypes: tuple[str, ...], rank: int) -> Call:
    return call(d.array(d.dtype(*dtypes), (*d.shape(0, 1, (1, 4)), *d.shape(rank, rank, (2, 6))), -3, 3))


OPS = {
    "fft": "fourier_transform",
    "ifft": "fourier_transform",
    "rfft": "real_fourier_transform",
    "irfft": "real_from_fourier_transform",
}
for rank, kind in ((1, ""), (2, "2d"), (3, "3d")):
    for function, dtypes in (("fft", COMPLEX), ("ifft", COMPLEX), ("rfft", REAL), ("irfft", COMPLEX)):
        inputs = functools.partial(transformed, dtypes=dtypes, rank=rank)
        compare(f"signal.{function}{kind}", inputs, rtol=128, ops=OPS[function])


def of_length(d: Draw, dtypes: tuple[str, ...]) -> Call:
    return call(d.array(d.dtype(*dtypes), d.shape(2, 2, (2, 6)), -3, 3), fft_length=[d.integer(1, 8), d.integer(1, 8)])


CUT = "TensorFlow's gradients fail where the input is cut off"
compare("signal.rfft2d of a length", functools.partial(of_length, dtypes=REAL), rtol=128, ops=(), gradient=CUT)
compare("signal.irfft2d of a length", functools.partial(of_length, dtypes=COMPLEX), rtol=128, ops=(), gradient=CUT)


def shifted(d: Draw) -> Call:
    shape = d.shape(1, 3)
    return call(d.array(d.dtype(*REAL, "int32"), shape), axes=d.pick(None, d.axis(shape)))


compare("signal.fftshift", shifted, ops=())
compare("signal.ifftshift", shifted, ops=())


def cosines(d: Draw) -> Call:
    type, norm = d.pick((1, None), (2, None), (2, "ortho"), (3, None), (3, "ortho"), (4, None), (4, "ortho"))
    x = d.array(d.dtype(*REAL), (*d.shape(0, 2, (1, 4)), d.integer(2, 9)), -3, 3)
    return call(x, type=type, norm=norm, n=d.pick(None, d.integer(2, 9)))


compare("signal.dct", cosines, rtol=512, ops=())
compare("signal.idct", cosines, rtol=512, ops=())


def in_frames(d: Draw) -> Call:
    return call(
        d.array(d.dtype(*REAL), (*d.shape(0, 1, (1, 4)), d.integer(0, 20)), -3, 3),
        frame_length=d.integer(1, 8), frame_step=d.integer(1, 8), pad_end=d.pick(False, True),
    )  # fmt: skip


compare("signal.frame", in_frames, ops=())
compare(
    "signal.overlap_and_add",
    lambda d: call(d.array(d.dtype(*REAL), (*d.shape(0, 2), *d.shape(2, 2, (1, 5)))), frame_step=d.integer(1, 5)),
    ops=(),
)


def spectra(d: Draw) -> Call:
    return call(
        d.array(d.dtype(*REAL), (*d.shape(0, 1, (1, 4)), d.integer(8, 24)), -3, 3),
        frame_length=d.integer(3, 8), frame_step=d.integer(1, 8), pad_end=d.pick(False, True),
    )  # fmt: skip


def _back(library: Any, x: Any, *, frame_length: int, frame_step: int, pad_end: bool) -> Any:
    window = library.signal.inverse_stft_window_fn(frame_step)
    stfts = library.signal.stft(x, frame_length, frame_step, pad_end=pad_end)
    return library.signal.inverse_stft(stfts, frame_length, frame_step, window_fn=window)


compare("signal.stft", spectra, rtol=512, ops=())
compare("signal.inverse_stft", spectra, _back, rtol=4096, ops=())


def lapped(d: Draw) -> Call:
    return call(
        d.array(d.dtype(*REAL), (*d.shape(0, 1, (1, 4)), d.integer(16, 40)), -3, 3),
        frame_length=4 * d.integer(1, 4), pad_end=d.pick(False, True), norm=d.pick(None, "ortho"),
    )  # fmt: skip


def _unlapped(library: Any, x: Any, *, norm: str | None, **attrs: Any) -> Any:
    return library.signal.inverse_mdct(library.signal.mdct(x, norm=norm, **attrs), norm=norm)


compare("signal.mdct", lapped, rtol=512, ops=())
compare("signal.inverse_mdct", lapped, _unlapped, rtol=1024, ops=())


def _weighted(library: Any, x: Any, *, window: str, length: int, **attrs: Any) -> Any:
    return x * getattr(library.signal, window)(length, dtype=x.dtype, **attrs)


def windowed(d: Draw) -> Call:
    window = d.pick("hann_window", "hamming_window", "kaiser_window", "kaiser_bessel_derived_window", "vorbis_window")
    options = {"periodic": d.pick(False, True)} if window.startswith("ha") else {}
    length = 2 * d.integer(1, 6) if window.endswith("derived_window") else d.integer(1, 12)
    return call(d.array(d.dtype(*REAL), ()), window=window, length=length, **options)


compare("signal.windows", windowed, _weighted, rtol=256, ops=())


def on_mel_scale(d: Draw) -> Call:
    return call(d.array(d.dtype(*REAL), (2, d.integer(2, 40)), 0, 3), bins=d.integer(1, 12), rate=d.pick(8000, 16000.0))


def _mel(library: Any, x: Any, *, bins: int, rate: float) -> Any:
    count = x.shape.as_list()[-1]
    weights = library.signal.linear_to_mel_weight_matrix(bins, count, rate, 80.0, 3600.0, x.dtype)
    return library.signal.mfccs_from_log_mel_spectrograms(library.log(library.matmul(x, weights) + 1))


compare("signal.linear_to_mel_weight_matrix", on_mel_scale, _mel, rtol=4096, ops=())
