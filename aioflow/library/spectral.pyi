"""`af.spectral`: Fourier and cosine transforms, under the names of TensorFlow's `spectral`."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.cosine_transforms import dct as dct
from aioflow.library.cosine_transforms import idct as idct
from aioflow.library.fourier import fft as fft
from aioflow.library.fourier import fft2d as fft2d
from aioflow.library.fourier import fft3d as fft3d
from aioflow.library.fourier import ifft as ifft
from aioflow.library.fourier import ifft2d as ifft2d
from aioflow.library.fourier import ifft3d as ifft3d
from aioflow.library.fourier import irfft as irfft
from aioflow.library.fourier import irfft2d as irfft2d
from aioflow.library.fourier import irfft3d as irfft3d
from aioflow.library.fourier import rfft as rfft
from aioflow.library.fourier import rfft2d as rfft2d
from aioflow.library.fourier import rfft3d as rfft3d

__all__ = ["dct", "fft", "fft2d", "fft3d", "idct", "ifft", "ifft2d", "ifft3d", "irfft", "irfft2d", "irfft3d", "rfft",
    "rfft2d", "rfft3d"]
