"""Sounds as WAV files."""

from typing import Any

from oracle.draw import Call, Draw, call
from oracle.table import compare


def sound(d: Draw) -> Call:
    return call(
        d.array("float32", (d.integer(1, 6), d.integer(1, 3)), -1.2, 1.2), desired_channels=d.pick(-1, 1, 2, 4),
        desired_samples=d.pick(-1, 1, 3, 8),
    )  # fmt: skip


def _written_and_read(library: Any, audio: Any, **attrs: Any) -> Any:
    wav = library.audio.encode_wav(audio, 8000)
    return wav, *library.audio.decode_wav(wav, **attrs)


compare("audio.encode_wav", sound, _written_and_read, ops=("encode_wav", "decode_wav"), gradient="a file has none")
