"""The operations of a Saver as names, to store them with a graph, and the operations of these names in a graph."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation
from aioflow.train.saving import Feeds, Nodes, RestoreOps

_TENSORS = "saved", "names", "latest"
_OPERATIONS = "discard", "tidy"


class Options(NamedTuple):
    """The options of a Saver that are not in its operations, under the names of its parameters."""

    mode: Any
    state: bool
    sharded: bool
    max_to_keep: int | None
    keep_checkpoint_every_n_hours: float
    pad_step_number: bool

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "Options":
        """Return the options of a stored Saver. TypeError if they are damaged."""
        found = cls(**data["options"])
        kinds: tuple[Any, ...] = bool, bool, int, (int, float), bool
        if not all(isinstance(value, kind) for value, kind in zip(found[1:], kinds, strict=True)):
            raise TypeError(f"{str(data['options'])[:200]} are no options of a Saver")
        return found


def to_plain(
    options: Options, variables: Iterable[Operation], handles: Iterable[Operation], nodes: Nodes, scope: str
) -> dict[str, Any] | None:
    """Return a Saver as dicts and lists of names, without that scope. None if it lies outside of it."""
    if not nodes.saved.name.startswith(scope):
        return None
    return {
        "options": options._asdict(),
        "variables": [variable.name.removeprefix(scope) for variable in variables],
        "handles": sorted(handle.name.removeprefix(scope) for handle in handles),
        "nodes": _nodes_to_plain(nodes, lambda name: name.removeprefix(scope)),
    }


def _nodes_to_plain(nodes: Nodes, shown: Callable[[str], str]) -> dict[str, Any]:
    return {
        "feeds": {field: shown(tensor.name) for field, tensor in nodes.feeds._asdict().items()},
        "taken": None if nodes.taken is None else shown(nodes.taken.name),
        **{field: shown(getattr(nodes, field).name) for field in (*_TENSORS, *_OPERATIONS)},
        "every": _restore_to_plain(nodes.every, shown),
        "each": {shown(name): _restore_to_plain(each, shown) for name, each in nodes.each.items()},
    }


def _restore_to_plain(ops: RestoreOps, shown: Callable[[str], str]) -> dict[str, Any]:
    return {"names": list(ops.names), "read": shown(ops.read.name), "given": shown(ops.given.name)}


def nodes_from_plain(data: Mapping[str, Any], graph: Graph, prefix: str) -> Nodes:
    """Return the operations in that graph, whose names have that prefix. KeyError if one is missing."""

    def restore(part: Mapping[str, Any]) -> RestoreOps:
        read, given = (graph.get_tensor_by_name(prefix + part[key]) for key in ("read", "given"))
        return RestoreOps(texts(part["names"]), read, given)

    tensors = {field: graph.get_tensor_by_name(prefix + data[field]) for field in _TENSORS}
    operations = {field: graph.get_operation_by_name(prefix + data[field]) for field in _OPERATIONS}
    return Nodes(
        feeds=Feeds(**{field: graph.get_tensor_by_name(prefix + name) for field, name in data["feeds"].items()}),
        taken=None if data["taken"] is None else graph.get_tensor_by_name(prefix + data["taken"]),
        every=restore(data["every"]),
        each={prefix + name: restore(part) for name, part in data["each"].items()},
        **tensors,  # type: ignore[arg-type]
        **operations,  # type: ignore[arg-type]
    )


def texts(values: Any) -> Sequence[str]:
    """Return a list of names. TypeError if it is none."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{str(values)[:100]} is no list of names")
    return values
