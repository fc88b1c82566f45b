"""`af.spectral`: Fourier and cosine transforms, under the names of TensorFlow's `spectral`."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.cosine_transforms": "dct idct",
    "aioflow.library.fourier": (
        "fft fft2d fft3d ifft ifft2d ifft3d irfft irfft2d irfft3d rfft rfft2d rfft3d"
    ),
})  # fmt: skip
