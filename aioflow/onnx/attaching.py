"""The data of large tensors, attached to a model behind the writer of protocol buffers, which would copy them.

The opposite of `detaching`. A message is its fields in any order, each a tag, a length and the content.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aioflow.onnx.detaching import varint
from aioflow.onnx.tensors import data_length, data_of, header_of
from aioflow.tensors.as_array import AnyArray

_GRAPH: Final = 7
"""The field of a model."""
_INITIALIZER: Final = 5
"""The field of a graph."""
_RAW_DATA: Final = 9
"""The field of a tensor."""


def attached(model: Any, graph: Any, large: Mapping[str, AnyArray]) -> Iterator[memoryview]:
    """The bytes of a model, in parts, whose graph has these further initial values. `model` has no graph."""
    small, heads = graph.SerializeToString(), [_head(name, array) for name, array in large.items()]
    size = len(small) + sum(map(len, heads)) + sum(map(data_length, large.values()))
    yield memoryview(model.SerializeToString() + _start(_GRAPH, size) + small)
    for head, array in zip(heads, large.values(), strict=True):
        yield memoryview(head)
        yield data_of(array)


def _head(name: str, array: AnyArray) -> bytes:
    """The bytes of the field for an initial value up to its data."""
    length = data_length(array)
    inner = bytes(header_of(name, array).SerializeToString()) + _start(_RAW_DATA, length)
    return _start(_INITIALIZER, len(inner) + length) + inner


def _start(field: int, length: int) -> bytes:
    """The bytes before the content of a field."""
    return varint(field << 3 | 2) + varint(length)
