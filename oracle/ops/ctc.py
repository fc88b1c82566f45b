"""Rows of labels whose places in time are not known: their losses and decoders."""

from typing import Any

import numpy as np

from oracle.draw import Call, Draw, call
from oracle.table import compare, differs

TIGHT = "where a row has too few times, TensorFlow's loss is 708: the logarithm of the least float64"
TWICE = "TensorFlow's loss has no second derivative"


def of_labels(d: Draw, first: int = 1) -> dict[str, Any]:
    """Logits, labels and lengths of rows that have times enough, most of them."""
    batch, classes, most, times = d.integer(1, 3), d.integer(3, 5), d.integer(1, 3), d.integer(4, 7)
    return {
        "logits": d.array("float32", (times, batch, classes), -3, 3),
        "labels": d.array("int32", (batch, most), first, classes - 2 + first),
        "counts": d.array("int32", (batch,), 1, most),
        "times": d.array("int32", (batch,), times - 2, times),
    }


def dense(d: Draw) -> Call:
    drawn = of_labels(d)
    return call(*[drawn[name] for name in ("labels", "logits", "counts", "times")], blank_index=0)


def tight(labels: Any, logits: Any, counts: Any, times: Any, **attrs: Any) -> Any:
    return [
        count + (row[1:count] == row[: count - 1]).sum() > time
        for row, count, time in zip(labels, counts, times, strict=True)
    ]


compare(
    "nn.ctc_loss_v2", dense, ops=("ctc_loss",), rtol=256,
    differs=differs(TIGHT, lambda *arrays, **attrs: any(tight(*arrays))), gradient=TWICE,
)  # fmt: skip


def _slopes(library: Any, labels: Any, logits: Any, counts: Any, times: Any, **attrs: Any) -> Any:
    return library.gradients(library.nn.ctc_loss_v2(labels, logits, counts, times, **attrs), logits)


compare(
    "nn.ctc_loss_v2 gradient", dense, _slopes, ops=("ctc_loss_gradient",), rtol=512,
    differs=differs(TIGHT, lambda *arrays, **attrs: any(tight(*arrays))), gradient=TWICE,
)  # fmt: skip


def sparse(d: Draw) -> Call:
    drawn = of_labels(d, 0)
    return call(
        *[drawn[name] for name in ("logits", "labels", "counts", "times")],
        preprocess_collapse_repeated=d.pick(False, True), ctc_merge_repeated=d.pick(True, True, False),
        ignore_longer_outputs_than_inputs=d.pick(False, True),
    )  # fmt: skip


def _of_sparse(library: Any, logits: Any, labels: Any, counts: Any, times: Any, **attrs: Any) -> Any:
    places = library.cast(library.where(library.sequence_mask(counts, labels.shape[1])), library.int64)
    whole = library.cast(library.shape(labels), library.int64)
    given = library.SparseTensor(places, library.gather_nd(labels, places), whole)
    loss = library.nn.ctc_loss(given, logits, times, **attrs)
    return loss, library.gradients(loss, logits)


def _has_no_time_for_blanks(logits: Any, labels: Any, counts: Any, times: Any, **attrs: Any) -> bool:
    """Whether labels fit into the times of a row, but not the blanks between equal ones."""
    if attrs["preprocess_collapse_repeated"] or not attrs["ctc_merge_repeated"]:
        return False
    equal = [sum(row[1:count] == row[: max(count - 1, 0)]) for row, count in zip(labels, counts, strict=True)]
    return not attrs["ignore_longer_outputs_than_inputs"] and bool((counts + np.array(equal) > times).any())


IMPOSSIBLE = differs("a row with too few times is an error; TensorFlow's loss is infinite", _has_no_time_for_blanks)
compare("nn.ctc_loss", sparse, _of_sparse, ops="ctc_loss", rtol=512, gradient=TWICE, differs=IMPOSSIBLE)


def rows(d: Draw) -> Call:
    return call(d.array("int32", (d.integer(1, 3), d.integer(1, 6)), 0, 3))


compare("nn.ctc_unique_labels", rows)


def lasting(d: Draw) -> Call:
    batch, most = d.integer(1, 3), d.integer(1, 6)
    return call(d.array("int32", (batch, most), 0, 2), d.array("int32", (batch,), 0, most))


compare("nn.collapse_repeated", lasting, ops=())


def decoded(d: Draw) -> Call:
    drawn = of_labels(d)
    return call(drawn["logits"], drawn["times"], merge_repeated=d.pick(False, True))


def searched(d: Draw) -> Call:
    top = d.integer(1, 3)
    return call(*decoded(d).arrays, merge_repeated=d.pick(False, True), top_paths=top, beam_width=d.integer(3, 20))


compare("nn.ctc_greedy_decoder", decoded, ops="ctc_greedy_decode", gradient="labels have none")
compare("nn.ctc_beam_search_decoder", searched, ops="ctc_beam_search", rtol=64, gradient="labels have none")
