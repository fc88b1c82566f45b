"""Segments: rows added up by the numbers of their groups."""

from typing import Any

import numpy as np

from oracle.draw import COMPLEX, FLOATS, INTS, NUMBERS, Call, Draw, call
from oracle.table import NUMPY, compare, differs


def in_order(*dtypes: str) -> Any:
    """Data, and an id for each row, never falling, some ids left out."""

    def drawn(d: Draw) -> Call:
        rows, rest = d.integer(0, 6), d.shape(0, 2)
        ids = np.sort(d.ids((rows,), 0, 5))
        return call(d.array(d.dtype(*dtypes), (rows, *rest)), ids)

    return drawn


def in_any_order(*dtypes: str) -> Any:
    """Data, an id for each row or element of its first axes, and how many groups there are."""

    def drawn(d: Draw) -> Call:
        shape = d.shape()
        ids = shape[: d.integer(0, len(shape))]
        groups = d.integer(0, 5)
        return call(d.array(d.dtype(*dtypes), shape), d.ids(ids, -1, groups - 1), num_segments=groups)

    return drawn


def chosen_rows(d: Draw) -> Call:
    """Data, rows of it to be added, and the group of each."""
    data = d.array(d.dtype(*FLOATS), (d.integer(1, 4), *d.shape(0, 2)))
    count = d.integer(0, 6)
    return call(
        data, d.ids((count,), 0, len(data) - 1), np.sort(d.ids((count,), 0, 4)), num_segments=d.pick(None, 5, 7)
    )


NAN = differs(NUMPY + "the extreme of NaN and others is NaN", lambda data, ids, **attrs: np.isnan(data).any())
WIDE = differs("sums of float16 are summed as float32", lambda data, *ids, **attrs: data.dtype == np.float16)
WRAPPED = differs(
    "TensorFlow's sums of integers wrap around before they are divided",
    lambda data, ids: data.dtype.kind in "iu" and np.abs(data.astype(float)).max(initial=0) > 20,
)
FACTORS = differs(
    "TensorFlow divides by the factor: wrong for 0, and it forgets to conjugate",
    lambda data, ids, **attrs: (data == 0).any() or data.dtype.kind == "c",
)
NO_SEGMENTS = differs(
    "of no segments nothing; TensorFlow's gradient refuses", lambda *arrays, num_segments: not num_segments
)
NOTHING_CHOSEN = differs(
    "TensorFlow leaves the gradient uninitialised", lambda data, chosen, ids, **attrs: not chosen.size
)
compare("segment_sum", in_order(*NUMBERS), ops=("segment_sum", "gather_segments"), rtol=64, differs=WIDE)
compare("segment_prod", in_order(*NUMBERS), rtol=64, differs=FACTORS + WIDE)
compare(
    "segment_mean",
    in_order(*FLOATS, *COMPLEX, *INTS),
    rtol=64,
    ops=("segment_mean", "segment_sizes"),
    differs=WIDE + WRAPPED,
)
for name in ("segment_max", "segment_min"):
    compare(name, in_order(*FLOATS, *INTS), differs=NAN)
compare("unsorted_segment_sum", in_any_order(*NUMBERS), rtol=64, differs=NO_SEGMENTS + WIDE)
compare(
    "unsorted_segment_prod",
    in_any_order(*NUMBERS),
    rtol=64,
    differs=FACTORS + NO_SEGMENTS + WIDE,
    ops=("unsorted_segment_prod", "segment_edges"),
)
for name in ("unsorted_segment_max", "unsorted_segment_min"):
    compare(name, in_any_order(*FLOATS, *INTS), differs=NO_SEGMENTS + NAN)
for name in ("unsorted_segment_mean", "unsorted_segment_sqrt_n"):
    compare(name, in_any_order(*FLOATS), ops=(), rtol=64, differs=NO_SEGMENTS + WIDE)
for name in ("sparse_segment_sum", "sparse_segment_mean", "sparse_segment_sqrt_n"):
    compare(name, chosen_rows, rtol=64, differs=NOTHING_CHOSEN + WIDE)
