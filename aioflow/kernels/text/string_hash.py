"""Hashes of strings to bucket numbers, fingerprints, and base 64.

Buckets and fingerprints are TensorFlow's: `string_to_hash_bucket_fast` and `fingerprint` by FarmHash's Fingerprint64,
`string_to_hash_bucket_strong` by SipHash, `string_to_hash_bucket` by MurmurHash64A. They are the same on every machine.
"""

import base64
import binascii
import functools
from collections.abc import Callable, Sequence

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, op
from aioflow.graph.operation import Tensor
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.kernels.text.farmhash import fingerprint64
from aioflow.kernels.text.hash_words import Hash, as_bytes, hash_array
from aioflow.kernels.text.murmurhash import murmurhash64
from aioflow.kernels.text.siphash import siphash
from aioflow.kernels.text.strings import each, textual
from aioflow.tensors.dtypes import (
    BOOL,
    COMPLEX,
    FLOAT,
    INTEGER,
    STRING,
    Array,
    Namespace,
    Spec,
    TensorShape,
    int64,
    uint8,
)
from aioflow.tensors.object_arrays import make_array, slices


def _bucketed(input: Spec, num_buckets: int) -> Spec:
    if not 0 < num_buckets <= int64.max:
        raise ValueError(f"at least one bucket is needed, and at most {int64.max}, not {num_buckets}")
    return input.only(STRING).with_dtype(int64)


def _buckets(function: Hash, node: NodeView) -> Callable[[Array], Array]:
    count = np.uint64(node.attrs["num_buckets"])

    def buckets(texts: Array) -> Array:
        return np.asarray(hash_array(function, texts) % count).astype(np.int64)

    return buckets


@op
def string_to_hash_bucket_fast(input: Spec, num_buckets: int) -> Spec:
    """The bucket, from 0 to `num_buckets - 1`, of each string: always the same for the same string.

    Examples:
        >>> await session.run(af.string_to_hash_bucket_fast(["tea", "coffee"], 10))
        array([1, 6])
    """
    return _bucketed(input, num_buckets)


@op
def string_to_hash_bucket(string_tensor: Spec, num_buckets: int) -> Spec:
    """The bucket of each string, independent of the one that `string_to_hash_bucket_fast` gives.

    Examples:
        >>> await session.run(af.string_to_hash_bucket(["tea"], 10))
        array([7])
    """
    return _bucketed(string_tensor, num_buckets)


@op
def string_to_hash_bucket_strong(input: Spec, num_buckets: int, key: Sequence[int]) -> Spec:
    """The bucket of each string under a secret key of two integers; without it no attacker can choose a bucket.

    Examples:
        >>> await session.run(af.string_to_hash_bucket_strong(["tea"], 10, key=[1, 2]))
        array([1])
    """
    if len(key) != 2 or not all(0 <= part < 1 << 64 for part in key):
        raise ValueError(f"a key is two integers of 64 bits, not {list(key)}")
    return _bucketed(input, num_buckets)


@string_to_hash_bucket_fast.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    return _buckets(fingerprint64, node)


@string_to_hash_bucket.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    return _buckets(murmurhash64, node)


@string_to_hash_bucket_strong.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    return _buckets(functools.partial(siphash, node.attrs["key"]), node)


@op
def fingerprint(data: Spec, method: str = "farmhash64") -> Spec:
    """Eight bytes for each part of `data` along its first axis, equal for equal parts: their FarmHash Fingerprint64.

    A part of several strings has the fingerprint of the fingerprints of its strings.

    Examples:
        >>> await session.run(af.fingerprint(["a", "b"]))
        array([[227, 117, 223, 182, 101,  66,  69, 179],
               [ 22, 241, 200,  94,  33,  96, 178, 163]], dtype=uint8)
    """
    data.only(BOOL, INTEGER, FLOAT, COMPLEX, STRING)
    if method != "farmhash64":
        raise ValueError(f"method is 'farmhash64', not {method!r}")
    if data.rank == 0:
        raise ValueError("a scalar has no first axis along which its parts lie")
    return Spec(uint8, TensorShape((None if data.sizes is None else data.sizes[0], 8)))


@fingerprint.kernel(CPU, fresh=True)
def _(xp: Namespace, data: Array, *, method: str) -> Array:
    if data.dtype == object:
        hashes = hash_array(fingerprint64, data)
        if data[:1].size == 1:
            return as_bytes(hashes.reshape(len(data)))
        data = hashes
    return as_bytes(hash_array(fingerprint64, _parts(data)))


def _parts(data: Array) -> Array:
    """The bytes of each part along the first axis, in little-endian order."""
    little = data.astype(data.dtype.newbyteorder("<"), copy=False)
    parts: list[bytes] = []
    for chunk in slices(len(data)):
        parts += [part.tobytes() for part in little[chunk]]
    return make_array(parts)


for _op in (string_to_hash_bucket_fast, string_to_hash_bucket, string_to_hash_bucket_strong):
    _op.no_gradient("a bucket does not vary smoothly")
    costs(_op, 2 * TEXT)
fingerprint.no_gradient("a fingerprint does not vary smoothly")
costs(fingerprint, 2 * TEXT)


# Base 64


def _decoded(text: bytes) -> bytes:
    bare = text.rstrip(b"=")
    try:
        if b"+" in bare or b"/" in bare or len(text) - len(bare) > 2:
            raise binascii.Error("a character of another alphabet")
        return base64.b64decode(bare + b"=" * (-len(bare) % 4), b"-_", validate=True)
    except binascii.Error:
        raise ValueError(f"{text!r} is not text in web-safe base 64") from None


@op
def encode_base64(input: Spec, pad: bool = False) -> Spec:
    """Each string in web-safe base 64: letters, digits, - and _; with `pad`, = up to a multiple of four.

    Examples:
        >>> await session.run(af.encode_base64("tea"))
        b'dGVh'
    """
    return input.only(STRING)


encode_base64.no_gradient("text does not vary smoothly")
costs(encode_base64, TEXT)


@encode_base64.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    if node.attrs["pad"]:
        return each(base64.urlsafe_b64encode)
    return each(lambda text: base64.urlsafe_b64encode(text).rstrip(b"="))


decode_base64: Op[Tensor] = textual(
    "decode_base64",
    """Decodes each string from web-safe base 64, with or without padding. InvalidArgumentError if one is malformed.

    Examples:
        >>> await session.run(af.decode_base64("dGVh"))
        b'tea'
    """,
    _decoded,
)
