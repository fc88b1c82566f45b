"""From a graph to the part of it that one call needs [P15 section 4.2]."""

from collections.abc import Iterable, Sequence

from aioflow.dtypes import ResourceSpec, Spec, TensorShape
from aioflow.node import Operation, Tensor
from aioflow.op import REGISTRY
from aioflow.passes.flow import Flow, Node, Value, sweep


def prune(feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Iterable[Operation]) -> Flow:
    """The Flow that computes `fetches` and runs `targets`, with `feeds` given from outside.

    A fed tensor's operation runs only if something else needs it; for a fed placeholder nothing does.
    """
    fed = {tensor: _feed(tensor, index) for index, tensor in enumerate(feeds)}
    targets = tuple(targets)
    needed = _needed(fed, [tensor.op for tensor in fetches if tensor not in fed], targets)
    nodes: dict[Operation, Node] = {}
    spec_of = _apart if any(tensor.op.type != "placeholder" for tensor in fed) else _as_built
    for operation in needed:
        inputs = tuple([_value(tensor, fed, nodes) for tensor in operation.inputs])
        controls = tuple([nodes[control] for control in operation.control_inputs if control in nodes])
        specs = [spec_of(tensor.spec) for tensor in operation.outputs]
        nodes[operation] = Node(
            operation, operation.definition, operation.name, inputs, controls, operation.attrs, specs
        )
    values = tuple([_value(tensor, fed, nodes) for tensor in fetches])
    return sweep(tuple(fed.values()), values, tuple([nodes[target] for target in targets if target in nodes]))


def _feed(tensor: Tensor, index: int) -> Node:
    attrs = {"dtype": tensor.dtype, "shape": tensor.shape, "index": index}
    return Node(tensor.op, REGISTRY["feed"], tensor.name, (), (), attrs, [Spec(tensor.dtype, tensor.shape)])


def _as_built(spec: Spec) -> Spec:
    return spec


def _apart(spec: Spec) -> Spec:
    """`spec` with a shape object of its own.

    That two shapes are one object says that they are equal in every run: not if a value in between is fed.
    """
    known = isinstance(spec, ResourceSpec) or spec.shape.is_fully_defined()
    return spec if known else Spec(spec.dtype, TensorShape(spec.sizes), spec.known)


def _value(tensor: Tensor, fed: dict[Tensor, Node], nodes: dict[Operation, Node]) -> Value:
    feed = fed.get(tensor)
    return Value(nodes[tensor.op], tensor.index) if feed is None else Value(feed, 0)


def _needed(fed: dict[Tensor, Node], roots: Iterable[Operation], targets: Iterable[Operation]) -> list[Operation]:
    """The operations that must run, in the order they were built."""
    given = {tensor.op for tensor in fed if tensor.op.type == "placeholder"}
    found: set[Operation] = set()
    stack = [operation for operation in (*roots, *targets) if operation not in given]
    while stack:
        operation = stack.pop()
        if operation in found:
            continue
        found.add(operation)
        stack.extend(tensor.op for tensor in operation.inputs if tensor not in fed)
        stack.extend(control for control in operation.control_inputs if control not in given)
    return sorted(found, key=lambda operation: operation.id)
