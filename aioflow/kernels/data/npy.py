"""Arrays in the form of NumPy's files, and compressed bytes: nothing is allocated that the bytes cannot hold."""

import io
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels.families import CPU, costs
from aioflow.tensors.dtypes import ANY, STRING, Array, DType, Namespace, Spec, TensorShape, as_dtype
from aioflow.tensors.object_arrays import make_array, to_list

_WINDOWS: Final = {"ZLIB": 15, "GZIP": 31}
_HARMLESS: Final = 1 << 26


@op
def decode_npy(contents: Spec, dtype: DType, shape: TensorShape = TensorShape(None)) -> Spec:  # noqa: B008
    """Decodes a string in the format of NumPy's `.npy` files to an array of that dtype.

    InvalidArgumentError if it holds objects, another dtype or shape, or more or fewer bytes than its header states.
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
