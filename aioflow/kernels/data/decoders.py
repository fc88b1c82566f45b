"""Decodes comma-separated values, NumPy's files, compressed bytes and raw numbers.

No op allocates more than the bytes can hold.
"""

import io
import itertools
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.convert import TensorLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Tensor
from aioflow.graph.params import renamed
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    ANY,
    STRING,
    Array,
    DType,
    DTypeLike,
    Namespace,
    Spec,
    TensorShape,
    as_dtype,
    float32,
    float64,
    int32,
    int64,
)
from aioflow.tensors.object_arrays import join_strings, make_array, to_list

_TYPES: Final = (float32, float64, int32, int64, dtypes.string)
_QUOTE: Final = ord('"')
_ENDS: Final = b"\r\n"
Fields = list[bytes]


@op
def decode_csv(
    records: Spec,
    record_defaults: Sequence[Spec],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: tuple[int, ...] | None = None,
) -> tuple[Spec, ...]:
    """The fields of records of comma-separated values, column by column: each has the shape of `records`.

    Fields may be put in quotes, in which two quotes stand for one.

    Args:
        records: strings, each a line without its end.
        record_defaults: for each column a tensor of its dtype: the value of empty fields; one without elements if a
            field must not be empty.
        field_delim: the character between fields.
        use_quote_delim: whether quotes are anything but a character like others.
        name: the name of the operation.
        na_value: fields of that text count as empty.
        select_cols: the numbers of the columns that are wanted, rising; all by default.

    Raises:
        InvalidArgumentError: in the run: a record has more or fewer fields, or one is empty, or spells no number.

    Examples:
        >>> await session.run(af.decode_csv(["1,2.5", "3,"], [[0], [0.0]]))
        (array([1, 3], dtype=int32), array([2.5, 0. ], dtype=float32))
    """
    records.only(STRING)
    check_csv(record_defaults, field_delim, select_cols)
    return tuple([Spec(default.dtype, records.shape) for default in record_defaults])


def check_csv(record_defaults: Sequence[Spec], field_delim: str, select_cols: Sequence[int] | None) -> None:
    """Raise TypeError or ValueError unless comma-separated values can be decoded in that way."""
    if not record_defaults:
        raise ValueError("record_defaults has one tensor for each column, and is empty")
    for number, default in enumerate(record_defaults):
        _check_default(number, default)
    if len(field_delim.encode()) != 1 or field_delim in '"\r\n':
        raise ValueError(f"field_delim is one character, and no quote or end of a line, not {field_delim!r}")
    if select_cols is not None:
        _check_columns(select_cols, len(record_defaults))


def _check_default(number: int, default: Spec) -> None:
    if default.dtype not in _TYPES:
        names = ", ".join(dtype.name for dtype in _TYPES)
        raise TypeError(f"column {number} is {default.dtype.name}; columns are {names}")
    sizes = default.sizes or ()
    if len(sizes) > 1 or any((size or 0) > 1 for size in sizes):
        raise ValueError(f"the default of column {number} is at most one value, its shape is {default.shape}")


def _check_columns(columns: Sequence[int], count: int) -> None:
    if len(columns) != count:
        raise ValueError(f"select_cols names {len(columns)} columns, and record_defaults has {count}")
    if any(column < 0 for column in columns) or any(b <= a for a, b in itertools.pairwise(columns)):
        raise ValueError(f"select_cols are rising numbers from 0 on, not {list(columns)}")


decode_csv.no_gradient("text does not vary smoothly")


@decode_csv.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return 2 * TEXT * len(outputs) * (inputs[0].shape.num_elements() or 1)


@decode_csv.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Any]:
    attrs = node.attrs
    kinds = [spec.dtype for spec in node.output_specs]
    columns = csv_decoder(
        kinds, attrs["field_delim"], attrs["use_quote_delim"], attrs["na_value"], attrs["select_cols"]
    )

    def decode(records: Array, defaults: Sequence[Array]) -> Any:
        found = columns(to_list(np.asarray(records, object)), [np.asarray(each).ravel().tolist() for each in defaults])
        shaped = tuple([column.reshape(np.shape(records)) for column in found])
        return shaped[0] if len(shaped) == 1 else shaped

    return decode


