"""Frequencies as they are heard: the mel scale, and cepstral coefficients."""

import math

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.ranges import linspace
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.elementwise import log1p
from aioflow.library.control import name_scope
from aioflow.library.cosine_transforms import dct
from aioflow.tensors.dtypes import FLOAT, DTypeLike, as_dtype, float32


@transactional
def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: NumberLike = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: DTypeLike = float32,
    name: str | None = None,
) -> Tensor:
    """Return the weights [num_spectrogram_bins, num_mel_bins] that make of a spectrum one on the mel scale.

    Each column is a triangle: it rises from one edge of its band to the middle and falls to the other, and the bands,
    of equal width in mel = 1127 ln(1 + f / 700), overlap by half. Frequency 0 has no weight.

    Args:
        num_mel_bins: how many bands the result has.
        num_spectrogram_bins: how many frequencies, from 0 to half of `sample_rate`, the spectrum has.
        sample_rate: samples per second.
        lower_edge_hertz: the start of the first band.
        upper_edge_hertz: the end of the last band.
        dtype: the floating dtype of the result.
        name: the name of the operation.

    Examples:
        >>> af.signal.linear_to_mel_weight_matrix(20, 129, 8000).shape
        TensorShape([129, 20])
    """
    kind = as_dtype(dtype)
    _check(num_mel_bins, num_spectrogram_bins, sample_rate, lower_edge_hertz, upper_edge_hertz)
    if kind not in FLOAT:
        raise ValueError(f"dtype must be floating, not {kind.name}")
    with name_scope(name, "linear_to_mel_weight_matrix"):
        highest = convert_to_tensor(sample_rate, kind) / 2
        heard = expand_dims(_mel(linspace(convert_to_tensor(0.0, kind), highest, num_spectrogram_bins)[1:]), 1)
        first, last = (convert_to_tensor(_mel_of(edge), kind) for edge in (lower_edge_hertz, upper_edge_hertz))
        edges = linspace(first, last, num_mel_bins + 2)
        start, middle, end = edges[:-2], edges[1:-1], edges[2:]
        weights = minimum((heard - start) / (middle - start), (end - heard) / (end - middle))
        return pad(maximum(weights, 0), [[1, 0], [0, 0]])


def _check(mels: int, bins: int, sample_rate: NumberLike, lower: float, upper: float) -> None:
    if mels < 1 or bins < 1:
        raise ValueError(f"num_mel_bins and num_spectrogram_bins must be 1 or more, not {mels} and {bins}")
    if not 0 <= lower < upper:
        raise ValueError(f"0 <= lower_edge_hertz < upper_edge_hertz is needed, not {lower} and {upper}")
    if isinstance(sample_rate, int | float) and not (sample_rate > 0 and upper <= sample_rate / 2):
        raise ValueError(f"upper_edge_hertz is at most half of sample_rate, not {upper} of {sample_rate}")


def _mel(hertz: Tensor) -> Tensor:
    return log1p(hertz / 700.0) * 1127.0


def _mel_of(hertz: float) -> float:
    return 1127.0 * math.log1p(hertz / 700.0)


@transactional
def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: NumberLike, name: str | None = None) -> Tensor:
    """Return the cepstral coefficients [..., bins] of the logarithms of spectra [..., bins] on the mel scale.

    They are the orthonormal cosine transform but for the first, which is sqrt(2) times as large, as HTK has it.

    Examples:
        >>> af.signal.mfccs_from_log_mel_spectrograms(np.zeros((5, 20), np.float32))[..., :13].shape
        TensorShape([5, 13])
    """
    with name_scope(name, "mfccs_from_log_mel_spectrograms"):
        x = convert_to_tensor(log_mel_spectrograms, preferred_dtype=float32)
        bins = x.shape.as_list()[-1] if x.shape.ndims else None
        if not bins:
            raise ValueError(f"the last axis has a known number of bins, the shape is {x.shape}")
        return dct(x) / math.sqrt(2.0 * bins)
