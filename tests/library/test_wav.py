"""Sounds as WAV files. `oracle/ops/audio.py` compares them with TensorFlow."""

import struct

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_a_sound_comes_back_with_its_rate_and_the_sizes_that_are_asked_for(graph):
    sound = np.array([[0.5, -0.25], [0.0, 1.0]], np.float32)
    wav = af.audio.encode_wav(sound, 44100)
    whole, cut = af.audio.decode_wav(wav), af.audio.decode_wav(wav, desired_channels=3, desired_samples=1)
    assert cut.audio.shape.as_list() == [1, 3]
    async with af.Session(graph=graph) as session:
        whole, cut = await session.run([whole, cut])
    np.testing.assert_allclose(whole.audio, sound, atol=1e-4)
    np.testing.assert_allclose(cut.audio, [[0.5, -0.25, -0.25]], atol=1e-4)
    assert whole.sample_rate == cut.sample_rate == 44100


def test_other_parts_of_a_file_are_passed_over_and_damage_is_named():
    file = evaluate(af.audio.encode_wav([[0.5]], 8000))[()]
    more = file[:36] + b"LIST" + struct.pack("<I", 3) + b"abc\0" + file[36:]
    assert evaluate(af.audio.decode_wav(more).audio).tolist() == [[pytest.approx(0.5, abs=1e-4)]]
    for damaged, text in (
        (b"no sound", "8 bytes that begin with b'no sound' are no WAV file"),
        (file[:-1], "a part b'data' of 2 bytes is cut off after 1"),
        (file[:34] + b"\x08" + file[35:], "only WAV files of 16-bit PCM are decoded, not of kind 1 with 8 bits"),
        (file[:12], "states no format"),
        (file[:36], "has no samples"),
        (file[:40] + b"\x01\0\0\0" + file[44:45], "1 bytes are no samples of 16 bits for each of 1 channels"),
    ):
        with pytest.raises(ValueError, match=text):
            evaluate(af.audio.decode_wav(damaged).audio)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="desired_channels is -1 for those of the file, or 1 or more, not 0"):
        af.audio.decode_wav(b"", desired_channels=0)
    with pytest.raises(ValueError, match=r"audio: rank 2 is needed, the shape is \[1\]"):
        af.audio.encode_wav([0.5], 8000)
    with pytest.raises(ValueError, match="1 samples of 1 channels at 0 per second cannot be written"):
        evaluate(af.audio.encode_wav([[0.5]], 0))