def csv_decoder(
    kinds: Sequence[DType], field_delim: str, use_quote_delim: bool, na_value: str, select_cols: Sequence[int] | None
) -> Callable[..., list[Any]]:
    """Return a function of records and the defaults of columns, which returns the columns as vectors.

    A default is a list of one value, or of none if a field must not be empty. A third argument numbers the first
    record in errors.
    """
    delimiter = field_delim.encode()
    missing = {b"", na_value.encode()}

    def split(record: bytes) -> Fields:
        if (b'"' in record and use_quote_delim) or b"\n" in record or b"\r" in record:
            fields = _fields(record, delimiter[0], use_quote_delim)
        else:
            fields = record.split(delimiter) if record else []
        return fields if select_cols is None else [fields[column] for column in select_cols if column < len(fields)]

    def decode(records: list[bytes], defaults: Sequence[list[Any]], first: int = 0) -> list[Any]:
        rows = _rows(records, split, len(kinds), first)
        return [
            _column(number, [row[number] for row in rows], kind, default, missing, first)
            for number, (kind, default) in enumerate(zip(kinds, defaults, strict=True))
        ]

    return decode


def _rows(records: list[bytes], split: Callable[[bytes], Fields], count: int, first: int) -> list[Fields]:
    rows = []
    for number, record in enumerate(records, first):
        try:
            fields = split(record)
        except ValueError as error:
            raise errors.InvalidArgumentError(f"record {number}: {error}") from None
        if len(fields) != count:
            raise errors.InvalidArgumentError(f"record {number} has {len(fields)} fields, and {count} are expected")
        rows.append(fields)
    return rows


def _fields(record: bytes, delimiter: int, quotes: bool) -> Fields:
    """The fields of a record that has quotes, or ends of lines, in it."""
    fields: Fields = []
    at = 0
    while at < len(record):
        if record[at] in _ENDS:
            at += 1
        elif quotes and record[at] == _QUOTE:
            field, at = _quoted(record, at + 1, delimiter)
            fields.append(field)
        else:
            end = record.find(delimiter, at)
            end = len(record) if end < 0 else end
            field = record[at:end]
            if b"\n" in field or b"\r" in field or (quotes and b'"' in field):
                raise ValueError(f"{field!r} has quotes or ends of lines inside, and is not put in quotes")
            fields.append(field)
            at = end + 1
    if record and record[-1] == delimiter:
        fields.append(b"")
    return fields


def _quoted(record: bytes, begin: int, delimiter: int) -> tuple[bytes, int]:
    """The field whose contents begin there, and where the next one begins."""
    pieces, at = [], begin
    while (end := record.find(b'"', at)) >= 0:
        pieces.append(record[at:end])
        follows = record[end + 1 : end + 2]
        if not follows or follows[0] == delimiter:
            return b"".join(pieces), end + 2
        if follows != b'"':
            raise ValueError(f"a quote inside the field {record[begin - 1 :]!r} must be doubled")
        pieces.append(b'"')
        at = end + 2
    raise ValueError(f"the quotes of the field {record[begin - 1 :]!r} do not end before a delimiter")


def _column(
    number: int, fields: Sequence[bytes], kind: DType, default: list[Any], missing: set[bytes], first: int
) -> Any:
    """One column, with the default where a field is missing."""
    result = np.empty(len(fields), kind.np)
    convert = _CONVERTERS[kind.name]
    for row, field in enumerate(fields):
        if field in missing:
            if not default:
                raise errors.InvalidArgumentError(
                    f"field {number} of record {first + row} is empty, and has no default"
                )
            result[row] = default[0]
            continue
        try:
            result[row] = convert(field)
        except (ValueError, OverflowError):
            raise errors.InvalidArgumentError(
                f"field {number} of record {first + row} must be {kind.name}, not {field[:80]!r}"
            ) from None
    return result


