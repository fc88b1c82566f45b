"""The values of fields as the bytes of protocol buffers, and back."""

import struct
from typing import Any, Final

import numpy as np

from aioflow.files import message_wire as wire
from aioflow.kernels.data.message_fields import FLOATS, TEXTS, Field, scalar
from aioflow.tensors.recursion import safe_repr

_TAGS: Final = {"float": wire.FOUR, "double": wire.EIGHT}
_FORMS: Final = {"float": "<f", "double": "<d"}
_SIGNED: Final = {"int32": 32, "enum": 32}
_MOST: Final = (1 << 64) - 1


def encode(field: Field, value: Any) -> bytes:
    """Return a field with its value, as it is written. TypeError or ValueError for a value that it cannot have."""
    if field.key:
        key, item = field.entry
        return b"".join([wire.content(field.number, _one(key, k) + _one(item, v)) for k, v in sorted(value.items())])
    if not field.repeated:
        return _one(field, value)
    if field.kind in TEXTS or not isinstance(field.kind, str):
        return b"".join([_one(field, item) for item in value])
    if field.kind in FLOATS:
        return wire.content(field.number, np.asarray(value, FLOATS[field.kind]).tobytes())
    return wire.content(field.number, b"".join([_varint(field.kind, item) for item in value]))


def _one(field: Field, value: Any) -> bytes:
    """One value, with the number of its field."""
    kind = field.kind
    if not isinstance(kind, str):
        if not isinstance(value, kind):
            raise TypeError(f"{safe_repr(value)} is no {kind.__name__}")
        return wire.content(field.number, value.SerializeToString())
    if kind in TEXTS:
        text = scalar(kind, value)
        return wire.content(field.number, text.encode() if kind == "string" else text)
    if kind in FLOATS:
        return wire.varint(field.number << 3 | _TAGS[kind]) + struct.pack(_FORMS[kind], scalar(kind, value))
    return wire.varint(field.number << 3 | wire.VARINT) + _varint(kind, value)


def _varint(kind: str, value: Any) -> bytes:
    return wire.varint(int(scalar(kind, value)) & _MOST)


def expect(kind: int, wanted: int) -> None:
    """ValueError unless a field has the wanted kind on the wire."""
    if kind != wanted:
        raise ValueError(f"a field has kind {kind} on the wire, and should have {wanted}")


def read_one(kind: str, data: bytes, found: int, part: wire.Part) -> Any:
    """Return the value between two offsets that has kind `found` on the wire. ValueError if that is another one."""
    begin, end = part
    if kind in TEXTS:
        expect(found, wire.BYTES)
        return data[begin:end].decode() if kind == "string" else data[begin:end]
    if kind in FLOATS:
        expect(found, _TAGS[kind])
        return struct.unpack_from(_FORMS[kind], data, begin)[0]
    expect(found, wire.VARINT)
    return _integer(kind, wire.read_varint(data, begin, end)[0])


def _integer(kind: str, value: int) -> int | bool:
    """The number that a varint stands for. More bits than the kind has are cut off."""
    if kind == "bool":
        return bool(value)
    if kind.startswith("u"):
        return value & ((1 << int(kind[4:])) - 1)
    bits = _SIGNED.get(kind, 64)
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def read_packed(kind: str, data: bytes, part: wire.Part) -> list[Any]:
    """Return the numbers between two offsets. ValueError if they are cut off."""
    begin, end = part
    if kind not in FLOATS:
        return [_integer(kind, value & _MOST) for value in wire.integers(data, begin, end).tolist()]
    form = np.dtype(FLOATS[kind])
    if (end - begin) % form.itemsize:
        raise ValueError(f"{end - begin} bytes at byte {begin} are no numbers of {form.itemsize} bytes")
    found: list[Any] = np.frombuffer(data, form, (end - begin) // form.itemsize, begin).tolist()
    return found
