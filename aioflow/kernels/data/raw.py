"""Numbers read from the bytes of strings."""

import numpy as np

from aioflow.graph.convert import TensorLike
from aioflow.graph.op import op
from aioflow.graph.operation import Tensor
from aioflow.kernels.families import CPU, costs
from aioflow.tensors.dtypes import STRING, Array, DType, DTypeLike, Namespace, Spec, TensorShape, as_dtype
from aioflow.tensors.object_arrays import join_strings, to_list


@op(name="decode_raw")
def _decode_raw(bytes: Spec, out_type: DType, little_endian: bool = True) -> Spec:
    """Reinterprets the bytes of each string as numbers, along a new last axis.

    InvalidArgumentError if the strings differ in length, or the length is not a multiple of a number's size.
    """
    if out_type.family in ("string", "resource"):
        raise TypeError(f"bytes are no {out_type.name}")
    return Spec(out_type, bytes.only(STRING).shape.concatenate(TensorShape.vector(None)))


_decode_raw.no_gradient("bytes do not vary smoothly")
costs(_decode_raw, 10.0)


@_decode_raw.kernel(CPU, fresh=True)
def _(xp: Namespace, texts: Array, *, out_type: DType, little_endian: bool) -> Array:
    flat = to_list(np.asarray(texts, object))
    lengths = {len(text) for text in flat}
    if len(lengths) > 1:
        raise ValueError(f"strings of {min(lengths)} and of {max(lengths)} bytes cannot be decoded together")
    length = lengths.pop() if lengths else 0
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
) -> Tensor:
    """Reinterprets the bytes of each string as numbers, along a new last axis.

    Args:
        input_bytes: strings of one length.
        out_type: the dtype of the numbers.
        little_endian: whether the lowest byte of a number comes first.
        name: the name of the operation.
        bytes: another name for `input_bytes`.
    """
    texts = bytes if input_bytes is None else input_bytes
    if texts is None or out_type is None:
        raise ValueError("decode_raw needs input_bytes and out_type")
    return _decode_raw(texts, as_dtype(out_type), little_endian, name=name)