def _float(field: bytes) -> float:
    if b"_" in field:
        raise ValueError
    return float(field)


def _integer(bits: int) -> Callable[[bytes], int]:
    def convert(field: bytes) -> int:
        value = int(field)
        if b"_" in field or not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ValueError
        return value

    return convert


_CONVERTERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "float32": _float,
    "float64": _float,
    "int32": _integer(32),
    "int64": _integer(64),
    "string": bytes,
}


_WINDOWS: Final = {"ZLIB": 15, "GZIP": 31}
_HARMLESS: Final = 1 << 26


@op
def decode_npy(contents: Spec, dtype: DType, shape: TensorShape = TensorShape(None)) -> Spec:  # noqa: B008
    """Decodes a string in the format of NumPy's `.npy` files to an array of that dtype.

    InvalidArgumentError if it holds objects, another dtype or shape, or more or fewer bytes than its header states.

    Examples:
        >>> import io
        >>> file = io.BytesIO()
        >>> np.save(file, np.array([1, 2]))
        >>> await session.run(af.decode_npy(file.getvalue(), af.int64))
        array([1, 2])
    """
    contents.only(STRING).with_rank(0, "contents")
    return Spec(dtype, TensorShape(shape)).only(ANY - STRING)


decode_npy.no_gradient("bytes do not vary smoothly")
costs(decode_npy, 1e5)


@decode_npy.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array, *, dtype: DType, shape: TensorShape) -> Array:
    data = _bytes(contents)
    sizes, fortran, kind, begin = _header(data)
    if kind.hasobject or kind.fields or kind.subdtype or not _is(kind, dtype):
        raise errors.InvalidArgumentError(f"the array is of dtype {kind}, but must be {dtype.name}")
    if not shape.is_compatible_with(sizes):
        raise errors.InvalidArgumentError(f"the array has shape {list(sizes)}, but shape {shape} was expected")
    count = math.prod(sizes)
    if count * kind.itemsize != len(data) - begin:
        raise errors.InvalidArgumentError(
            f"an array of shape {list(sizes)} and {kind.itemsize} bytes an element is not {len(data) - begin} bytes"
        )
    flat = np.frombuffer(data, kind, count, begin).astype(dtype.np)
    return np.ascontiguousarray(flat.reshape(sizes, order="F")) if fortran and sizes else flat.reshape(sizes)


def _is(kind: np.dtype[Any], dtype: DType) -> bool:
    try:
        return as_dtype(kind) is dtype
    except TypeError:
        return False


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether columns come first, dtype, and where the elements begin."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} of the format is not known")
        read: Callable[..., Any] = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        sizes, fortran, kind = read(file)
    except Exception as error:  # NumPy evaluates the header as a literal, which may fail in any way
        raise errors.InvalidArgumentError(f"the bytes are not a .npy file: {error}") from None
    if any(type(size) is not int or size < 0 for size in sizes) or len(sizes) > 32:
        raise errors.InvalidArgumentError(f"{sizes!r} is not a shape")
    return sizes, bool(fortran), kind, file.tell()


def _bytes(value: Array) -> bytes:
    text = value[()] if isinstance(value, np.ndarray) else value
    return bytes(text)


@op
def decode_compressed(bytes: Spec, compression_type: str = "", max_output_bytes: int = 1 << 30) -> Spec:
    """Each string decompressed, by ZLIB or GZIP; itself if the type is empty.

    InvalidArgumentError for bytes that are not so compressed, ResourceExhaustedError for a string that becomes longer
    than `max_output_bytes`, or, beyond 64 MiB, more than 250 times longer.

    Examples:
        >>> import gzip
        >>> await session.run(af.decode_compressed(gzip.compress(b"tea"), "GZIP"))
        b'tea'
    """
    if compression_type not in ("", *_WINDOWS):
        raise ValueError(f"compression_type is '', 'ZLIB' or 'GZIP', not {compression_type!r}")
    return bytes.only(STRING)


decode_compressed.no_gradient("bytes do not vary smoothly")


@decode_compressed.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return 1e6 * (inputs[0].shape.num_elements() or 1)


