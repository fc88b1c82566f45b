"""Text as code points and as characters, and from one encoding to another.

The results that TensorFlow returns as ragged tensors are SparseTensors here, with one row for each string.
"""

from collections.abc import Callable

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.kernels.text.code_points import (
    OUTPUTS,
    REPLACEMENT,
    check_encoding,
    check_options,
    decoded,
    encoded,
)
from aioflow.kernels.text.strings import each
from aioflow.tensors.dtypes import INTEGER, STRING, Array, Namespace, Spec, TensorShape, int32, int64, string
from aioflow.tensors.object_arrays import make_array, to_list

_NO_GRADIENT = "text does not vary smoothly"


def _check(encoding: str, errors: str, replacement_char: int) -> None:
    check_encoding(encoding)
    check_options(errors, replacement_char)


def _check_output(encoding: str) -> None:
    if encoding not in OUTPUTS:
        raise ValueError(f"output_encoding is one of {', '.join(OUTPUTS)}, not {encoding!r}")


@op
def unicode_transcode(
    input: Spec,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = REPLACEMENT,
    replace_control_characters: bool = False,
) -> Spec:
    r"""Each string in another encoding: UTF-8, UTF-16-BE or UTF-32-BE.

    Malformed bytes become the replacement character, or fail (`errors="strict"`), or are left out ("ignore").

    Examples:
        >>> await session.run(af.strings.unicode_transcode(["hé"], "UTF-8", "UTF-16-BE"))
        array([b'\x00h\x00\xe9'], dtype=object)
    """
    _check(input_encoding, errors, replacement_char)
    _check_output(output_encoding)
    return input.only(STRING)


@unicode_transcode.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    attrs = node.attrs
    how = attrs["input_encoding"], attrs["errors"], attrs["replacement_char"], attrs["replace_control_characters"]

    def transcoded(text: bytes) -> bytes:
        return "".join([chr(point) for point, _ in decoded(text, *how)]).encode(attrs["output_encoding"])

    return each(transcoded)


@op(name="unicode_decode")
def _decode(
    input: Spec, input_encoding: str, errors: str, replacement_char: int, replace_control_characters: bool = False
) -> tuple[Spec, Spec, Spec, Spec]:
    """The code points of each string of a vector: rows and columns, code points, first bytes, and the dense shape."""
    _check(input_encoding, errors, replacement_char)
    input.only(STRING).with_rank(1, "input")
    many = TensorShape((None,))
    places = Spec(int64, TensorShape((None, 2)))
    return places, Spec(int32, many), Spec(int64, many), Spec(int64, TensorShape((2,)))


@_decode.kernel(CPU, fresh=True)
def _(
    xp: Namespace,
    input: Array,
    *,
    input_encoding: str,
    errors: str,
    replacement_char: int,
    replace_control_characters: bool,
) -> tuple[Array, Array, Array, Array]:
    how = input_encoding, errors, replacement_char, replace_control_characters
    rows = [list(decoded(text, *how)) for text in to_list(input)]
    lengths = make_array([len(row) for row in rows], dtype=np.int64)
    points = make_array([point for row in rows for point, _ in row], dtype=np.int32)
    starts = make_array([start for row in rows for _, start in row], dtype=np.int64)
    columns = np.arange(len(points)) - np.repeat(lengths.cumsum() - lengths, lengths)
    places = np.stack([np.repeat(np.arange(len(rows)), lengths), columns], 1)
    return places, points, starts, np.array([len(rows), lengths.max(initial=0)], np.int64)


@op(name="unicode_encode")
def _encode(input: Spec, output_encoding: str, errors: str, replacement_char: int) -> Spec:
    """The strings of the code points along the last axis."""
    _check_output(output_encoding)
    check_options(errors, replacement_char)
    if input.only(INTEGER).rank == 0:
        raise ValueError("code points lie along an axis, and a scalar has none")
    return Spec(string, input.shape[:-1])


@_encode.kernel(CPU, fresh=True)
def _(xp: Namespace, input: Array, *, output_encoding: str, errors: str, replacement_char: int) -> Array:
    rows = input.reshape(-1, input.shape[-1]) if input.size else np.zeros((int(np.prod(input.shape[:-1])), 0), int)
    texts = [encoded(row.tolist(), output_encoding, errors, replacement_char) for row in rows]
    return make_array(texts, input.shape[:-1])


