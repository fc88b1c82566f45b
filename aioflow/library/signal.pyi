"""`af.signal`: transforms, frames and windows of signals, under the names of TensorFlow's `signal`."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.cosine_transforms import dct as dct
from aioflow.library.cosine_transforms import idct as idct
from aioflow.library.cosine_transforms import inverse_mdct as inverse_mdct
from aioflow.library.cosine_transforms import mdct as mdct
from aioflow.library.fourier import fft as fft
from aioflow.library.fourier import fft2d as fft2d
from aioflow.library.fourier import fft3d as fft3d
from aioflow.library.fourier import fftnd as fftnd
from aioflow.library.fourier import fftshift as fftshift
from aioflow.library.fourier import ifft as ifft
from aioflow.library.fourier import ifft2d as ifft2d
from aioflow.library.fourier import ifft3d as ifft3d
from aioflow.library.fourier import ifftnd as ifftnd
from aioflow.library.fourier import ifftshift as ifftshift
from aioflow.library.fourier import irfft as irfft
from aioflow.library.fourier import irfft2d as irfft2d
from aioflow.library.fourier import irfft3d as irfft3d
from aioflow.library.fourier import irfftnd as irfftnd
from aioflow.library.fourier import rfft as rfft
from aioflow.library.fourier import rfft2d as rfft2d
from aioflow.library.fourier import rfft3d as rfft3d
from aioflow.library.fourier import rfftnd as rfftnd
from aioflow.library.mel import linear_to_mel_weight_matrix as linear_to_mel_weight_matrix
from aioflow.library.mel import mfccs_from_log_mel_spectrograms as mfccs_from_log_mel_spectrograms
from aioflow.library.signal_frames import frame as frame
from aioflow.library.signal_frames import inverse_stft as inverse_stft
from aioflow.library.signal_frames import inverse_stft_window_fn as inverse_stft_window_fn
from aioflow.library.signal_frames import overlap_and_add as overlap_and_add
from aioflow.library.signal_frames import stft as stft
from aioflow.library.signal_windows import hamming_window as hamming_window
from aioflow.library.signal_windows import hann_window as hann_window
from aioflow.library.signal_windows import kaiser_bessel_derived_window as kaiser_bessel_derived_window
from aioflow.library.signal_windows import kaiser_window as kaiser_window
from aioflow.library.signal_windows import vorbis_window as vorbis_window

__all__ = ["dct", "fft", "fft2d", "fft3d", "fftnd", "fftshift", "frame", "hamming_window", "hann_window", "idct",
    "ifft", "ifft2d", "ifft3d", "ifftnd", "ifftshift", "inverse_mdct", "inverse_stft", "inverse_stft_window_fn",
    "irfft", "irfft2d", "irfft3d", "irfftnd", "kaiser_bessel_derived_window", "kaiser_window",
    "linear_to_mel_weight_matrix", "mdct", "mfccs_from_log_mel_spectrograms", "overlap_and_add", "rfft", "rfft2d",
    "rfft3d", "rfftnd", "stft", "vorbis_window"]
