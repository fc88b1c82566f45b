"""Hashes of strings to bucket numbers, and base 64.

A bucket is the first eight bytes of a BLAKE2b digest, little-endian, modulo the number of buckets. It is the same on
every machine and in every version, and differs from TensorFlow's, which hashes by FarmHash and SipHash. The three ops
add different inputs to the digest: a name, or a key.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, op
from aioflow.graph.operation import Tensor
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.kernels.text.strings import each, textual
from aioflow.tensors.dtypes import STRING, Array, Namespace, Spec, int64

Bucket = Callable[[bytes], int]


def _bucket(num_buckets: int, *, person: bytes = b"", key: bytes = b"") -> Bucket:
    def bucket(text: bytes) -> int:
        digest = hashlib.blake2b(text, digest_size=8, person=person, key=key).digest()
        return int.from_bytes(digest, "little") % num_buckets

    return bucket


def _bucketed(input: Spec, num_buckets: int) -> Spec:
    if not 0 < num_buckets <= int64.max:
        raise ValueError(f"at least one bucket is needed, and at most {int64.max}, not {num_buckets}")
    return input.only(STRING).with_dtype(int64)


@op
def string_to_hash_bucket_fast(input: Spec, num_buckets: int) -> Spec:
    """The bucket, from 0 to `num_buckets - 1`, of each string: always the same for the same string.

    Examples:
        >>> await session.run(af.string_to_hash_bucket_fast(["tea", "coffee"], 10))
        array([8, 5])
    """
    return _bucketed(input, num_buckets)


@op
def string_to_hash_bucket(string_tensor: Spec, num_buckets: int) -> Spec:
    """The bucket of each string, independent of the one that `string_to_hash_bucket_fast` gives.

    Examples:
        >>> await session.run(af.string_to_hash_bucket(["tea"], 10))
        array([5])
    """
    return _bucketed(string_tensor, num_buckets)


@op
def string_to_hash_bucket_strong(input: Spec, num_buckets: int, key: Sequence[int]) -> Spec:
    """The bucket of each string under a secret key of two integers; without it no attacker can choose a bucket.

    Examples:
        >>> await session.run(af.string_to_hash_bucket_strong(["tea"], 10, key=[1, 2]))
        array([3])
    """
    _key(key)
    return _bucketed(input, num_buckets)


def _key(key: Sequence[int]) -> bytes:
    if len(key) != 2 or not all(0 <= part < 1 << 64 for part in key):
        raise ValueError(f"a key is two integers of 64 bits, not {list(key)}")
    return b"".join([part.to_bytes(8, "little") for part in key])


@string_to_hash_bucket_fast.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    return each(_bucket(node.attrs["num_buckets"], person=b"fast"), int64)


@string_to_hash_bucket.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    return each(_bucket(node.attrs["num_buckets"], person=b"plain"), int64)


@string_to_hash_bucket_strong.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    return each(_bucket(node.attrs["num_buckets"], key=_key(node.attrs["key"])), int64)


for _op in (string_to_hash_bucket_fast, string_to_hash_bucket, string_to_hash_bucket_strong):
    _op.no_gradient("a bucket does not vary smoothly")
    costs(_op, 2 * TEXT)


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
