"""`Graph.create_op`: an operation from the name of its op, for programs that have the name as data."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import METHODS, Graph
from aioflow.graph.import_graph_def import attributes, check_arity
from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Operation
from aioflow.tensors.dtypes import DTypeLike, as_dtype
from aioflow.tensors.recursion import safe_repr


def create_op(
    graph: Graph,
    op_type: str,
    inputs: Sequence[Any],
    dtypes: Sequence[DTypeLike] | None = None,
    input_types: Sequence[DTypeLike] | None = None,
    name: str | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Operation:
    """See `Graph.create_op`."""
    REGISTRY.complete()
    definition = REGISTRY.get(op_type)
    if definition is None:
        close = difflib.get_close_matches(str(op_type).lower(), REGISTRY, 1)
        raise ValueError(f"there is no op {safe_repr(op_type)}" + (f"; did you mean {close[0]!r}?" if close else ""))
    with graph.transaction(), graph.as_default():
        tensors = tuple([graph.adopt(convert_to_tensor(value)) for value in inputs])
        try:
            _check_types("inputs", [tensor.dtype for tensor in tensors], input_types)
            check_arity(definition, len(tensors))
            values = attributes(definition, attrs or {})
            specs = definition.infer([tensor.spec for tensor in tensors], values)
            _check_types("outputs", [spec.dtype for spec in specs], dtypes)
        except (TypeError, ValueError) as error:
            given = ", ".join(str(tensor.spec) for tensor in tensors)
            raise type(error)(f"op {op_type!r}: {error}\n  inputs: {given}") from error
        return graph.add(definition, tensors, values, specs, name)


def _check_types(what: str, found: Sequence[Any], wanted: Sequence[DTypeLike] | None) -> None:
    if wanted is not None and [as_dtype(each) for each in wanted] != list(found):
        raise TypeError(f"its {what} are {', '.join(each.name for each in found)}, not {safe_repr(list(wanted))}")


METHODS["create_op"] = create_op
