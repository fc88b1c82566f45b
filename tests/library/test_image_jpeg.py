"""Images with the losses of JPEG."""

import io

import numpy as np
import PIL.Image
import pytest

import aioflow as af
from aioflow import errors


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


PIXELS = np.random.default_rng(0).integers(256, size=(8, 9, 3)).astype(np.uint8)


def as_jpeg(quality):
    written = io.BytesIO()
    PIL.Image.fromarray(PIXELS).save(written, "JPEG", quality=quality, subsampling=2)
    return np.asarray(PIL.Image.open(written)).astype(int)


async def test_an_image_is_as_its_jpeg_shows_it_and_keeps_its_dtype(graph):
    quality = af.placeholder(af.int32, [])
    known, fed = af.image.adjust_jpeg_quality(PIXELS, 40), af.image.adjust_jpeg_quality(PIXELS / 255, quality)
    drawn = af.image.random_jpeg_quality(PIXELS, 40, 41)
    assert (known.shape, known.dtype, fed.dtype) == ([8, 9, 3], af.uint8, af.float64)
    async with af.Session(graph=graph) as session:
        for fetch, scale in ((known, 1), (fed, 255), (drawn, 1)):
            found = await session.run(fetch, {quality: 40})
            np.testing.assert_allclose(found * scale, as_jpeg(40), atol=1e-9)
        low, high = [await session.run(fed, {quality: q}) * 255 for q in (5, 95)]
        assert abs(low - PIXELS).mean() > 1.2 * abs(high - PIXELS).mean()
        with pytest.raises(errors.InvalidArgumentError, match="0 to 100, not 101"):
            await session.run(fed, {quality: 101})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: af.image.adjust_jpeg_quality(PIXELS, 101), "0 to 100, not 101"),
        (lambda: af.image.adjust_jpeg_quality(PIXELS[..., :2], 50), "1 or 3 channels, not 2"),
        (lambda: af.image.adjust_jpeg_quality(PIXELS[None], 50), "rank"),
        (lambda: af.image.random_jpeg_quality(PIXELS, 50, 50), "not 50 and 50"),
    ],
)
def test_bad_input_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
