"""The header of a safetensors file: its length in 8 bytes, and JSON with the place of each tensor.

    u64 length, little-endian | {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} | bytes

Offsets count from the end of the header; tensors follow one another without gaps and end with the file.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.checkpoint.encoding import BY_CODE, Shape
from aioflow.checkpoint.records import LARGEST, MOST_AXES, Entry, ShardRecord, field, header_entries
from aioflow.checkpoint.storage import Source

LONGEST: Final = 100_000_000
"""The longest header that readers of safetensors accept."""
_LENGTH: Final = struct.Struct("<Q")
_ALIGNED: Final = 64


def header(entries: Sequence[Entry]) -> bytes:
    """Return the header of a file that holds these tensors in this order. It ignores the offsets of the entries."""
    fields = {}
    begin = 0
    for key, (code, shape, size) in header_entries(entries).items():
        fields[key] = {"dtype": code, "shape": [*shape], "data_offsets": [begin, begin + size]}
        begin += size
    text = json.dumps(fields, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNED)
    if len(text) > LONGEST:
        raise errors.InvalidArgumentError(f"{len(entries)} tensors are too many for a shard: use more shards")
    return _LENGTH.pack(len(text)) + text


def _read_header(file: str, source: Source) -> bytes:
    """Return the header of the file, with its length. DataLossError if it is missing or too long."""
    start = bytearray(min(_LENGTH.size, source.size))
    source.read_into(0, memoryview(start))
    length = _LENGTH.unpack(start)[0] if len(start) == _LENGTH.size else LARGEST
    if length > min(LONGEST, source.size - _LENGTH.size):
        raise errors.DataLossError(
            f"{file!r} is not a safetensors file: {source.size} bytes have no header of {length}"
        )
    whole = bytearray(_LENGTH.size + length)
    source.read_into(0, memoryview(whole))
    return bytes(whole)


def read_record(file: str, source: Source, number: int = 0, count: int = 1) -> ShardRecord:
    """Return the record of a safetensors file from its header, without checksums. DataLossError if it is damaged."""
    raw = _read_header(file, source)
    fields = parse_json(file, raw[_LENGTH.size :])
    entries = [_entry(file, key, value, len(raw)) for key, value in fields.items() if key != "__metadata__"]
    entries.sort(key=lambda entry: (entry.offset, entry.size))
    record = ShardRecord(number, count, file, source.size, tuple(entries))
    record.check()
    if record.begin != len(raw):
        raise errors.DataLossError(f"{file!r} has bytes between its header and its tensors")
    return record


def matches_record(record: ShardRecord, source: Source) -> bool:
    """Whether a file has the size in its record, and exactly the header that describes its tensors."""
    if source.size != record.size:
        return False
    found = bytearray(record.begin)
    source.read_into(0, memoryview(found))
    return found == header(record.entries)


def _entry(file: str, key: str, value: Any, begin: int) -> Entry:
    code, shape, offsets = (field(value, name, kind) for name, kind in _FIELDS.items())
    dtype = BY_CODE.get(code)
    if dtype is None:
        raise errors.UnimplementedError(f"{key!r} in {file!r} has dtype {code!r}; known are {', '.join(BY_CODE)}")
    numbers = [*shape, *offsets]
    if len(offsets) != 2 or len(shape) > MOST_AXES or not all(type(n) is int and 0 <= n <= LARGEST for n in numbers):
        raise errors.DataLossError(f"{key!r} in {file!r} cannot have the shape {shape} at {offsets}")
    sizes: Shape = tuple(shape)
    entry = Entry(key, key, dtype, sizes, (0,) * len(sizes), sizes, begin + offsets[0], offsets[1] - offsets[0], ())
    entry.check()
    return entry


_FIELDS: Final[Mapping[str, Any]] = {"dtype": str, "shape": list, "data_offsets": list}


def parse_json(file: str, text: bytes) -> dict[str, Any]:
    """Return the JSON object in the text. DataLossError if there is none, or if it names a field twice."""
    try:
        found = json.loads(text.decode(), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise errors.DataLossError(f"{file!r} is damaged: {error}") from None
    if not isinstance(found, dict):
        raise errors.DataLossError(f"{file!r} holds no JSON object")
    return found


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice")
    return found


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
