"""WebP: kernels/image/webp.py. The pixels are Pillow's, whose library TensorFlow uses, too."""

import io

import numpy as np
import pytest

from aioflow import errors
from aioflow.graph.graph import Graph
from aioflow.kernels.image.webp import decode_webp, header_of
from tests.support.evaluate import evaluate

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(0).integers(0, 255, (4, 5, 4)).astype(np.uint8)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def encoded(pixels, **options):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "WEBP", **options)
    return stream.getvalue()


ANIMATION = {"save_all": True, "append_images": [Image.fromarray(PIXELS[::-1].copy())], "duration": 10}
FILES = {
    "lossless": (encoded(PIXELS[..., :3], lossless=True), (1, 4, 5, 3)),
    "lossless, opacity": (encoded(PIXELS, lossless=True, exact=True), (1, 4, 5, 4)),
    "lossy": (encoded(PIXELS[..., :3], quality=80), (1, 4, 5, 3)),
    "lossy, opacity": (encoded(PIXELS, quality=80), (1, 4, 5, 4)),
    "animation": (encoded(PIXELS, lossless=True, exact=True, **ANIMATION), (2, 4, 5, 4)),
}


@pytest.mark.parametrize("name", FILES)
def test_all_pictures_are_decoded(name):
    data, shape = FILES[name]
    pixels = evaluate(decode_webp(data))
    assert (pixels.shape, header_of(data)) == (shape, shape)
    np.testing.assert_array_equal(evaluate(decode_webp(data, channels=shape[3])), pixels)
    if name.startswith("lossless"):
        np.testing.assert_array_equal(pixels[0], PIXELS[..., : shape[3]])


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_refused(name):
    data, shape = FILES[name]
    for length in (0, 3, 13, 20, len(data) - 4):
        with pytest.raises(errors.InvalidArgumentError, match="WebP"):
            evaluate(decode_webp(data[:length]))
    with pytest.raises(errors.InvalidArgumentError, match=rf"has {shape[3]} channels, not {7 - shape[3]}"):
        evaluate(decode_webp(data, channels=7 - shape[3]))


def test_a_header_of_too_many_pixels_is_refused():
    data = bytearray(FILES["lossy, opacity"][0])
    data[24:30] = b"\xff\xff\x00" * 2
    with pytest.raises(errors.InvalidArgumentError, match="1 x 65536 x 65536 pixels by its header"):
        evaluate(decode_webp(bytes(data)))


def test_other_channels_are_refused():
    with pytest.raises(ValueError, match="0, 3 or 4, not 1"):
        decode_webp(b"", channels=1)
