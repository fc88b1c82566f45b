"""Colours of images, their changes at random, and their measures."""

import colorsys

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import check_gradients
from tests.support.evaluate import evaluate

random = np.random.default_rng(11)
PICTURE = random.random((4, 5, 3))
BYTES = (PICTURE * 255).astype(np.uint8)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def by_pixel(function, image):
    return np.array([function(*pixel) for pixel in image.reshape(-1, 3)]).reshape(image.shape)


def test_hues_are_those_of_colorsys():
    corners = np.array(np.meshgrid([0.0, 0.5, 1.0], [0.0, 0.5, 1.0], [0.0, 0.5, 1.0])).T.reshape(-1, 3)
    for image in (PICTURE, corners):
        hsv = evaluate(af.image.rgb_to_hsv(image, name="hsv"))
        np.testing.assert_allclose(hsv, by_pixel(colorsys.rgb_to_hsv, image), atol=1e-12)
        np.testing.assert_allclose(evaluate(af.image.hsv_to_rgb(hsv)), image, atol=1e-12)
    with pytest.raises(TypeError, match="uint8"):
        af.image.rgb_to_hsv(BYTES)
    with pytest.raises(ValueError, match="4"):
        af.image.rgb_to_hsv(np.ones((2, 4)))


@pytest.mark.parametrize("system", ["yiq", "yuv"])
def test_systems_of_colors_are_undone(system):
    there, back = getattr(af.image, f"rgb_to_{system}"), getattr(af.image, f"{system}_to_rgb")
    np.testing.assert_allclose(evaluate(back(there(PICTURE))), PICTURE, atol=1e-4)
    np.testing.assert_allclose(evaluate(there(PICTURE))[..., 0], PICTURE @ [0.299, 0.587, 0.114])
    grey = evaluate(there(np.full((1, 3), 0.5)))
    np.testing.assert_allclose(grey, [[0.5, 0, 0]], atol=1e-4)


def test_hue_and_saturation_are_adjusted():
    turned = evaluate(af.image.adjust_hue(PICTURE, 0.25))
    expected = by_pixel(
        lambda h, s, v: colorsys.hsv_to_rgb((h + 0.25) % 1, s, v), evaluate(af.image.rgb_to_hsv(PICTURE))
    )
    np.testing.assert_allclose(turned, expected, atol=1e-9)
    stronger = evaluate(af.image.adjust_saturation(PICTURE, 2.0))
    expected = by_pixel(
        lambda h, s, v: colorsys.hsv_to_rgb(h, min(2 * s, 1), v), evaluate(af.image.rgb_to_hsv(PICTURE))
    )
    np.testing.assert_allclose(stronger, expected, atol=1e-9)
    for same in (af.image.adjust_hue(BYTES, 1.0), af.image.adjust_saturation(BYTES, 1.0), af.image.adjust_gamma(BYTES)):
        assert same.dtype is af.uint8
        assert np.abs(evaluate(same).astype(int) - BYTES).max() <= 1
    np.testing.assert_allclose(evaluate(af.image.adjust_gamma(PICTURE, 2.0, 0.5)), 0.5 * PICTURE**2)
    with pytest.raises(ValueError, match="gamma cannot be negative: -1"):
        af.image.adjust_gamma(PICTURE, -1)


async def test_changes_of_color_have_gradients():
    for function in (af.image.rgb_to_hsv, af.image.hsv_to_rgb, lambda x: af.image.adjust_hue(x, 0.1)):
        await check_gradients(function, [PICTURE[:2, :2] * 0.5 + 0.2], compute=evaluate)


def test_images_are_flipped_one_by_one():
    batch = random.random((64, 3, 2, 1))
    for flip, axis in ((af.image.random_flip_left_right, 2), (af.image.random_flip_up_down, 1)):
        found = evaluate(flip(batch, seed=3))
        same = (found == batch).all((1, 2, 3))
        other = (found == np.flip(batch, axis)).all((1, 2, 3))
        assert (same | other).all()
        assert 16 < same.sum() < 48
        one = evaluate(flip(PICTURE, seed=1))
        assert (one == PICTURE).all() or (one == np.flip(PICTURE, axis - 1)).all()
    with pytest.raises(ValueError, match="rank of the images"):
        af.image.random_flip_left_right(af.placeholder(af.float32))


