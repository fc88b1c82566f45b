"""`af.audio`: sounds as WAV files, under TensorFlow's names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.data.wav": "encode_wav",
    "aioflow.library.wav": "decode_wav",
})  # fmt: skip
