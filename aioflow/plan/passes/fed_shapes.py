"""A flow with the shapes of one run, for placement on devices with memory limits.

A placeholder's open axes make the sizes of nearly all values unknown. So the shape rules run again with the fed shapes,
and each node also holds the sizes of this run. Only estimates use them: the nodes keep the shapes of the graph, because
the next run may have feeds of other shapes.
"""

from collections.abc import Mapping, Sequence

from aioflow.plan.passes.flow import Block, Flow, Node, Value, is_back_edge
from aioflow.tensors.dtypes import ListSpec, ResourceSpec, Spec, TensorShape


def with_fed_shapes(flow: Flow, fed: Sequence[Sequence[int]]) -> Flow:
    """A copy of the flow whose nodes also hold the shapes that follow from the shapes of its feeds.

    Other shapes stay unchanged, like those of values that a handmade loop carries.
    """
    shapes = [TensorShape(list(shape)) for shape in fed]
    specs = [Spec(node.output_specs[0].dtype, shape) for node, shape in zip(flow.feeds, shapes, strict=True)]
    return _resized(flow, dict(zip(flow.feeds, specs, strict=True)))


def _resized(flow: Flow, given: Mapping[Node, Spec]) -> Flow:
    done: dict[Node, Node] = {}
    for node in flow.nodes:
        inputs = [value for value in node.inputs if not is_back_edge(value.node, node)]
        whole = len(inputs) == len(node.inputs)
        moved = tuple([Value(done[source], index) for source, index in inputs])
        made = node.with_edges(moved, tuple([done[control] for control in node.controls]))
        if node in given:
            made.sized = (_narrowed(node.output_specs[0], given[node]),)
        elif whole and any(source.sized is not None for source, _ in moved):
            _infer(made)
        done[node] = made
    for node in flow.nodes:
        if any(is_back_edge(source, node) for source, _ in node.inputs):
            done[node].inputs = tuple([Value(done[source], index) for source, index in node.inputs])
    fetches = tuple([Value(done[source], index) for source, index in flow.fetches])
    feeds, targets = tuple([done[node] for node in flow.feeds]), tuple([done[node] for node in flow.targets])
    return Flow([done[node] for node in flow.nodes], feeds, fetches, targets)


def _infer(node: Node) -> None:
    """Give the node the shapes that follow from its inputs."""
    if node.blocks:
        node.blocks = tuple([_block(node, block) for block in node.blocks])
        found = [value.planned_spec for value in node.blocks[-1].flow.fetches]
        if node.definition.name == "while_loop":
            found = _of_loop(node, found)
    else:
        try:
            found = list(node.definition.infer(node.planned_inputs, node.attrs))
        except (TypeError, ValueError):
            return
    if len(found) == len(node.output_specs):
        node.sized = tuple(map(_narrowed, node.output_specs, found))


def _of_loop(node: Node, made: Sequence[Spec]) -> list[Spec]:
    """The outputs of a loop: its variables, the number of iterations, and a list for each value that it records."""
    variables = node.attrs["variables"]
    lists = [
        spec.with_item(item) if isinstance(spec, ListSpec) else spec
        for spec, item in zip(node.output_specs[variables + 1 :], made[variables:], strict=True)
    ]
    return [*made[:variables], node.output_specs[variables], *lists]


def _block(node: Node, block: Block) -> Block:
    given = {argument: node.inputs[place].planned_spec for place, argument in block.arguments.items()}
    for argument, spec in given.items():
        if isinstance(spec, ListSpec) and not isinstance(argument.output_specs[0], ListSpec):
            given[argument] = spec.element  # a loop takes recorded values from the list one by one
    return Block(_resized(block.flow, given), block.takes)


def _narrowed(known: Spec, found: Spec) -> Spec:
    """The Spec, completed by the sizes of another one."""
    if isinstance(known, ListSpec) and isinstance(found, ListSpec):
        return found
    if isinstance(known, ResourceSpec) or found.dtype is not known.dtype:
        return known
    try:
        values = known.known if found.known is None else found.known
        return Spec(known.dtype, known.shape.merge_with(found.shape), values)
    except ValueError:  # a loop may change the shapes of its variables
        return known
