import numpy as np

from aioflow.kernels.image.combined_boxes import select_boxes_of_classes
from aioflow.kernels.image.crop_sampling import sample_crop
from tests.kernels.samples import sample

corners = np.array([[[[0, 0, 1, 1.5]], [[0, 0, 1, 0.9]], [[0, 2, 1, 3]]]], np.float32)
scores = np.array([[[0.7, 0.2], [0.9, 0.3], [0.1, 0.4]]], np.float32)
for pad_per_class, clip_boxes in ((False, True), (True, False)):
    sample(
        "select_boxes_of_classes",
        lambda *given, options=(pad_per_class, clip_boxes): select_boxes_of_classes(*given, *options),
        corners,
        scores,
        np.array(2, np.int32),
        np.array(5, np.int32),
        np.array(0.5, np.float32),
        np.array(-np.inf, np.float32),
    )
sample(
    "sample_crop",
    lambda *given: sample_crop(*given, 5, 7, [0.5, 2.0], [0.1, 0.8], 10, False),
    np.array([40, 50, 3], np.int32),
    np.array([[[0.1, 0.2, 0.5, 0.6]]], np.float32),
    np.array(0.3, np.float32),
)
