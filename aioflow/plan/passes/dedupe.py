"""Common subexpressions: of nodes that surely compute the same, one is kept [P15 section 5.1]."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from aioflow.plan.passes.flow import Flow, Node, Replacement, Value, rewrite

_LARGEST_COMPARED = 4096
"""Bytes: constants above this are the same only if they are one object."""


def dedupe(flow: Flow) -> Flow:
    """The Flow with one node for each set of equal ones. Never touches state."""
    first: dict[Hashable, Node] = {}

    def visit(node: Node) -> Replacement:
        if not node.pure:
            return node
        kept = first.setdefault(_key(node), node)
        return node if kept is node else tuple([Value(kept, index) for index in range(len(kept.output_specs))])

    return rewrite(flow, visit)


def _key(node: Node) -> Hashable:
    inputs: Any = [(id(source), index) for source, index in node.inputs]
    if node.definition.commutative:
        inputs.sort()
    controls = frozenset(id(control) for control in node.controls)
    attrs = tuple([(name, _frozen(value)) for name, value in sorted(node.attrs.items())])
    operation = node.operation
    return node.definition.name, tuple(inputs), controls, attrs, operation.device, operation.colocation


def _frozen(value: Any) -> Hashable:
    """Return a key that is equal only for identical attributes: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, np.ndarray):
        if value.nbytes > _LARGEST_COMPARED or value.dtype == object:
            return "array", id(value)
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, tuple):
        return tuple([_frozen(item) for item in value])
    if isinstance(value, (float, complex)):
        return type(value), repr(value)
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value