@op(name="unicode_encode_rows")
def _encode_rows(
    indices: Spec, values: Spec, dense_shape: Spec, output_encoding: str, errors: str, replacement_char: int
) -> Spec:
    """The string of the code points in each row of a sparse matrix."""
    _check_output(output_encoding)
    check_options(errors, replacement_char)
    values.only(INTEGER).with_rank(1, "values")
    indices.with_shape(TensorShape((None, 2)))
    return Spec(string, TensorShape((None,)))


@_encode_rows.kernel(CPU, fresh=True)
def _(
    xp: Namespace,
    indices: Array,
    values: Array,
    dense_shape: Array,
    *,
    output_encoding: str,
    errors: str,
    replacement_char: int,
) -> Array:
    order = np.lexsort((indices[:, 1], indices[:, 0]))
    ends = np.searchsorted(indices[order, 0], np.arange(1, int(dense_shape[0]) + 1))
    rows = np.split(values[order], ends)[: int(dense_shape[0])]
    return make_array([encoded(row.tolist(), output_encoding, errors, replacement_char) for row in rows])


for _op in (unicode_transcode, _decode, _encode, _encode_rows):
    _op.no_gradient(_NO_GRADIENT)
    costs(_op, 2 * TEXT)


# For users


@transactional
def unicode_decode(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = REPLACEMENT,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> SparseTensor:
    """The code points of each string of a vector, int32, one row for each string.

    Examples:
        >>> await session.run(af.strings.unicode_decode(["hé"], "UTF-8").values)
        array([104, 233], dtype=int32)
    """
    return unicode_decode_with_offsets(
        input, input_encoding, errors, replacement_char, replace_control_characters, name
    )[0]


@transactional
def unicode_decode_with_offsets(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = REPLACEMENT,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> tuple[SparseTensor, SparseTensor]:
    """The code points of each string of a vector, and the byte at which each begins; one row for each string.

    Examples:
        >>> codes, offsets = af.strings.unicode_decode_with_offsets(["hé!"], "UTF-8")
        >>> await session.run([codes.values, offsets.values])
        [array([104, 233,  33], dtype=int32), array([0, 1, 3])]
    """
    places, points, starts, sizes = _decode(
        input, input_encoding, errors, replacement_char, replace_control_characters, name=name
    )
    return SparseTensor(places, points, sizes), SparseTensor(places, starts, sizes)


@transactional
def unicode_split(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = REPLACEMENT,
    name: str | None = None,
) -> SparseTensor:
    """The characters of each string of a vector, one row for each string.

    Examples:
        >>> [each.decode() for each in await session.run(af.strings.unicode_split(["hé"], "UTF-8").values)]
        ['h', 'é']
    """
    return unicode_split_with_offsets(input, input_encoding, errors, replacement_char, name)[0]


@transactional
def unicode_split_with_offsets(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = REPLACEMENT,
    name: str | None = None,
) -> tuple[SparseTensor, SparseTensor]:
    """The characters of each string of a vector, and the byte at which each begins; one row for each string.

    Examples:
        >>> _, offsets = af.strings.unicode_split_with_offsets(["hé!"], "UTF-8")
        >>> await session.run(offsets.values)
        array([0, 1, 3])
    """
    points, starts = unicode_decode_with_offsets(input, input_encoding, errors, replacement_char, name=name)
    singles = points.values[:, None]
    characters: Tensor = _encode(singles, input_encoding, "strict", replacement_char)
    return SparseTensor(points.indices, characters, points.dense_shape), starts


@transactional
def unicode_encode(
    input: TensorLike | SparseTensor,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = REPLACEMENT,
    name: str | None = None,
) -> Tensor:
    """The strings of code points: along the last axis of a tensor, or in the rows of a sparse matrix.

    Numbers that are no characters become the replacement character, or fail (`errors="strict"`), or are left out.

    Examples:
        >>> (await session.run(af.strings.unicode_encode([104, 233], "UTF-8"))).decode()
        'hé'
    """
    how = output_encoding, errors, replacement_char
    if isinstance(input, SparseTensor):
        return _encode_rows(input.indices, input.values, input.dense_shape, *how, name=name)
    return _encode(convert_to_tensor(input, preferred_dtype=int32), *how, name=name)
