"""A flow whose shapes are those of one run: what placement looks at where devices have limits of memory.

A placeholder's open axes make the sizes of nearly all values open. Shape rules run again from the shapes of what was
fed, so that the sizes are those of the run. The result is for estimates alone; plans keep the shapes of the graph, for
the next run may be fed others.
"""

from collections.abc import Mapping, Sequence

from aioflow.dtypes import ResourceSpec, Spec, TensorShape
from aioflow.passes.flow import Block, Flow, Node, Value, is_back_edge


def with_fed_shapes(flow: Flow, fed: Sequence[Sequence[int]]) -> Flow:
    """The flow, node by node, with the shapes that follow from those of its feeds.

    Shapes that do not follow, as those of what a loop made by hand carries, stay as they are.
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
            made.output_specs = (_narrowed(node.output_specs[0], given[node]),)
        elif whole and not all(spec.shape.is_fully_defined() for spec in node.output_specs):
            _infer(made)
        done[node] = made
    for node in flow.nodes:
        if any(is_back_edge(source, node) for source, _ in node.inputs):
            done[node].inputs = tuple([Value(done[source], index) for source, index in node.inputs])
    fetches = tuple([Value(done[source], index) for source, index in flow.fetches])
    feeds, targets = tuple([done[node] for node in flow.feeds]), tuple([done[node] for node in flow.targets])
    return Flow([done[node] for node in flow.nodes], feeds, fetches, targets)


def _infer(node: Node) -> None:
    """Give the node the shapes that follow from its inputs'."""
    if node.blocks:
        node.blocks = tuple([_block(node, block) for block in node.blocks])
        found = [value.spec for value in node.blocks[-1].flow.fetches]
    else:
        try:
            found = list(node.definition.infer(node.input_specs, node.attrs))
        except (TypeError, ValueError):
            return
    if len(found) == len(node.output_specs):
        node.output_specs = tuple(map(_narrowed, node.output_specs, found))


def _block(node: Node, block: Block) -> Block:
    given = {argument: node.inputs[place].spec for place, argument in block.arguments.items()}
    return Block(_resized(block.flow, given), block.takes)


def _narrowed(known: Spec, found: Spec) -> Spec:
    """The Spec with what another one knows besides."""
    if isinstance(known, ResourceSpec) or found.dtype is not known.dtype:
        return known
    try:
        return Spec(known.dtype, known.shape.merge_with(found.shape), known.known)
    except ValueError:  # a loop may change the shape of what it carries
        return known


__all__ = ["with_fed_shapes"]
