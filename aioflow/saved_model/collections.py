"""The items of a graph's collections as plain data, and back: variables, tensors, queue runners, numbers and texts.

An item is a dict of one entry, whose key is its kind: {"variable": {...}}, {"tensor": "loss:0"}, {"operation": "train"}
or {"value": [1, "text"]}. Items of other kinds exist in their process alone. Data from a file may come from elsewhere:
damage raises KeyError, TypeError or ValueError.
"""

import base64
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.library.ragged.partitions import RowPartition
from aioflow.library.ragged.tensor import RaggedTensor, tensors_of, with_partitions
from aioflow.library.variables import Variable
from aioflow.train.queue_runner import QueueRunner
from aioflow.train.saver import Saver

_log: Final = logging.getLogger("aioflow.saved_model")
_DEEPEST: Final = 20


def collections_to_plain(graph: Graph, names: Iterable[str] | None, scope: str) -> dict[str, list[dict[str, Any]]]:
    """Return the items of these collections, by default of all, that lie in a scope, with names without it.

    The log names the items that exist in this process alone. Collections whose names begin with "_" are the library's
    own, of objects of this process.
    """
    found = {}
    every = [name for name in graph.get_all_collection_keys() if not name.startswith("_")]
    for name in every if names is None else names:
        items = [(item, _item_to_plain(item, scope)) for item in graph.get_collection(name)]
        for item, plain in items:
            if plain is None and not _has_a_name_outside(item, scope):
                _log.warning("collection %r: %r exists in this process alone, and is not stored", name, item)
        found[name] = [plain for _, plain in items if plain is not None]
    return {name: items for name, items in found.items() if items}


def _has_a_name_outside(item: Any, scope: str) -> bool:
    return bool(scope) and isinstance(getattr(item, "name", None), str) and not item.name.startswith(scope)


def _item_to_plain(item: Any, scope: str) -> dict[str, Any] | None:
    """Return an item as plain data; None if it lies outside of the scope, or cannot be stored."""
    for key, kind in _KINDS.items():
        if isinstance(item, kind):
            plain = item.to_proto(scope)
            if isinstance(item, Variable) and item.constraint is not None:
                _log.warning("the constraint of variable %r is a function, and is not stored", item.name)
            return None if plain is None else {key: plain}
    if isinstance(item, (Tensor, Operation)):
        key = "tensor" if isinstance(item, Tensor) else "operation"
        return {key: item.name.removeprefix(scope)} if item.name.startswith(scope) else None
    if isinstance(item, (SparseTensor, RaggedTensor, IndexedSlices)):
        return _parts_to_plain(item, scope)
    if isinstance(item, bytes):
        return {"bytes": base64.b64encode(item).decode()}
    return {"value": item} if _is_plain(item) else None


def _parts_to_plain(item: SparseTensor | RaggedTensor | IndexedSlices, scope: str) -> dict[str, Any] | None:
    parts: list[Tensor | None]
    if isinstance(item, RaggedTensor):
        key, parts = "ragged", [*tensors_of(item)]
    else:
        key, fields = ("sparse", _SPARSE) if isinstance(item, SparseTensor) else ("slices", _SLICES)
        parts = [getattr(item, field) for field in fields]
    if not all(part is None or part.name.startswith(scope) for part in parts):
        return None
    return {key: [part if part is None else part.name.removeprefix(scope) for part in parts]}


_KINDS: Final[Mapping[str, type[Any]]] = {"variable": Variable, "queue_runner": QueueRunner, "saver": Saver}
_SPARSE: Final = "indices", "values", "dense_shape"
_SLICES: Final = "values", "indices", "dense_shape"


def _is_plain(value: Any, depth: int = 0) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if type(value) in (list, dict) and depth < _DEEPEST:
        items = value if type(value) is list else [*value.values()] if set(map(type, value)) <= {str} else [...]
        return all(_is_plain(item, depth + 1) for item in items)
    return value is None or type(value) in (bool, int, str)


def restore_collections(graph: Graph, stored: Mapping[str, Any], scope: str) -> None:
    """Add the stored items to the collections of a graph that has their operations under a scope.

    An item of several collections, as a trainable variable, is one object in all of them. Savers come last, since they
    find their variables in a collection.
    """
    known: dict[str, Any] = {}
    for name, items in sorted(stored.items(), key=lambda pair: any("saver" in item for item in pair[1])):
        for item in items:
            ((kind, content),) = item.items()
            key = f"{kind}:{content}"
            if key not in known:
                known[key] = _REVIVE[kind](graph, content, scope)
            graph.add_to_collection(name, known[key])


def _sparse(graph: Graph, names: Any, scope: str) -> SparseTensor:
    return SparseTensor(*_tensors(graph, names, scope))


def _ragged(graph: Graph, names: Any, scope: str) -> RaggedTensor:
    values, *splits = _tensors(graph, names, scope)
    return with_partitions(values, [RowPartition(each) for each in splits])  # type: ignore[no-any-return]


def _slices(graph: Graph, names: Any, scope: str) -> IndexedSlices:
    return IndexedSlices(*_tensors(graph, names, scope))


def _tensors(graph: Graph, names: Any, scope: str) -> list[Any]:
    return [name if name is None else graph.get_tensor_by_name(scope + name) for name in names]


def _value(graph: Graph, content: Any, scope: str) -> Any:
    return content


_REVIVE: Final[Mapping[str, Callable[[Graph, Any, str], Any]]] = {
    "variable": lambda graph, content, scope: Variable.from_proto(content, scope),
    "queue_runner": lambda graph, content, scope: QueueRunner.from_proto(content, scope),
    "saver": lambda graph, content, scope: Saver.from_proto(content, scope),
    "tensor": lambda graph, content, scope: graph.get_tensor_by_name(scope + content),
    "operation": lambda graph, content, scope: graph.get_operation_by_name(scope + content),
    "sparse": _sparse,
    "ragged": _ragged,
    "slices": _slices,
    "bytes": lambda graph, content, scope: base64.b64decode(content, validate=True),
    "value": _value,
}
