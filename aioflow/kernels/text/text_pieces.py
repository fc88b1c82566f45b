"""Strings taken apart into bytes, put together by segment, and in runs of neighbours."""

from collections.abc import Sequence

import numpy as np

from aioflow.graph.convert import TensorLike
from aioflow.graph.op import Indices, Ints, op
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels import known
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.kernels.text.splitting import string_split
from aioflow.tensors.dtypes import STRING, Array, Namespace, Spec, TensorShape
from aioflow.tensors.object_arrays import join_strings, make_array, to_list


def bytes_split(input: TensorLike, name: str | None = None) -> SparseTensor:
    """The bytes of each string of a vector as strings of their own, one row for each string.

    Examples:
        >>> await session.run(af.sparse_tensor_to_dense(af.strings.bytes_split(["ab", "c"]), default_value=""))
        array([[b'a', b'b'],
               [b'c', b'']], dtype=object)
    """
    found: SparseTensor = string_split(input, "", name=name)
    return found


@op(name="string_ngrams")
def _ngrams(
    data: Spec, widths: Sequence[int], separator: str, left: str, right: str, padding: int, preserve: bool
) -> Spec:
    """For each row along the last axis, the runs of each of the widths, joined by the separator."""
    if data.only(STRING).rank == 0:
        raise ValueError("a scalar has no axis of neighbours")
    if not widths or min(widths) < 1:
        raise ValueError(f"ngram_width is a number from 1 on, or several, not {list(widths)}")
    shape = data.shape
    if shape.sizes is None:
        return Spec(data.dtype)
    length = shape.sizes[-1]
    count = None if length is None else len(_runs(length, widths, padding, preserve))
    return Spec(data.dtype, TensorShape((*shape.sizes[:-1], count)))


def _runs(length: int, widths: Sequence[int], padding: int, preserve: bool) -> list[range]:
    """The positions of each run; those below 0 and from `length` on are padded."""
    runs = []
    for width in widths:
        pad = min(width - 1, width - 1 if padding < 0 else padding)
        runs += [range(start, start + width) for start in range(-pad, length + pad - width + 1)]
    whole = range(-max(padding, 0), length + max(padding, 0))
    return runs if runs or not preserve or not length else [whole]


@_ngrams.kernel(CPU, fresh=True)
def _(
    xp: Namespace, data: Array, *, widths: Sequence[int], separator: str, left: str, right: str, padding: int,
    preserve: bool,
) -> Array:  # fmt: skip
    length, ends = data.shape[-1], (left.encode(), right.encode())
    runs = _runs(length, widths, padding, preserve)
    made: list[bytes] = []
    items = to_list(data)
    for begin in range(0, len(items), length) if length else [0] * int(np.prod(data.shape[:-1])):
        row = items[begin : begin + length]
        made += [
            separator.encode().join([ends[0] if i < 0 else ends[1] if i >= length else row[i] for i in run])
            for run in runs
        ]
    return make_array(made, (*data.shape[:-1], len(runs)))


def ngrams(
    data: TensorLike,
    ngram_width: int | Sequence[int],
    separator: str = " ",
    pad_values: str | tuple[str, str] | None = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Tensor:
    """The runs of `ngram_width` neighbours along the last axis, joined by `separator`: [..., number of runs].

    Args:
        data: strings; all rows of the tensor have one length.
        ngram_width: the length of a run, or several lengths, whose runs follow each other.
        separator: what stands between the parts of a run.
        pad_values: what lies before and after each row; one for both sides, or two.
        padding_width: how many of them, at most one fewer than the length of a run, which is the default.
        preserve_short_sequences: whether a row that is too short for all runs is one.
        name: the operation's name.

    Raises:
        ValueError: a width is below 1, or the padding width is not positive.

    Examples:
        >>> await session.run(af.strings.ngrams(["a", "b", "c"], 2))
        array([b'a b', b'b c'], dtype=object)
    """
    widths = [ngram_width] if isinstance(ngram_width, int) else list(ngram_width)
    if padding_width is not None and (padding_width < 1 or pad_values is None):
        raise ValueError(f"padding_width {padding_width} must be positive, and needs pad_values")
    left, right = (pad_values, pad_values) if isinstance(pad_values, str) else pad_values or ("", "")
    padding = 0 if pad_values is None else -1 if padding_width is None else padding_width
    return _ngrams(data, widths, separator, left, right, padding, preserve_short_sequences, name=name)


@op
def unsorted_segment_join(inputs: Spec, segment_ids: Indices, num_segments: Ints, separator: str = "") -> Spec:
    """The strings of each of `num_segments` segments, joined in their order; "" for a segment without any.

    The shape of `segment_ids` is the beginning of that of `inputs`: one segment for each element, row or larger part.

    Examples:
        >>> await session.run(af.strings.unsorted_segment_join(["a", "b", "c"], [0, 1, 0], 2, "-"))
        array([b'a-c', b'b'], dtype=object)
    """
    inputs.only(STRING)
    count = known.scalar(num_segments, "num_segments")
    if inputs.shape.sizes is None or segment_ids.shape.sizes is None:
        return Spec(inputs.dtype)
    rank = len(segment_ids.shape.sizes)
    inputs.shape[:rank].merge_with(segment_ids.shape)
    return Spec(inputs.dtype, TensorShape((count, *inputs.shape.sizes[rank:])))


@unsorted_segment_join.kernel(CPU, fresh=True)
def _(xp: Namespace, inputs: Array, segment_ids: Array, num_segments: Array, *, separator: str) -> Array:
    count, rest = int(num_segments), inputs.shape[segment_ids.ndim :]
    ids = np.asarray(segment_ids).reshape(-1)
    if ids.size and not (ids.min() >= 0 and ids.max() < count):
        raise ValueError(f"segment ids from {ids.min()} to {ids.max()} are not all from 0 to {count - 1}")
    width = int(np.prod(rest))
    parts: list[list[bytes]] = [[] for _ in range(count * width)]
    places = (ids[:, None] * width + np.arange(width)).reshape(-1).tolist()
    for place, item in zip(places, to_list(inputs), strict=True):
        parts[place].append(item)
    return make_array([join_strings(separator.encode(), part) for part in parts], (count, *rest))


for _op in (_ngrams, unsorted_segment_join):
    _op.no_gradient("text does not vary smoothly")
    costs(_op, 2 * TEXT)
