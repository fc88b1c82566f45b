"""`af.signal`: transforms, frames and windows of signals, under the names of TensorFlow's `signal`."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.cosine_transforms": "dct idct inverse_mdct mdct",
    "aioflow.library.fourier": (
        "fft fft2d fft3d fftnd fftshift ifft ifft2d ifft3d ifftnd ifftshift irfft irfft2d irfft3d irfftnd rfft rfft2d "
        "rfft3d rfftnd"
    ),
    "aioflow.library.mel": "linear_to_mel_weight_matrix mfccs_from_log_mel_spectrograms",
    "aioflow.library.signal_frames": "frame inverse_stft inverse_stft_window_fn overlap_and_add stft",
    "aioflow.library.signal_windows": (
        "hamming_window hann_window kaiser_bessel_derived_window kaiser_window vorbis_window"
    ),
})  # fmt: skip
