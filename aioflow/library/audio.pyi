"""`af.audio`: sounds as WAV files, under TensorFlow's names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.wav import decode_wav as decode_wav

__all__ = ["decode_wav", "encode_wav"]

def encode_wav(audio: NumberLike, sample_rate: NumberLike, name: str | None = None) -> Tensor:
    """The WAV file, with 16 bits for a sample, of a sound [samples, channels]. Numbers beyond -1 and 1 are clipped.

    Args:
        audio: float32 samples of each channel.
        sample_rate: samples per second, int32.

    Examples:
        >>> wav = af.audio.encode_wav([[0.0], [0.5]], 8000)
        >>> await session.run(af.audio.decode_wav(wav).audio)
        array([[0. ],
               [0.5]], dtype=float32)
    """

