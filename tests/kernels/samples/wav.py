import io
import wave

import numpy as np

from aioflow.kernels.data.wav import decoded_wav, encode_wav
from tests.kernels.samples import sample

SOUND = np.array([[0.5, -0.25], [1.0, 0.0], [-2.0, 3.0]], np.float32)


def written(sound, rate):
    """The file that Python's own module writes."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((sound.shape[1], 2, int(rate), 0, "NONE", ""))
        writer.writeframes(np.clip(np.round(sound * 32768), -32768, 32767).astype("<i2").tobytes())
    return np.array(file.getvalue(), object)


FILE = written(SOUND, 8000)
READ = np.clip(SOUND, -1, 32767 / 32768)

sample("encode_wav", encode_wav, SOUND, np.array(8000, np.int32), reference=written)
sample("decode_wav", decoded_wav, FILE, reference=lambda file: (READ, 8000))
sample("decode_wav", lambda file: decoded_wav(file, 3, 2), FILE, reference=lambda file: (READ[:2, [0, 1, 1]], 8000))
sample("decode_wav", lambda file: decoded_wav(file, 1, 4), FILE, reference=lambda file: (
    np.append(READ[:, :1], np.zeros((1, 1), np.float32), 0), 8000
))  # fmt: skip
