"""From a graph to the part of it that one call needs [P15 section 4.2].

Lets a read of a TensorArray's slot clear the slot only if the read runs.

Reading a slot builds two operations: the read, and a `tensor_array_clear` that gives the list for later reads. If a
step prunes the read but runs later reads, these would find the slot cleared. So a `tensor_array_clear` without its read
becomes an identity.

Removes unused outputs of branches and loops, and the nodes inside that only these outputs need.

A gradient makes the forward loop record every value that it might need; once the gradient's loop is simplified, it
needs fewer. A loop variable stays if its last value is used, or if the condition or a remaining node reads it. A node
with an effect stays as a target of its block: the effect happens even if no result is used.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final

from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body, bodies_of
from aioflow.kernels.array.constants import identity
from aioflow.plan.passes.demand import Demand, is_loop
from aioflow.plan.passes.flow import Block, Flow, Node, Value, blocks_within, in_blocks, rewrite, sweep
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
    spec = tensor.spec if isinstance(tensor.spec, ListSpec) else Spec(tensor.dtype, tensor.shape)
    return Node(tensor.op, REGISTRY["feed"], tensor.name, (), (), attrs, [spec])


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


_CLEAR: Final = "tensor_array_clear"
_READS: Final = frozenset({"tensor_array_read", "tensor_array_gather", "tensor_array_concat"})


def keep_unread(flow: Flow) -> Flow:
    """The Flow that clears a slot only if this step reads it."""
    if not any(inner.definition.name == _CLEAR for node in flow.nodes for inner in node.everything()):
        return flow
    flow = in_blocks(flow, keep_unread)
    read = {node.inputs[:2] for node in flow.nodes if node.definition.name in _READS}
    idle = {node.operation for node in flow.nodes if node.definition.name == _CLEAR and not _is_read(node, read)}
    return rewrite(flow, lambda node: _handed_on(node) if node.operation in idle else node) if idle else flow


def _is_read(clear: Node, read: Container[tuple[Value, ...]]) -> bool:
    """Whether a read uses the slots that it clears, or the whole list."""
    return clear.inputs in read or clear.inputs[:1] in read


def _handed_on(clear: Node) -> Node:
    return Node(clear.operation, identity, clear.name, clear.inputs[:1], clear.controls, {}, clear.output_specs)


def trim(flow: Flow) -> Flow:
    """The Flow with no more in branches and loops than is used."""
    if not any(node.blocks for node in flow.nodes):
        return flow
    trimmer = _Trimmer(Demand(flow, [*flow.feeds, *flow.targets]))
    for node, block in reversed(blocks_within(flow.nodes)):  # inner ones first
        trimmer.block(node, block)
    return trimmer.flow(flow, flow.feeds, flow.fetches, flow.targets)


class _Trimmer:
    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._blocks: dict[Block, Block] = {}
        self._moved: dict[Node, dict[int, int]] = {}
        """For each branch or loop the new numbers of the outputs that stay, by their old numbers."""

    def block(self, node: Node, block: Block) -> None:
        """Trim a block after its inner blocks. Its arguments keep the numbers of the node's untrimmed inputs."""
        if node not in self._demand.nodes:
            return
        pairs = [pair for pair in zip(block.flow.feeds, block.takes, strict=True) if pair[0] in self._demand.nodes]
        fetches = [block.flow.fetches[index] for index in self._outputs(node, block)]
        feeds = [argument for argument, _ in pairs]
        flow = self.flow(block.flow, feeds, fetches, [each for each in block.effects if each in self._demand.nodes])
        self._blocks[block] = Block(flow, tuple([place for _, place in pairs]))

    def _outputs(self, node: Node, block: Block) -> list[int]:
        """The numbers of the block's fetches that stay."""
        kept = sorted(self._demand.outputs[node])
        if not is_loop(node):
            return kept
        if block is not node.blocks[-1]:
            return [0]
        count = node.attrs["variables"]
        return [index if index < count else index - 1 for index in kept if index != count]

    def flow(self, flow: Flow, feeds: Sequence[Node], fetches: Sequence[Value], targets: Sequence[Node]) -> Flow:
        """The flow with only the nodes that run, with their trimmed blocks."""
        done: dict[Node, Node] = {}

        def moved(value: Value) -> Value:
            numbers = self._moved.get(value.node)
            return Value(done[value.node], value.index if numbers is None else numbers[value.index])

        for node in flow.nodes:
            if node not in self._demand.nodes:
                continue
            trimmed = self._node(node) if node.blocks else node
            inputs, controls = tuple(map(moved, trimmed.inputs)), tuple([done[control] for control in node.controls])
            same = inputs == trimmed.inputs and controls == trimmed.controls
            done[node] = trimmed if same else trimmed.with_edges(inputs, controls)
        ends = tuple([done[node] for node in feeds]), tuple(map(moved, fetches)), tuple([done[n] for n in targets])
        return Flow(list(done.values()), *ends)

    def _node(self, node: Node) -> Node:
        """A branch or loop with the inputs and outputs that stay."""
        blocks = [self._blocks[block] for block in node.blocks]
        taken = {place for block in blocks for place in block.takes}
        places, outputs, attrs = (_of_loop if is_loop(node) else _of_branch)(node, self._demand.outputs[node], taken)
        self._moved[node] = {index: number for number, index in enumerate(outputs)}
        number = {place: index for index, place in enumerate(places)}
        return Node(
            node.operation, node.definition, node.name, tuple([node.inputs[place] for place in places]), node.controls,
            {**node.attrs, **attrs}, [node.output_specs[index] for index in outputs],
            tuple([Block(block.flow, tuple([number[place] for place in block.takes])) for block in blocks]),
        )  # fmt: skip


Kept = tuple[list[int], list[int], Mapping[str, int]]
"""The numbers of the inputs and of the outputs that stay, and the attributes that say so."""


def _of_branch(node: Node, used: set[int], taken: set[int]) -> Kept:
    return sorted({0, *taken}), sorted(used), {}


def _of_loop(node: Node, used: set[int], taken: set[int]) -> Kept:
    first, count, replays = (node.attrs[name] for name in ("limited", "variables", "replays"))
    live = sorted(index for index in used if index < count)
    others = sorted(place for place in taken if place >= first + count)
    attrs = {"variables": len(live), "replays": sum(place < first + count + replays for place in others)}
    places = [*range(first), *[first + index for index in live], *others]
    return places, sorted({*live, count, *used}), attrs
