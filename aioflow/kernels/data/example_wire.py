"""Examples as bytes: features by name, each a list of strings, floats or integers, in protocol buffers' encoding.

    Example          1: Features            SequenceExample   1: Features (the context)   2: FeatureLists
    Features         1: {1: name, 2: Feature}, repeated       FeatureLists   1: {1: name, 2: FeatureList}, repeated
    Feature          1: BytesList | 2: FloatList | 3: Int64List                 FeatureList    1: Feature, repeated
    a list           1: value, repeated; numbers may be packed

The depth is fixed, so the parser does not recur; it skips unknown fields. Malformed messages raise ValueError.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from aioflow.files import message_wire as wire
from aioflow.files.message_wire import Part, content, fields, parts, read_varint
from aioflow.tensors.as_array import AnyArray

BYTES, FLOATS, INTS = 1, 2, 3
"""The kinds of a feature, by the number of its field."""
NAMES: Final = {BYTES: "strings", FLOATS: "floats", INTS: "integers"}
_MOST: Final = (1 << 64) - 1

Feature = tuple[int, Any]
"""A kind, and its values: a list of bytes, or an array of float32 or int64."""
Features = dict[bytes, Part]
"""The features by name; the last of a name counts."""


# Reading


def _entries(data: bytes, part: Part, into: Features) -> None:
    """The entries of a map from names to messages."""
    for entry in parts(data, part, 1):
        name, value = b"", (entry[1], entry[1])
        for number, kind, begin, end in fields(data, entry):
            if kind == wire.BYTES and number == 1:
                name = data[begin:end]
            elif kind == wire.BYTES and number == 2:
                value = begin, end
        into[name] = value


def features_of(data: bytes) -> Features:
    """Where the features of an Example are, or those of the context of a SequenceExample."""
    found: Features = {}
    for part in parts(data, (0, len(data)), 1):
        _entries(data, part, found)
    return found


def feature_lists_of(data: bytes) -> dict[bytes, list[Part]]:
    """Where the features of each list of a SequenceExample are."""
    found: Features = {}
    for part in parts(data, (0, len(data)), 2):
        _entries(data, part, found)
    return {name: list(parts(data, part, 1)) for name, part in found.items()}


def feature_of(data: bytes, part: Part) -> Feature | None:
    """One feature: its kind and its values. None if it has no kind."""
    which = 0
    lists: list[Part] = []
    for number, kind, begin, end in fields(data, part):
        if kind == wire.BYTES and number in NAMES:
            if number != which:  # of several kinds the last counts
                which, lists = number, []
            lists.append((begin, end))
    if which == BYTES:
        return BYTES, [data[begin:end] for each in lists for begin, end in parts(data, each, 1)]
    return (which, np.concatenate([_numbers(data, each, which) for each in lists])) if which else None


def _numbers(data: bytes, part: Part, which: int) -> AnyArray:
    """The numbers of a list, packed or not."""
    pieces: list[AnyArray] = [np.empty(0, np.float32 if which == FLOATS else np.int64)]
    single: list[Any] = []
    for number, kind, begin, end in fields(data, part):
        if number != 1:
            continue
        if kind == wire.BYTES:
            if single:
                pieces.append(np.array(single, pieces[0].dtype))
                single = []
            pieces.append(_floats(data, begin, end) if which == FLOATS else wire.integers(data, begin, end))
        elif which == FLOATS and kind == wire.FOUR:
            single.append(struct.unpack_from("<f", data, begin)[0])
        elif which == INTS and kind == wire.VARINT:
            single.append(wire.signed(read_varint(data, begin, end)[0]))
    return np.concatenate([*pieces, np.array(single, pieces[0].dtype)])


def _floats(data: bytes, begin: int, end: int) -> AnyArray:
    if (end - begin) % 4:
        raise ValueError(f"{end - begin} bytes at byte {begin} are not floats")
    return np.frombuffer(data, "<f4", (end - begin) // 4, begin).astype(np.float32)


# Writing


def make_feature(values: Any) -> bytes:
    """The bytes of one feature: strings, floats or integers, one or several; None for one without a kind.

    TypeError for anything else.
    """
    if values is None:
        return b""
    if isinstance(values, (bytes, str)):
        values = [values]
    if not isinstance(values, np.ndarray) and isinstance(values, Iterable):
        values = list(values)
        if values and all(isinstance(value, (bytes, str)) for value in values):
            return _strings(values)
    array = np.asarray(values).ravel()
    if array.dtype.kind in "OSU":
        return _strings(array.tolist())
    if array.dtype.kind in "biu":
        return content(INTS, content(1, b"".join([wire.varint(int(value) & _MOST) for value in array.tolist()])))
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        raise TypeError(f"a feature is made of strings, floats or integers, not of {array.dtype}")
    return content(FLOATS, content(1, array.astype("<f4").tobytes()))


def _strings(values: Iterable[Any]) -> bytes:
    made = []
    for value in values:
        if not isinstance(value, (bytes, str)):
            raise TypeError(f"a feature is made of strings, floats or integers, not of {value!r}")
        made.append(content(1, value.encode() if isinstance(value, str) else value))
    return content(BYTES, b"".join(made))


def _map(entries: Mapping[str, bytes]) -> bytes:
    return b"".join(
        content(1, content(1, name.encode()) + content(2, value)) for name, value in sorted(entries.items())
    )


def make_example(features: Mapping[str, Any]) -> bytes:
    """The bytes of an Example with these features: of each its strings, floats or integers, one or several.

    An example:

        record = af.io.make_example({"label": 7, "image": png, "weights": [0.5, 0.25]})

    Examples:
        >>> example = af.io.make_example({"age": [7]})
        >>> type(example).__name__
        'bytes'
    """
    return content(1, _map({name: make_feature(values) for name, values in features.items()}))


def make_sequence_example(
    context: Mapping[str, Any] | None = None, feature_lists: Mapping[str, Iterable[Any]] | None = None
) -> bytes:
    """The bytes of a SequenceExample: features of the whole, and by name lists of features, one for each step.

    Examples:
        >>> data = af.io.make_sequence_example({"label": [3]}, {"words": [[1], [2, 4]]})
        >>> type(data)
        <class 'bytes'>
    """
    lists = {
        name: b"".join([content(1, make_feature(values)) for values in steps])
        for name, steps in (feature_lists or {}).items()
    }
    whole = _map({name: make_feature(values) for name, values in (context or {}).items()})
    return content(1, whole) + content(2, _map(lists))
