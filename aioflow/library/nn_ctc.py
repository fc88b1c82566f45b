"""Connectionist temporal classification under TensorFlow's names: losses of rows of labels, and their decoders."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.params import renamed
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import identity, ones_like, zeros_like
from aioflow.kernels.array.gather import gather, gather_nd, scatter_nd
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.select import select, sequence_mask, where
from aioflow.kernels.array.shapes import shape, size
from aioflow.kernels.control.assertions import assert_less_equal
from aioflow.kernels.math.arithmetic import add
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, less_equal, logical_and, not_equal
from aioflow.kernels.math.cumulative import cumsum
from aioflow.kernels.math.reduction import reduce_max, reduce_sum
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.kernels.nn import ctc, ctc_decoding
from aioflow.library.control import control_dependencies, name_scope
from aioflow.tensors.dtypes import int32

Decoded = tuple[list[SparseTensor], Tensor]


@transactional
def ctc_loss(
    labels: SparseTensor,
    inputs: NumberLike | None = None,
    sequence_length: NumberLike | None = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: NumberLike | None = None,
) -> Tensor:
    """The negative logarithm of the probability of each row of labels; the blank is the last class.

    Args:
        labels: a sparse tensor [batch, most labels] of classes, whose rows may differ in length.
        inputs: logits [time, batch, classes].
        sequence_length: the number of times of each row that count.
        preprocess_collapse_repeated: whether equal labels next to each other are one.
        ctc_merge_repeated: whether a class that lasts for several times is one label; if not, it is one at each time.
        ignore_longer_outputs_than_inputs: whether a row with too few times for its labels has a loss of 0.
        time_major: whether inputs are [time, batch, classes]; else [batch, time, classes].
        logits: another name for `inputs`.

    Raises:
        InvalidArgumentError: in the run, if a row has too few times for its labels, and these are not ignored.

    Examples:
        >>> labels = af.SparseTensor([[0, 0], [0, 1]], [0, 1], [1, 2])
        >>> await session.run(af.nn.ctc_loss(labels, af.zeros([3, 1, 3]), [3]))  # 5 of 27 paths
        array([1.6863991], dtype=float32)
    """
    scores = renamed("logits", inputs, logits)
    if not isinstance(labels, SparseTensor):
        raise TypeError(f"labels are a SparseTensor, not {type(labels).__name__}; ctc_loss_v2 takes dense labels")
    if scores is None or sequence_length is None:
        raise ValueError("inputs and sequence_length are needed")
    with name_scope(None, "ctc_loss"):
        x, lengths = _time_major(scores, time_major), convert_to_tensor(sequence_length)
        rows, counts = _dense(labels)
        if preprocess_collapse_repeated:
            rows, counts = collapse_repeated(rows, counts)
        needed = add(counts, _repeats(rows, counts)) if ctc_merge_repeated else counts
        if not ignore_longer_outputs_than_inputs:
            fits = assert_less_equal(
                needed, cast(lengths, needed.dtype), message="a row has too few times for its labels and the blanks "
                "between equal ones; set ignore_longer_outputs_than_inputs=True to leave it out",
            )  # fmt: skip
            with control_dependencies([fits]):
                x = identity(x)
        loss = ctc.labels_loss(x, rows, counts, lengths, -1, ctc_merge_repeated)
        return select(less_equal(needed, cast(lengths, needed.dtype)), loss, zeros_like(loss))


@transactional
def ctc_loss_v2(
    labels: NumberLike | SparseTensor,
    logits: NumberLike,
    label_length: NumberLike | None,
    logit_length: NumberLike,
    logits_time_major: bool = True,
    unique: tuple[Tensor, Tensor] | None = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """The negative logarithm of the probability of each row of labels, infinite for a row with too few times.

    Args:
        labels: classes [batch, most labels], or a sparse tensor of them.
        logits: [time, batch, classes].
        label_length: the number of labels of each row that count; None for sparse labels.
        logit_length: the number of times of each row that count.
        logits_time_major: whether logits are [time, batch, classes]; else [batch, time, classes].
        unique: has no effect; TensorFlow saves time by it.
        blank_index: the class that is no label, counted from the end if negative; 0 unless labels are sparse.
        name: the name of the operations.

    Examples:
        >>> await session.run(af.nn.ctc_loss_v2([[1, 2]], af.zeros([3, 1, 3]), [2], [3]))
        array([1.6863991], dtype=float32)
    """
    with name_scope(name, "ctc_loss_dense"):
        x = _time_major(logits, logits_time_major)
        if isinstance(labels, SparseTensor):
            if blank_index is None:
                raise ValueError("blank_index is needed for sparse labels: ctc_loss has the last class, -1")
            rows, counts = _dense(labels)
        else:
            if label_length is None:
                raise ValueError("label_length is needed for labels that are not sparse")
            rows, counts = convert_to_tensor(labels), convert_to_tensor(label_length)
        return ctc.labels_loss(x, rows, counts, logit_length, blank_index or 0)


def _time_major(logits: NumberLike, is_time_major: bool) -> Tensor:
    x = convert_to_tensor(logits)
    return x if is_time_major else transpose(x, [1, 0, 2])


def _dense(labels: SparseTensor) -> tuple[Tensor, Tensor]:
    """The labels of each row, one after the other, then 0s; and the number of labels of each row."""
    row = cast(labels.indices[:, 0], int32)
    batch = cast(labels.dense_shape[0], int32)
    counts = unsorted_segment_sum(ones_like(row), row, batch)
    starts = gather(cumsum(counts, exclusive=True), row)
    column = range_(size(row)) - starts
    most = cast(labels.dense_shape[1], int32)
    return scatter_nd(stack([row, column], 1), labels.values, stack([batch, most])), counts


def _repeats(labels: Tensor, counts: Tensor) -> Tensor:
    """How many labels of each row equal the one before."""
    same = logical_and(equal(labels[:, 1:], labels[:, :-1]), _counted(labels, counts)[:, 1:])
    return reduce_sum(cast(same, counts.dtype), 1)


def _counted(labels: Tensor, counts: Tensor) -> Tensor:
    return sequence_mask(counts, shape(labels)[1])


@transactional
def collapse_repeated(labels: NumberLike, seq_length: NumberLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Rows in which equal labels next to each other are one, filled up with 0s; and their new lengths.

    Examples:
        >>> await session.run(af.nn.collapse_repeated([[1, 1, 2, 2, 1], [0, 0, 3, 0, 0]], [5, 4]))
        (array([[1, 2, 1],
               [0, 3, 0]], dtype=int32), array([3, 3], dtype=int32))
    """
    with name_scope(name, "collapse_repeated_labels"):
        rows, lengths = convert_to_tensor(labels), convert_to_tensor(seq_length)
        begins = concat([ones_like(rows[:, :1], dtype="bool"), not_equal(rows[:, 1:], rows[:, :-1])], 1)
        kept = logical_and(begins, _counted(rows, lengths))
        places = cast(where(kept), int32)
        counts = reduce_sum(cast(kept, int32), 1)
        column = gather_nd(cumsum(cast(kept, int32), 1, exclusive=True), places)
        sizes = stack([shape(rows)[0], reduce_max(concat([counts, [0]], 0))])
        made = scatter_nd(stack([places[:, 0], column], 1), gather_nd(rows, places), sizes)
        return made, cast(counts, lengths.dtype)


