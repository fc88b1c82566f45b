"""Labels decoded from logits over time: the best class at each time, or the most probable rows of labels.

The search keeps, at each time, the most probable prefixes. It counts the paths that end in a blank and those that end
in the last label apart, since a label after itself starts a new one only after a blank.
"""

from collections.abc import Sequence

import numpy as np

from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.kernels.nn.ctc import REAL, check_lengths, sizes
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape, int64

Labels = tuple[int, ...]


@op
def ctc_greedy_decode(
    inputs: Spec, sequence_length: Ints, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[Spec, Spec, Spec, Spec]:
    """The classes of the highest logits that are not blank, as a sparse tensor, and minus the sums of these logits."""
    rows = _rows(inputs, sequence_length)
    classes = sizes(inputs, "inputs")[2]
    if blank_index is not None and classes is not None and not -classes <= blank_index < classes:
        raise ValueError(f"the blank must be one of {classes} classes, not {blank_index}")
    return *_parts(), Spec(inputs.dtype, TensorShape((rows, 1)))


@op
def ctc_beam_search(
    inputs: Spec, sequence_length: Ints, beam_width: int, top_paths: int, merge_repeated: bool
) -> tuple[Spec, ...]:
    """For each of `top_paths` the labels as a sparse tensor; last, the logarithms of their probabilities."""
    if not 1 <= top_paths <= beam_width:
        raise ValueError(f"top_paths is from 1 to beam_width, {beam_width}, not {top_paths}")
    rows = _rows(inputs, sequence_length)
    paths = [part for _ in range(known.pieces(top_paths)) for part in _parts()]
    return *paths, Spec(inputs.dtype, TensorShape((rows, top_paths)))


def _rows(inputs: Spec, lengths: Spec) -> int | None:
    _, rows, _ = sizes(inputs.only(REAL), "inputs")
    given = known.integers(lengths, "sequence_length").with_rank(1, "sequence_length").shape
    if not given.is_compatible_with([rows]):
        raise ValueError(f"sequence_length of shape {given} does not fit a batch of {rows} rows of inputs")
    return rows


def _parts() -> tuple[Spec, Spec, Spec]:
    """Indices, values and shape of a sparse tensor of labels."""
    return Spec(int64, TensorShape((None, 2))), Spec(int64, TensorShape((None,))), Spec(int64, TensorShape((2,)))


ctc_greedy_decode.no_gradient("labels do not vary smoothly; ctc_loss has a gradient")
ctc_beam_search.no_gradient("labels do not vary smoothly; ctc_loss has a gradient")
costs(ctc_greedy_decode, 10.0)
costs(ctc_beam_search, TEXT)


def _sparse(rows: Sequence[Labels]) -> tuple[Array, Array, Array]:
    """Rows of labels as a sparse tensor: indices, values, shape."""
    places = [(row, column) for row, labels in enumerate(rows) for column in range(len(labels))]
    values = [label for labels in rows for label in labels]
    shape = (len(rows), max((len(labels) for labels in rows), default=0))
    return (
        np.array(places, np.int64).reshape(-1, 2),
        np.array(values, np.int64),
        np.array(shape, np.int64),
    )


def _merged(labels: Sequence[int]) -> Labels:
    return tuple([label for place, label in enumerate(labels) if not place or label != labels[place - 1]])


@ctc_greedy_decode.kernel(CPU, fresh=True)
def _(
    xp: Namespace, inputs: Array, lengths: Array, *, merge_repeated: bool, blank_index: int | None
) -> tuple[Array, ...]:
    times, _, classes = inputs.shape
    check_lengths(lengths, times, "sequence_length", "times")
    blank = (classes - 1 if blank_index is None else blank_index) % classes
    best = inputs.argmax(2).T if times else np.zeros(inputs.shape[1::-1], np.int64)
    found = []
    for row, length in zip(best, lengths.tolist(), strict=True):
        seen = row[:length].tolist()
        found.append(tuple([label for label in (_merged(seen) if merge_repeated else seen) if label != blank]))
    counts = np.arange(times)[:, None] < lengths
    sums = np.where(counts, inputs.max(2, initial=-np.inf), 0).sum(0, dtype=inputs.dtype)
    return *_sparse(found), -sums[:, None]


@ctc_beam_search.kernel(CPU, fresh=True)
def _(
    xp: Namespace, inputs: Array, lengths: Array, *, beam_width: int, top_paths: int, merge_repeated: bool
) -> tuple[Array, ...]:
    check_lengths(lengths, len(inputs), "sequence_length", "times")
    paths: list[list[Labels]] = [[] for _ in range(top_paths)]
    scores = np.empty((inputs.shape[1], top_paths), inputs.dtype)
    for row, length in enumerate(lengths.tolist()):
        found = _search(_log_softmax(inputs[:length, row].astype(np.float64)), beam_width)[:top_paths]
        if len(found) < top_paths:
            raise ValueError(f"row {row} of {length} times has {len(found)} paths, {top_paths} are asked for")
        for place, (labels, score) in enumerate(found):
            paths[place].append(_merged(labels) if merge_repeated else labels)
            scores[row, place] = score
    return *[part for path in paths for part in _sparse(path)], scores


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _search(scores: Array, width: int) -> list[tuple[Labels, float]]:
    """The most probable rows of labels, and the logarithms of their probabilities, the highest first."""
    beam: dict[Labels, tuple[float, float]] = {(): (0.0, -np.inf)}  # the paths that end in a blank, and the others
    for time in scores:
        beam = _next_beam(beam, time, width)
    return [(labels, float(np.logaddexp(*each))) for labels, each in beam.items()]


def _next_beam(beam: dict[Labels, tuple[float, float]], scores: Array, width: int) -> dict[Labels, tuple[float, float]]:
    labels = list(beam)
    ends = np.array(list(beam.values()))
    total = np.logaddexp(ends[:, 0], ends[:, 1])
    longer = total[:, None] + scores[:-1]  # the blank is the last class
    last = np.array([each[-1] if each else -1 for each in labels])
    some = np.flatnonzero(last >= 0)
    longer[some, last[some]] = ends[some, 0] + scores[last[some]]
    in_blank = total + scores[-1]
    in_label = np.where(last >= 0, ends[:, 1] + scores[last], -np.inf)
    places = {each: place for place, each in enumerate(labels)}
    for place, each in enumerate(labels):
        parent = places.get(each[:-1]) if each else None
        if parent is not None:
            in_label[place] = np.logaddexp(in_label[place], longer[parent, each[-1]])
            longer[parent, each[-1]] = -np.inf
    every = np.concatenate([np.logaddexp(in_blank, in_label), longer.ravel()])
    best = np.argsort(-every, kind="stable")[:width]
    made: dict[Labels, tuple[float, float]] = {}
    for place in best[every[best] > -np.inf].tolist():
        if place < len(labels):
            made[labels[place]] = float(in_blank[place]), float(in_label[place])
        else:
            parent, label = divmod(place - len(labels), longer.shape[1])
            made[*labels[parent], label] = -np.inf, float(longer[parent, label])
    return made
