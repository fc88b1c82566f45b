"""Connectionist temporal classification: how probable a row of labels is, whose places in time are not known.

[Graves, Fernandez, Gomez and Schmidhuber 2006]. The loss sums over all ways to stretch the labels over the times, with
blanks in between; `ctc_lattice` has the sums.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.families import CPU, SLOW, costs
from aioflow.kernels.nn.ctc_lattice import Lattice
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape, float32, float64, int32, int64

REAL = frozenset((float32, float64))


@op(name="ctc_loss")
def labels_loss(
    logits: Spec, labels: Ints, label_length: Ints, logit_length: Ints, blank_index: int, merges: bool = True
) -> Spec:
    """The negative logarithm of the probability of each row of labels, from logits [time, batch, classes].

    `blank_index` counts from the end if it is negative. The loss of a row that has too few times for its labels is
    infinite, with a gradient of 0.
    """
    return Spec(logits.dtype, TensorShape.vector(_batch(logits, labels, label_length, logit_length, blank_index)))


@op
def ctc_loss_gradient(
    logits: Spec, labels: Ints, label_length: Ints, logit_length: Ints, blank_index: int, merges: bool = True
) -> Spec:
    """The gradient of each row's `ctc_loss` with respect to the logits."""
    _batch(logits, labels, label_length, logit_length, blank_index)
    return logits


@op
def ctc_loss_curvature(
    logits: T, labels: Ints, label_length: Ints, logit_length: Ints, direction: T, blank_index: int, merges: bool = True
) -> Spec:
    """How fast `ctc_loss_gradient` changes as the logits move in that direction."""
    _batch(logits, labels, label_length, logit_length, blank_index)
    return Spec(logits.same_dtype(direction).dtype, logits.shape.merge_with(direction.shape))


def _batch(logits: Spec, labels: Spec, label_length: Spec, logit_length: Spec, blank: int) -> int | None:
    """The size of the batch as far as it is known. ValueError if shapes do not fit, or the blank is no class."""
    _, batch, classes = sizes(logits.only(REAL), "logits")
    if classes is not None and not -classes <= blank < classes:
        raise ValueError(f"the blank must be one of {classes} classes, not {blank}")
    parts = [(known.integers(labels, "labels").with_rank(2, "labels"), "labels")]
    for lengths, what in ((label_length, "label_length"), (logit_length, "logit_length")):
        parts.append((known.integers(lengths, what).with_rank(1, what), what))
    for spec, what in parts:
        size = None if spec.sizes is None else spec.sizes[0]
        if None not in (size, batch) and size != batch:
            raise ValueError(f"{what} of shape {spec.shape} do not fit a batch of {batch} rows of logits")
        batch = size if batch is None else batch
    return batch


def sizes(logits: Spec, what: str) -> tuple[int | None, ...]:
    """Times, rows and classes as far as they are known. ValueError for another rank."""
    found = logits.with_rank(3, what).sizes
    assert found is not None
    return found


@labels_loss.gradient
def _(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    slopes = ctc_loss_gradient(*op.inputs, **op.attrs)
    return slopes * expand_dims(expand_dims(dy, 0), 2), None, None, None


@ctc_loss_gradient.gradient
def _(op: Operation, dz: Tensor) -> tuple[Any, ...]:
    return ctc_loss_curvature(*op.inputs, dz, **op.attrs), None, None, None


ctc_loss_curvature.no_gradient("third derivatives of the CTC loss are not implemented")


def _lattices(node: NodeView) -> Callable[[Array, Array, Array, Array], Lattice]:
    """The lattice of the node's inputs, as a function of these. ValueError for wrong lengths and labels."""
    blank_index, merges = node.attrs["blank_index"], node.attrs["merges"]

    def lattice(logits: Array, labels: Array, label_length: Array, logit_length: Array) -> Lattice:
        times, _, classes = logits.shape
        blank = blank_index % classes
        check_lengths(logit_length, times, "logit_length", "times")
        check_lengths(label_length, labels.shape[1], "label_length", "labels")
        _check_labels(labels, label_length, classes, blank)
        return Lattice(logits, labels, label_length, logit_length, blank, merges)

    return lattice


def _check_labels(labels: Array, lengths: Array, classes: int, blank: int) -> None:
    """ValueError unless all labels that count are classes, and not the blank."""
    counts = np.arange(labels.shape[1]) < lengths[:, None]
    wrong = counts & ((labels < 0) | (labels >= classes) | (labels == blank))
    if wrong.any():
        row, place = np.argwhere(wrong)[0]
        text = f"label {labels[row, place]} of row {row} is not one of the {classes} classes, or is blank ({blank})"
        raise ValueError(text)


def check_lengths(lengths: Array, most: int, what: str, of: str) -> None:
    """ValueError unless all lengths lie from 0 to `most`."""
    wrong = (lengths < 0) | (lengths > most)
    if wrong.any():
        raise ValueError(f"{what} is {lengths[wrong][0]} for row {wrong.argmax()}, which has {most} {of}")


@labels_loss.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    lattice = _lattices(node)
    return lambda *inputs: lattice(*inputs).loss()


@ctc_loss_gradient.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    lattice = _lattices(node)
    return lambda *inputs: lattice(*inputs).gradient()


@ctc_loss_curvature.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    lattice = _lattices(node)
    return lambda *inputs: lattice(*inputs[:4]).curvature(inputs[4])


@op(name="ctc_unique_labels")
def unique_labels(labels: Ints) -> tuple[Spec, Spec]:
    """The different labels of each row in the order of their first places, then 0s; and the place there of each."""
    found = Spec(int64, known.integers(labels, "labels").with_rank(2, "labels").shape)
    return found, found.with_dtype(int32)


unique_labels.no_gradient("labels have no gradient")


@unique_labels.kernel(CPU, fresh=True)
def _(xp: Namespace, labels: Array) -> tuple[Array, Array]:
    found, places = np.zeros(labels.shape, np.int64), np.zeros(labels.shape, np.int32)
    for row, each in enumerate(labels.tolist()):
        numbers = {label: place for place, label in enumerate(dict.fromkeys(each))}
        found[row, : len(numbers)] = list(numbers)
        places[row] = [numbers[label] for label in each]
    return found, places


for _op in (labels_loss, ctc_loss_gradient, ctc_loss_curvature):
    costs(_op, 4 * SLOW)
