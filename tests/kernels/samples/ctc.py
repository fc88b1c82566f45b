import functools
import itertools

import numpy as np

from aioflow.kernels.nn.ctc import ctc_loss_curvature, ctc_loss_gradient, labels_loss, unique_labels
from aioflow.kernels.nn.ctc_decoding import ctc_beam_search, ctc_greedy_decode
from tests.kernels.samples import sample

random = np.random.default_rng(5)
logits = random.normal(size=(4, 2, 3))
labels, label_length, logit_length = np.array([[1, 1], [2, 0]]), np.array([2, 1]), np.array([4, 3])


def collapsed(path, merges):
    kept = [each for place, each in enumerate(path) if not (merges and place and path[place - 1] == each)]
    return [each for each in kept if each]


def probability(scores, wanted, merges):
    """The sum over all paths, one by one."""
    scores = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    paths = itertools.product(range(scores.shape[1]), repeat=len(scores))
    found = [path for path in paths if collapsed(path, merges) == wanted]
    return sum(np.prod([scores[time, each] for time, each in enumerate(path)]) for path in found)


def reference(logits, labels, label_length, logit_length, merges=True):
    rows = zip(labels, label_length, logit_length, strict=True)
    return -np.log(
        [
            probability(logits[:times, row], each[:count].tolist(), merges)
            for row, (each, count, times) in enumerate(rows)
        ]
    )


for merges in (True, False):
    attrs = {"blank_index": 0, "merges": merges}
    sample(
        "ctc_loss", functools.partial(labels_loss, **attrs), logits, labels, label_length, logit_length,
        reference=functools.partial(reference, merges=merges),
    )  # fmt: skip
    sample(
        "ctc_loss_gradient", functools.partial(ctc_loss_gradient, **attrs), logits, labels, label_length, logit_length,
        gradient=False,  # its second derivative is the third of the loss
    )  # fmt: skip
sample(
    "ctc_loss_curvature", functools.partial(ctc_loss_curvature, blank_index=0), logits, labels, label_length,
    logit_length, random.normal(size=logits.shape),
)  # fmt: skip

peaks = np.log(np.eye(3)[[[0, 2], [0, 1], [2, 0], [1, 1]]] + 0.1)
sample(
    "ctc_greedy_decode", ctc_greedy_decode, peaks, np.array([4, 3]),
    reference=lambda x, lengths: (
        [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0], [2, 2], -np.log(1.1) * lengths.reshape(2, 1)
    ),
)  # fmt: skip
sample(
    "ctc_beam_search", functools.partial(ctc_beam_search, beam_width=4, top_paths=2, merge_repeated=False), peaks,
    np.array([4, 3]),
)  # fmt: skip
sample(
    "ctc_unique_labels", unique_labels, np.array([[3, 4, 4, 3], [0, 2, 0, 0]]),
    reference=lambda labels: ([[3, 4, 0, 0], [0, 2, 0, 0]], [[0, 1, 1, 0], [0, 1, 0, 0]]),
)  # fmt: skip
