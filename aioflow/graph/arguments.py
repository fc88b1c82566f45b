"""The data that users pass to an op, as tensors of one graph."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aioflow.graph.building import get_default_graph, graph_to_build_in, with_text
from aioflow.graph.composed import composed_in
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.graph.params import Like, Param, Prefer
from aioflow.tensors.dtypes import DType
from aioflow.tensors.recursion import DEEPEST


def converted(op: str, params: Sequence[Param], graph: Graph, values: Sequence[Any]) -> list[Any]:
    """Return the arguments of an op, with tensors of that graph in place of data."""
    hints: dict[str, DType] = {}
    for param, value in zip(params, values, strict=True):
        if isinstance(param.marker, Like) and param.marker.group not in hints:
            found = _dtype_of(value)
            if found is not None:
                hints[param.marker.group] = found
    made = []
    with graph.as_default():
        for param, value in zip(params, values, strict=True):
            made.append(_convert(op, param, value, hints))
            if isinstance(param.marker, Like) and (found := _dtype_of(made[-1])) is not None:
                hints.setdefault(param.marker.group, found)  # if all are literals, the first one determines the dtype
    return made


def _convert(op: str, param: Param, value: Any, hints: Mapping[str, DType]) -> Any:
    if param.role == "attr":
        return value
    hint = hints.get(param.marker.group) if isinstance(param.marker, Like) else None
    prefer = param.marker.dtype if isinstance(param.marker, Prefer) else None
    try:
        if param.role == "list":
            return [convert_to_tensor(item, hint, preferred_dtype=prefer) for item in _sequence(value)]
        return convert_to_tensor(value, hint, preferred_dtype=prefer)
    except (TypeError, ValueError) as error:
        raise with_text(error, f"{op}: argument {param.name!r}: {error}") from error


def _sequence(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        return value
    raise TypeError(f"a list or tuple of tensors is needed, not {type(value).__name__}")


def graph_of(values: Sequence[Any]) -> Graph:
    """Return the graph that an op with these arguments is built in: that of the first tensor, else the default one."""
    for value in values:
        if type(value) is Tensor:
            return graph_to_build_in(value.op.graph, value)
        if type(value) is list or type(value) is tuple:
            for item in value:
                if type(item) is Tensor:
                    return graph_to_build_in(item.op.graph, item)
    found = next(
        (v.graph for v in (*values, composed_in(values)) if isinstance(getattr(v, "graph", None), Graph)), None
    )
    return get_default_graph() if found is None else graph_to_build_in(found)


def _dtype_of(value: Any, depth: int = 0) -> DType | None:
    """Return the dtype of the first tensor in nested lists; None if they hold no tensor, or are nested too deep."""
    if isinstance(value, (list, tuple)):
        items = value if depth < DEEPEST else ()
        return next((found for item in items if (found := _dtype_of(item, depth + 1)) is not None), None)
    return value.dtype if isinstance(getattr(value, "dtype", None), DType) else None