@decode_compressed.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    kind, most = node.attrs["compression_type"], node.attrs["max_output_bytes"]

    def decode(texts: Array) -> Array:
        given = np.asarray(texts, object)
        return make_array([text if not kind else _inflated(text, kind, most) for text in to_list(given)], given.shape)

    return decode


def _inflated(data: bytes, kind: str, most: int) -> bytes:
    limit = min(most, max(_HARMLESS, 250 * len(data)))
    pieces: list[bytes] = []
    size = 0
    while data:
        stream = zlib.decompressobj(_WINDOWS[kind])
        try:
            piece = stream.decompress(data, limit - size + 1)
        except zlib.error as error:
            raise errors.InvalidArgumentError(f"the bytes are not compressed by {kind}: {error}") from None
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise errors.ResourceExhaustedError(f"{len(data)} bytes become more than {limit} when decompressed")
        if not stream.eof:
            raise errors.InvalidArgumentError(f"the {kind} data of {len(data)} bytes is truncated")
        data = stream.unused_data
    return b"".join(pieces)


@op(name="decode_raw")
def _decode_raw(bytes: Spec, out_type: DType, little_endian: bool = True, fixed_length: int | None = None) -> Spec:
    """Reinterprets the bytes of each string as numbers, along a new last axis.

    With `fixed_length` each string is first cut to that many bytes, or filled up with zeros.

    InvalidArgumentError if the strings differ in length, or the length is not a multiple of a number's size.
    """
    if out_type.family in ("string", "resource"):
        raise TypeError(f"bytes are no {out_type.name}")
    if fixed_length is not None and (fixed_length <= 0 or fixed_length % out_type.size):
        raise ValueError(f"fixed_length {fixed_length} is not a whole number of elements of {out_type.size} bytes")
    count = None if fixed_length is None else fixed_length // out_type.size
    return Spec(out_type, bytes.only(STRING).shape.concatenate(TensorShape.vector(count)))


_decode_raw.no_gradient("bytes do not vary smoothly")
costs(_decode_raw, 10.0)


@_decode_raw.kernel(CPU, fresh=True)
def _(xp: Namespace, texts: Array, *, out_type: DType, little_endian: bool, fixed_length: int | None) -> Array:
    flat = to_list(np.asarray(texts, object))
    if fixed_length is not None:
        flat = [text[:fixed_length].ljust(fixed_length, b"\0") for text in flat]
    lengths = {len(text) for text in flat}
    if len(lengths) > 1:
        raise ValueError(f"strings of {min(lengths)} and of {max(lengths)} bytes cannot be decoded together")
    length = lengths.pop() if lengths else fixed_length or 0
    if length % out_type.size:
        raise ValueError(f"{length} bytes are not a whole number of elements of {out_type.size} bytes")
    part = out_type.real.size  # a complex number is two
    words = np.frombuffer(join_strings(b"", flat), f"{'<' if little_endian else '>'}u{part}").astype(f"u{part}")
    return words.view(out_type.np).reshape((*np.shape(texts), length // out_type.size))


def decode_raw(
    input_bytes: TensorLike | None = None,
    out_type: DTypeLike | None = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: TensorLike | None = None,
    fixed_length: int | None = None,
) -> Tensor:
    """Reinterprets the bytes of each string as numbers, along a new last axis.

    Args:
        input_bytes: strings, of one length without `fixed_length`.
        out_type: the dtype of the numbers.
        little_endian: whether the lowest byte of a number comes first.
        name: the name of the operation.
        bytes: another name for `input_bytes`.
        fixed_length: the number of bytes that each string is first cut to, or filled up to with zeros.

    Examples:
        >>> await session.run(af.decode_raw("ab", af.uint8))
        array([97, 98], dtype=uint8)
    """
    texts = renamed("input_bytes", input_bytes, bytes)
    if texts is None or out_type is None:
        raise ValueError("decode_raw needs input_bytes and out_type")
    return _decode_raw(texts, as_dtype(out_type), little_endian, fixed_length, name=name)
