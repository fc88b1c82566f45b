"""Constant folding: a node that depends only on constants is computed once, when the call is planned."""

from typing import Any

import numpy as np

from aioflow.plan import op_cost
from aioflow.plan.allocation import needed
from aioflow.plan.passes.flow import Flow, Node, Replacement, Value, rewrite
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DeviceKind, spec_of

LARGEST_RESULT = 10 * 2**20
"""Bytes: larger results are computed in every run."""
LONGEST = 0.01
"""Seconds. A node with a longer estimate is computed in every run, since planning must not block the loop."""

_LARGEST_FILLED = 2**16
"""Bytes: more zeros or ones are made when they are needed."""
_SHAPE_ALONE = {"zeros_like": 0, "ones_like": 1}
"""Ops that use only the shape of their input, with the number that they fill it with."""


def fold(flow: Flow) -> Flow:
    """The Flow with constants in place of all that can be known."""

    def visit(node: Node) -> Replacement:
        if not node.pure or node.definition.name == "constant":
            return node
        values = _known(node)
        if values is None:
            values = _computed(node)
        if values is None:
            return node
        controls = tuple(dict.fromkeys([*node.controls, *[c for v in node.inputs for c in v.node.controls]]))
        return tuple([Value(node.as_constant(i, value, controls), 0) for i, value in enumerate(values)])

    return rewrite(flow, visit)


def _known(node: Node) -> list[Any] | None:
    """Return the value that the shape rule knows, for example of the shape of a tensor with known sizes."""
    if node.definition.name in _SHAPE_ALONE:
        return _filled(node)
    known = [spec.known for spec in node.output_specs]
    if not known or any(value is None or (isinstance(value, tuple) and None in value) for value in known):
        return None
    try:
        return [np.asarray(value, spec.dtype.np) for value, spec in zip(known, node.output_specs, strict=True)]
    except OverflowError:  # the run computes it, and raises an error where the kernel does
        return None


def _filled(node: Node) -> list[Any] | None:
    spec = node.output_specs[0]
    if not spec.shape.is_fully_defined() or (spec.bytes or 0) > _LARGEST_FILLED or spec.dtype is dtypes.string:
        return None
    return [_as_constant(np.full(spec.shape.as_list(), _SHAPE_ALONE[node.definition.name], spec.dtype.np))]


def _computed(node: Node) -> list[Any] | None:
    constants = [node.constant(index) for index in range(len(node.inputs))]
    lists = any(spec.dtype is dtypes.resource for spec in node.output_specs)
    if lists or not node.output_specs or any(value is None for value in constants) or not _worth(node):
        return None
    kernel = node.definition.kernel_for(DeviceKind.CPU, node.input_specs)
    if kernel is None or kernel.context or kernel.asynchronous:
        return None
    try:
        if needed(node.definition, node.attrs, constants) > LARGEST_RESULT:
            return None
        with np.errstate(all="ignore"):
            result = kernel.bind(node.definition, node, np)(*constants)
    except Exception:  # the run raises it, with the place in the graph
        return None
    results = [result] if len(node.output_specs) == 1 else list(result)
    if sum(np.asarray(value).nbytes for value in results) > LARGEST_RESULT:
        return None
    return [_as_constant(value) for value in results]


def _worth(node: Node) -> bool:
    sizes = [spec.bytes for spec in node.output_specs]
    return all((size or 0) <= LARGEST_RESULT for size in sizes) and op_cost.seconds(node, node.input_specs) < LONGEST


def _as_constant(value: Any) -> Any:
    array = np.array(value, copy=True, order="C", dtype=object if spec_of(value).dtype is dtypes.string else None)
    array.flags.writeable = False
    return array