@transactional
def ctc_unique_labels(labels: NumberLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The different labels of each row in the order of their first places, then 0s; and the place there of each label.

    Examples:
        >>> await session.run(af.nn.ctc_unique_labels([[3, 4, 4, 3]]))
        (array([[3, 4, 0, 0]]), array([[0, 1, 1, 0]], dtype=int32))
    """
    found, places = ctc.unique_labels(labels, name=name)
    return found, places


@transactional
def ctc_greedy_decoder(
    inputs: NumberLike, sequence_length: NumberLike, merge_repeated: bool = True, blank_index: int | None = None
) -> Decoded:
    """The class of the highest logit at each time, without blanks, and with equal ones in a row as one.

    Args:
        inputs: logits [time, batch, classes].
        sequence_length: the number of times of each row that count.
        merge_repeated: whether a class that lasts for several times is one label.
        blank_index: the class that is no label, counted from the end if negative; the last by default.

    Returns:
        A list of one sparse tensor of labels [batch, most labels], and minus the sums of the logits [batch, 1].

    Examples:
        >>> logits = [[[0.0, 9.0, 0.0]], [[0.0, 9.0, 0.0]], [[9.0, 0.0, 0.0]]]
        >>> (labels,), _ = af.nn.ctc_greedy_decoder(logits, [3])
        >>> (await session.run(labels)).values
        array([1, 0])
    """
    *parts, sums = ctc_decoding.ctc_greedy_decode(inputs, sequence_length, merge_repeated, blank_index)
    return [SparseTensor(*parts)], sums


@transactional
def ctc_beam_search_decoder(
    inputs: NumberLike,
    sequence_length: NumberLike,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
) -> Decoded:
    """The most probable rows of labels, of all that a beam of prefixes finds; the blank is the last class.

    Args:
        inputs: logits [time, batch, classes].
        sequence_length: the number of times of each row that count.
        beam_width: the number of prefixes kept at each time.
        top_paths: the number of rows of labels to return.
        merge_repeated: whether equal labels in a row are merged in the results, though a blank was between them.

    Returns:
        A list of `top_paths` sparse tensors of labels, and the logarithms of their probabilities [batch, top_paths].

    Examples:
        >>> logits = [[[0.0, 9.0, 0.0]], [[0.0, 9.0, 0.0]], [[9.0, 0.0, 0.0]]]
        >>> (labels,), _ = af.nn.ctc_beam_search_decoder(logits, [3])
        >>> (await session.run(labels)).values
        array([1, 0])
    """
    *parts, scores = ctc_decoding.ctc_beam_search(inputs, sequence_length, beam_width, top_paths, merge_repeated)
    return [SparseTensor(*parts[place : place + 3]) for place in range(0, len(parts), 3)], scores


def ctc_beam_search_decoder_v2(
    inputs: NumberLike, sequence_length: NumberLike, beam_width: int = 100, top_paths: int = 1
) -> Decoded:
    """As `ctc_beam_search_decoder`, whose results keep equal labels in a row.

    Examples:
        >>> logits = [[[0.0, 9.0, 0.0]], [[0.0, 0.0, 9.0]], [[0.0, 9.0, 0.0]]]
        >>> (labels,), _ = af.nn.ctc_beam_search_decoder_v2(logits, [3])
        >>> (await session.run(labels)).values
        array([1, 1])
    """
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)
