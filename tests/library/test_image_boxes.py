"""Boxes in images, and images that are alike in structure."""

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate

BOXES = np.array(
    [[0, 0, 1, 1], [0, 0, 1, 0.9], [0, 0.1, 1, 1.1], [1, 1, 0, 0], [0, 2, 1, 3], [0, 2.5, 1, 3.5]], np.float32
)
SCORES = np.array([0.9, 0.8, 0.7, 0.95, 0.3, 0.3], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [3, 4, 5]),
        ({"iou_threshold": 0.3}, [3, 4]),
        ({"score_threshold": 0.5}, [3]),
        ({"score_threshold": 1.0}, []),
        ({"iou_threshold": 1.0}, [3, 0, 1, 2]),
    ],
)
def test_the_best_boxes_remain_of_those_that_overlap(limits, expected):
    assert evaluate(af.image.non_max_suppression(BOXES, SCORES, 4, **limits)).tolist() == expected


def test_soft_suppression_lowers_scores():
    places, scores = af.image.non_max_suppression_with_scores(BOXES, SCORES, 6, soft_nms_sigma=0.5)
    assert evaluate(places).tolist() == [3, 2, 4, 5, 1, 0]
    np.testing.assert_allclose(evaluate(scores), [0.95, 0.3584033, 0.3, 0.2684518, 0.20970175, 0.07541253], rtol=1e-5)


def test_selections_are_padded_and_counted():
    places, count = af.image.non_max_suppression_padded(BOXES, SCORES, 5, pad_to_max_output_size=True)
    assert places.shape.as_list() == [5]
    assert evaluate(places).tolist() == [3, 4, 5, 0, 0]
    assert evaluate(count) == 3


def test_outlines_are_cut_at_the_edges_and_take_turns_in_colors():
    boxes = np.array([[[-0.5, 0.3, 0.5, 1.5], [0.8, 0.2, 0.2, 0.7], [0.5, 0.5, 0.5, 0.5]]], np.float32)
    drawn = evaluate(af.image.draw_bounding_boxes(np.zeros([1, 5, 6, 1], np.float32), boxes, colors=[[1.0], [2.0]]))
    assert drawn[0, :, :, 0].tolist() == [
        [0, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0],
    ]  # fmt: skip
    plain = evaluate(af.image.draw_bounding_boxes(np.zeros([1, 5, 6, 4], np.float32), boxes[:, 2:]))
    assert plain[0, 2, 2].tolist() == [1, 1, 0, 1]


def test_equal_images_are_alike_and_others_less_the_more_they_differ():
    image = np.random.default_rng(0).random((2, 3, 13, 12, 2)).astype(np.float32)
    noise = np.random.default_rng(1).random(image.shape).astype(np.float32)
    likeness = [evaluate(af.image.ssim(image, image + share * noise, 1.0)) for share in (0, 0.2, 0.6)]
    assert likeness[0].shape == (2, 3)
    np.testing.assert_allclose(likeness[0], 1, rtol=1e-5)
    assert (likeness[0] > likeness[1]).all()
    assert (likeness[1] > likeness[2]).all()
    assert evaluate(af.image.ssim(image, image, 1.0, return_index_map=True)).shape == (2, 3, 3, 2)
    scales = evaluate(af.image.ssim_multiscale(image, image, 1.0, (0.5, 0.5), filter_size=5))
    np.testing.assert_allclose(scales, np.ones((2, 3)), rtol=1e-5)


def test_likeness_is_that_of_tensorflow():
    image = np.random.RandomState(0).rand(2, 12, 13, 3).astype(np.float32)
    found = evaluate(af.image.ssim(image, image + np.float32(0.1), 1.0))
    np.testing.assert_allclose(found, [0.9829214, 0.98419696], rtol=1e-6)
    whole = evaluate(af.image.ssim((image * 255).astype(np.uint8), (image * 200).astype(np.uint8), 255))
    np.testing.assert_allclose(whole, [0.94312215, 0.9434653], rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: af.image.non_max_suppression(BOXES, SCORES[:4], 3), "6 boxes need as many scores, not 4"),
        (lambda: af.image.non_max_suppression(BOXES[:, :3], SCORES, 3), "4 coordinates"),
        (lambda: evaluate(af.image.non_max_suppression(BOXES, SCORES, -1)), "negative"),
        (lambda: af.image.non_max_suppression_overlaps(np.ones([2, 3]), [1.0, 2.0], 3), "square"),
        (lambda: af.image.draw_bounding_boxes(np.zeros([2, 3, 3, 1], np.float32), [[[0.0] * 4]]), "2 images"),
        (lambda: af.image.ssim(np.zeros([5, 9, 1]), np.zeros([5, 9, 1]), 1.0), "5 by 9 are smaller"),
    ],
)
def test_bad_arguments_are_refused(call, text):
    with pytest.raises((ValueError, af.errors.OpError), match=text):
        call()