async def test_changes_at_random_differ_from_run_to_run_within_their_bounds(graph):
    grey = np.full((2, 2, 3), 0.5, np.float32) + np.array([0.2, 0, 0], np.float32)
    brighter = af.image.random_brightness(grey, 0.2, seed=1) - grey
    contrast = af.image.random_contrast(np.array([[[0.0], [1.0]]], np.float32), 0.5, 2.0, seed=1)
    saturated = af.image.rgb_to_hsv(af.image.random_saturation(grey, 0.5, 1.5, seed=1))[..., 1]
    turned = af.image.rgb_to_hsv(af.image.random_hue(grey, 0.1, seed=1))[..., 0]
    seen = []
    async with af.Session(graph=graph) as session:
        for _ in range(20):
            found = await session.run([brighter, contrast, saturated, turned])
            seen.append([value.ravel()[-1] for value in found])
    seen = np.array(seen)
    assert all(len(set(column)) > 10 for column in seen.T)
    assert np.abs(seen[:, 0]).max() <= 0.2 + 1e-6
    assert 0.75 - 1e-6 <= seen[:, 1].min() <= seen[:, 1].max() <= 1.5 + 1e-6
    assert 0.14 <= seen[:, 2].min() <= seen[:, 2].max() <= 0.43
    assert np.minimum(seen[:, 3], 1 - seen[:, 3]).max() <= 0.1 + 1e-6


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda: af.image.random_brightness(PICTURE, -1), "max_delta cannot be negative: -1"),
        (lambda: af.image.random_contrast(PICTURE, 2, 1), "lower 2 must be from 0 on and below upper 1"),
        (lambda: af.image.random_saturation(PICTURE, -1, 1), "lower -1"),
        (lambda: af.image.random_hue(PICTURE, 0.7), "max_delta must be from 0 to 0.5, not 0.7"),
    ],
)
def test_bounds_that_are_none_are_refused(change, text):
    with pytest.raises(ValueError, match=text):
        change()


def test_measures_are_numpys():
    batch = np.stack([PICTURE, PICTURE[::-1]])
    rows, columns = np.abs(np.diff(batch, axis=1)), np.abs(np.diff(batch, axis=2))
    np.testing.assert_allclose(evaluate(af.image.total_variation(batch)), rows.sum((1, 2, 3)) + columns.sum((1, 2, 3)))
    assert evaluate(af.image.total_variation(PICTURE)).shape == ()
    dy, dx = evaluate(list(af.image.image_gradients(batch)))
    np.testing.assert_allclose(dy, np.diff(batch, axis=1, append=batch[:, -1:]))
    np.testing.assert_allclose(dx, np.diff(batch, axis=2, append=batch[:, :, -1:]))
    noisy = np.clip(PICTURE + 0.1 * random.standard_normal(PICTURE.shape), 0, 1)
    expected = -10 * np.log10(np.mean((PICTURE - noisy) ** 2))
    np.testing.assert_allclose(evaluate(af.image.psnr(PICTURE, noisy, 1.0)), expected, rtol=1e-5)
    bytes_ = (noisy * 255).astype(np.uint8)
    expected = -10 * np.log10(np.mean((BYTES.astype(float) - bytes_) ** 2) / 255**2)
    np.testing.assert_allclose(evaluate(af.image.psnr(BYTES, bytes_, 255)), expected, rtol=1e-5)


def test_edges_are_sobels():
    batch = PICTURE[None]
    edges = evaluate(af.image.sobel_edges(batch))
    assert edges.shape == (1, 4, 5, 3, 2)
    padded = np.pad(batch, ((0, 0), (1, 1), (1, 1), (0, 0)), "reflect")
    window = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]])
    for which, kernel in enumerate((window, window.T)):
        expected = sum(kernel[i, j] * padded[:, i : i + 4, j : j + 5] for i in range(3) for j in range(3))
        np.testing.assert_allclose(edges[..., which], expected, atol=1e-12)


def test_an_image_is_resized_with_its_sides_in_proportion():
    wide = np.ones((2, 6, 1), np.float32)
    padded = af.image.resize_image_with_pad(wide, 5, 9)
    assert padded.shape == [5, 9, 1]
    found = evaluate(padded)[..., 0]
    np.testing.assert_allclose(found, np.repeat([0, 1, 1, 1, 0], 9).reshape(5, 9))
    fed = af.placeholder(af.float32, [None, None, None, 1])
    tall = evaluate(af.image.resize_image_with_pad(fed, 4, 6), {fed: np.ones((1, 4, 2, 1), np.float32)})[0, ..., 0]
    assert tall.tolist() == [[0, 0, 1, 1, 0, 0]] * 4


async def test_a_part_is_cut_out_at_random(graph):
    part = af.image.random_crop(PICTURE, [2, 2, 3], seed=1)
    async with af.Session(graph=graph) as session:
        assert (await session.run(part)).shape == (2, 2, 3)


def test_images_are_transposed_and_patched_by_their_newer_names():
    np.testing.assert_array_equal(evaluate(af.image.transpose(PICTURE)), PICTURE.transpose(1, 0, 2))
    assert evaluate(af.image.extract_patches(PICTURE[None], 2, 1, 1, "VALID")).shape == (1, 3, 4, 12)


def test_sizes_known_in_advance_are_those_of_the_cropped_or_padded_image():
    for shape, expected in [([None, None, 3], [5, 3, 3]), ([None, None, None, 1], [None, 5, 3, 1])]:
        with af.Graph().as_default():
            image = af.placeholder(af.float32, shape)
            assert af.image.resize_image_with_crop_or_pad(image, 5, 3).shape == expected


def test_images_in_color_are_not_grayscale():
    with af.Graph().as_default(), pytest.raises(ValueError, match="the last axis of grayscale images has size 1"):
        af.image.grayscale_to_rgb(af.zeros([2, 2, 3]))
