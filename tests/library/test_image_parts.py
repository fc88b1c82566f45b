"""Glimpses and random parts of images: library/image_parts.py. oracle/ops/image_parts.py compares glimpses."""

import numpy as np
import pytest

import aioflow as af
from aioflow import errors

WHOLE = [[[0.0, 0.0, 1.0, 1.0]]]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


@pytest.mark.parametrize(
    ("offset", "flags", "start"),
    [
        ([1.0, 1.0], (False, False), (0, 0)),
        ([4.0, 5.0], (False, False), (3, 4)),
        ([0.0, 0.0], (True, False), (3, 5)),
        ([4.0, 5.0], (True, False), (5, 7)),
        ([0.5, 0.5], (False, True), (3, 5)),
        ([0.0, 0.0], (True, True), (3, 5)),
        ([-0.4, 0.25], (True, True), (1, 6)),
    ],
)
async def test_a_glimpse_lies_where_tensorflow_puts_it(session, offset, flags, start):
    image = np.arange(9 * 12, dtype=np.float32).reshape(1, 9, 12, 1)
    glimpse = af.image.extract_glimpse(image, [2, 2], [offset], *flags)
    assert glimpse.shape == [1, 2, 2, 1]
    top, left = start
    np.testing.assert_array_equal(await session.run(glimpse), image[:, top : top + 2, left : left + 2])


async def test_noise_outside_keeps_within_the_limits_of_its_image(session):
    images = np.stack([np.full([4, 4, 2], 100.0), np.arange(32.0).reshape(4, 4, 2)])
    for uniform in (True, False):
        glimpse = await session.run(af.image.extract_glimpse(images, [60, 60], np.zeros([2, 2]), uniform_noise=uniform))
        assert (glimpse[0] == 100).all()
        noise = glimpse[1].reshape(-1, 2)
        assert (noise.min(), noise.max()) == (0, 31)
        expected = [15.5, 15.5] if uniform else images[1].mean((0, 1))
        np.testing.assert_allclose(noise.mean(0), expected, atol=0.6)
        np.testing.assert_array_equal(glimpse[1, 28:32, 28:32], images[1])


async def test_gradients_flow_to_the_pixels_of_the_glimpse(session):
    image = af.placeholder(af.float64, [None, None, None, 1])
    glimpse = af.image.extract_glimpse(image, [2, 2], [[0.0, 0.0]], centered=False)
    (slope,) = await session.run(af.gradients(glimpse, image), {image: np.ones([1, 3, 3, 1])})
    assert slope[0, :, :, 0].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((np.zeros([4, 4, 1]), [2, 2], [[0.0, 0.0]]), "rank 4"),
        ((np.zeros([1, 4, 4, 1]), [2], [[0.0, 0.0]]), "not compatible"),
        ((np.zeros([1, 4, 4, 1]), [2, 2], [[0.0, 0.0, 0.0]]), "not compatible"),
        ((np.zeros([1, 4, 4, 1]), [2, 2], np.zeros([2, 2])), "not compatible"),
    ],
)
def test_other_shapes_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        af.image.extract_glimpse(*given)


async def drawn(session, count, *given, **options):
    parts = af.image.sample_distorted_bounding_box(*given, seed=3, **options)
    return [await session.run(parts) for _ in range(count)]


async def test_parts_have_the_areas_and_ratios_asked_for(session):
    areas, ratios = [], []
    for begin, size, box in await drawn(
        session, 200, [100, 80, 3], WHOLE, aspect_ratio_range=[0.5, 2.0], area_range=[0.2, 0.3], min_object_covered=0.0
    ):
        assert (begin[2], size[2]) == (0, -1)
        end = begin[:2] + size[:2]
        assert begin.min() >= 0
        assert (end <= [100, 80]).all()
        np.testing.assert_allclose(box[0, 0] * [100, 80, 100, 80], [*begin[:2], *end], rtol=1e-6)
        areas.append(size[0] * size[1] / 8000)
        ratios.append(size[1] / size[0])
    assert 0.2 <= min(areas) < 0.22 < 0.28 < max(areas) <= 0.3
    assert 0.48 <= min(ratios) < 0.7 < 1.5 < max(ratios) <= 2.05


async def test_parts_contain_enough_of_one_box(session):
    boxes = np.array([[0.2, 0.2, 0.5, 0.5], [0.9, 0.9, 1.0, 1.0]])
    for begin, size, _ in await drawn(session, 100, [100, 100, 3], boxes[None], min_object_covered=0.5):
        low, high = np.maximum(boxes[:, :2] * 100, begin[:2]), np.minimum(boxes[:, 2:] * 100, begin[:2] + size[:2])
        shares = (high - low).clip(0).prod(1) / ((boxes[:, 2:] - boxes[:, :2]) * 100).prod(1)
        assert shares.max() >= 0.5 - 1e-6


async def test_without_a_fitting_part_the_image_is_whole(session):
    ((begin, size, box),) = await drawn(session, 1, np.array([10, 20, 3], np.int64), WHOLE, min_object_covered=1.1)
    assert (begin.tolist(), size.tolist(), box.tolist()) == ([0, 0, 0], [10, 20, -1], WHOLE)
    assert size.dtype == np.int64


async def test_boxes_are_needed_unless_the_whole_image_is_one(session):
    none = np.zeros([1, 0, 4])
    assert len(await drawn(session, 1, [10, 10, 3], none, use_image_if_no_bounding_boxes=True)) == 1
    with pytest.raises(errors.InvalidArgumentError, match="set use_image_if_no_bounding_boxes"):
        await drawn(session, 1, [10, 10, 3], none)
    with pytest.raises(errors.InvalidArgumentError, match=r"top above bottom.*not \[0\.5, 0\.0, 0\.25, 1\.0\]"):
        await drawn(session, 1, [10, 10, 3], [[[0.5, 0.0, 0.25, 1.0]]])


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        (([10, 10], WHOLE), {}, ValueError, "image_size is"),
        (([10, 10, 3], WHOLE[0]), {}, ValueError, "rank 3"),
        (([10, 10, 3], [[[0.0, 1.0, 1.0]]]), {}, ValueError, "4 coordinates"),
        (([10, 10, 3], WHOLE), {"aspect_ratio_range": [2, 1]}, errors.InvalidArgumentError, r"not \[2\.0, 1\.0\]"),
        (([10, 10, 3], WHOLE), {"area_range": [0.5, 1.1]}, errors.InvalidArgumentError, r"not above 1\.0"),
        (([10, 10, 3], WHOLE), {"max_attempts": 0}, errors.InvalidArgumentError, "at least 1, not 0"),
    ],
)
def test_what_cannot_be_sampled_is_refused(given, options, error, message):
    with pytest.raises(error, match=message):
        af.image.sample_distorted_bounding_box(*given, **options)
