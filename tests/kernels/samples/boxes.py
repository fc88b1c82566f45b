import numpy as np

from aioflow.kernels.image.boxes import draw_boxes, select_boxes, select_by_overlaps
from tests.kernels.samples import sample

boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [1, 1.1, 0, 0.1], [0, 2, 1, 3]])
scores = np.array([0.7, 0.9, 0.8, 0.1])
half, least, zero = np.array(0.5), np.array(-np.inf), np.array(0.0)
sample("select_boxes", lambda *given: select_boxes(*given[:2], 3, *given[2:]), boxes, scores, half, least, zero)
overlaps = np.array([[1, 0.6, 0], [0.6, 1, 0.2], [0, 0.2, 1]])
sample(
    "select_by_overlaps",
    lambda *given: select_by_overlaps(*given[:2], 3, *given[2:]),
    overlaps,
    scores[:3],
    half,
    least,
)
sample(
    "draw_boxes",
    draw_boxes,
    np.zeros([1, 4, 5, 3], np.float32),
    np.array([[[0, 0, 1, 1], [-1, 0.3, 0.6, 2]]], np.float32),
    np.array([[1, 2, 3]], np.float32),
)
