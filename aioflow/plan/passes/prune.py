"""From a graph to the part of it that one call needs [P15 section 4.2]."""

from collections.abc import Callable, Iterable, Sequence

from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body, bodies_of
from aioflow.plan.passes.flow import Block, Flow, Node, Value, sweep
from aioflow.tensors.dtypes import ListSpec, ResourceSpec, Spec, TensorShape


def prune(feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Iterable[Operation]) -> Flow:
    """The Flow that computes `fetches` and runs `targets`, with `feeds` given from outside.

    A fed tensor's operation runs only if something else needs it; for a fed placeholder nothing does.
    """
    fed = {tensor: _feed(tensor, index) for index, tensor in enumerate(feeds)}
    targets = tuple(targets)
    needed = _needed(fed, [tensor.op for tensor in fetches if tensor not in fed], targets)
    spec_of = _apart if any(tensor.op.type != "placeholder" for tensor in fed) else _as_built
    nodes = _nodes(needed, fed, spec_of)
    values = tuple([_value(tensor, fed, nodes) for tensor in fetches])
    return sweep(tuple(fed.values()), values, tuple([nodes[target] for target in targets if target in nodes]))


SpecOf = Callable[[Spec], Spec]


def _nodes(needed: Sequence[Operation], fed: dict[Tensor, Node], spec_of: SpecOf) -> dict[Operation, Node]:
    nodes: dict[Operation, Node] = {}
    for operation in needed:
        cyclic = operation.type == "merge"  # it may read a later node
        read = [] if cyclic else [tensor for tensor in operation.inputs if not _only_handed_on(operation, tensor.spec)]
        inputs = tuple([_value(tensor, fed, nodes) for tensor in read])
        controls = tuple([nodes[control] for control in operation.control_inputs if control in nodes])
        made = [tensor.spec for tensor in operation.outputs if not _only_handed_on(operation, tensor.spec)]
        specs = [spec_of(spec) for spec in made]
        nodes[operation] = Node(
            operation, operation.definition, operation.name, inputs, controls, operation.attrs, specs,
            tuple([_block(body, _constants(operation, inputs), spec_of) for body in bodies_of(operation)]),
        )  # fmt: skip
    for operation in needed:
        if operation.type == "merge":
            nodes[operation].inputs = tuple([_value(tensor, fed, nodes) for tensor in operation.inputs])
    return nodes


def _constants(operation: Operation, inputs: Sequence[Value]) -> dict[int, Node]:
    """The inputs that are constants, and the same whenever a body of the operation runs."""
    first = sum(int(operation.attrs.get(name, 0)) for name in ("limited", "variables", "replays"))
    found = [(place, value.node) for place, value in enumerate(inputs) if place >= first]
    return {place: node for place, node in found if node.definition is REGISTRY["constant"] and not node.controls}


def _block(body: Body, constants: dict[int, Node], spec_of: SpecOf) -> Block:
    given, takes = {}, []
    for tensor, place in zip(body.arguments, body.takes, strict=True):
        if place in constants:
            given[tensor] = _again(tensor.op, constants[place])
        else:
            given[tensor] = _argument(tensor, spec_of)
            takes.append(place)
    nodes = _nodes(_needed(given, [tensor.op for tensor in body.outputs if tensor not in given], ()), given, spec_of)
    values = tuple([_value(tensor, given, nodes) for tensor in body.outputs])
    arguments = tuple([node for node in given.values() if node.definition is not REGISTRY["constant"]])
    return Block(sweep(arguments, values, ()), tuple(takes))


def _again(operation: Operation, constant: Node) -> Node:
    """A constant in the place of the argument that it is given as, so that passes and kernels see its value."""
    attrs = constant.attrs
    return Node(operation, constant.definition, operation.name, (), (), attrs, constant.output_specs)


def _argument(tensor: Tensor, spec_of: SpecOf) -> Node:
    operation = tensor.op
    specs = [spec_of(tensor.spec)]
    return Node(operation, operation.definition, operation.name, (), (), operation.attrs, specs)


def _feed(tensor: Tensor, index: int) -> Node:
    attrs = {"dtype": tensor.dtype, "shape": tensor.shape, "index": index}
    return Node(tensor.op, REGISTRY["feed"], tensor.name, (), (), attrs, [Spec(tensor.dtype, tensor.shape)])


def _as_built(spec: Spec) -> Spec:
    return spec


def _apart(spec: Spec) -> Spec:
    """Return `spec` with a new shape object.

    One object for two shapes means that they are equal in every run. That does not hold if a value in between is fed.
    """
    known = isinstance(spec, ResourceSpec) or spec.shape.is_fully_defined()
    return spec if known else Spec(spec.dtype, TensorShape(spec.sizes), spec.known)


def _only_handed_on(operation: Operation, spec: Spec) -> bool:
    """Whether it is a handle that passes through `identity_n` only for gradients.

    Its object stays on its device, wherever that operation runs.
    """
    return operation.type == "identity_n" and isinstance(spec, ResourceSpec) and not isinstance(spec, ListSpec)


def _value(tensor: Tensor, fed: dict[Tensor, Node], nodes: dict[Operation, Node]) -> Value:
    while _only_handed_on(tensor.op, tensor.spec):
        tensor = tensor.op.inputs[tensor.index]
    feed = fed.get(tensor)
    return Value(nodes[tensor.op], tensor.index) if feed is None else Value(feed, 0)


def _needed(fed: dict[Tensor, Node], roots: Iterable[Operation], targets: Iterable[Operation]) -> list[Operation]:
    """The operations that must run, in the order they were built."""
    given = {tensor.op for tensor in fed if tensor.op.type in ("placeholder", "argument")}
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
