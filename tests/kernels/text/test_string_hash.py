"""Buckets and fingerprints: those that TensorFlow 2.21 gives, and the published values of the hashes."""

import functools
import random

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.text import string_hash
from aioflow.kernels.text.farmhash import fingerprint64
from aioflow.kernels.text.hash_words import hash_array
from aioflow.kernels.text.murmurhash import murmurhash64
from aioflow.kernels.text.siphash import siphash
from tests.support.evaluate import evaluate

LENGTHS = (0, 1, 3, 4, 7, 8, 16, 17, 32, 33, 64, 65, 128, 129, 200)
TEXTS = np.array([bytes(range(length)) for length in LENGTHS], object)
FAST = [
    1936946117179621455, 4494688008148699988, 1486536572171691162, 198155675784242496, 2513219638405408417,
    3267946340606884760, 1080060857502750420, 4302810082142134044, 1917831512995979081, 2915358112413471310,
    3856493858525203531, 478270155923209662, 2037963038260878803, 1048111057192683582, 525935771297148851,
]  # fmt: skip
PLAIN = [
    105434511174508091, 1950187560451231046, 3149149548962779049, 3114504891833525627, 1936280922914974939,
    502628180446468569, 2600588123549868653, 1362815619722030871, 235957890591632321, 962007355768313100,
    2192457456962414804, 2525959834624391444, 739982330887139047, 2161695753874938689, 4185538572715980330,
]  # fmt: skip
STRONG = [
    1677231529938724464, 4158154059162199902, 1489456971264240877, 2236533527395773871, 752981267346112118,
    4477686464212313080, 1005651510785277350, 632085456920013977, 2973635291557956251, 1416324269321419346,
    2858597413741346527, 4113498937135038463, 1315070461592827692, 3080936328543770542, 1145748521849722296,
]  # fmt: skip


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default():
        yield


def test_buckets_are_those_of_tensorflow():
    texts = af.constant(TEXTS)
    assert evaluate(string_hash.string_to_hash_bucket_fast(texts, 2**62)).tolist() == FAST
    assert evaluate(string_hash.string_to_hash_bucket(texts, 2**62)).tolist() == PLAIN
    assert evaluate(string_hash.string_to_hash_bucket_strong(texts, 2**62, [3, 2**63 - 1])).tolist() == STRONG


def test_fingerprints_are_those_of_tensorflow():
    numbers = np.arange(6, dtype=np.int16).reshape(2, 3)
    grid = TEXTS[:6].reshape(2, 3)
    for data, expected in (
        (TEXTS[:3], "4f40902f3b6ae19a544be9f5ed5660be9aa4ebe9223da194"),
        (TEXTS[:3, None], "4f40902f3b6ae19a544be9f5ed5660be9aa4ebe9223da194"),
        (numbers, "f6b06bb09f9f30eb89afbdc32f09c7ad"),
        (np.asfortranarray(numbers), "f6b06bb09f9f30eb89afbdc32f09c7ad"),
        (grid, "09153b0addcf2fc3817c2c1f90f7cb18"),
    ):
        made = string_hash.fingerprint(data)
        assert made.shape.as_list() == [len(data), 8]
        assert evaluate(made).tobytes().hex() == expected


def test_siphash_has_the_values_of_its_paper():
    key = [int.from_bytes(bytes(range(start, start + 8)), "little") for start in (0, 8)]
    texts = np.array([bytes(range(length)) for length in (0, 15, 63)], object)
    hashes = hash_array(functools.partial(siphash, key), texts)
    assert hashes.tolist() == [0x726FDB47DD0E0E31, 0xA129CA6149BE45E5, 0x958A324CEB064572]


def test_many_strings_of_a_length_hash_as_each_of_them_alone():
    source = random.Random(0)
    texts = [source.randbytes(length) for length in range(201) for _ in range(16)]
    for function in (fingerprint64, murmurhash64, functools.partial(siphash, [1, 2**64 - 1])):
        alone = [hash_array(function, np.array([text], object))[0] for text in texts]
        assert hash_array(function, np.array(texts, object)).tolist() == alone


def test_what_has_no_fingerprint_is_refused():
    with pytest.raises(ValueError, match="method is 'farmhash64', not 'md5'"):
        string_hash.fingerprint([1], method="md5")
    with pytest.raises(ValueError, match="a scalar has no first axis"):
        string_hash.fingerprint(3)
