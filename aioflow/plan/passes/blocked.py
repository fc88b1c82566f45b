"""Marks the convolutions that oneDNN computes in blocks of channels, together with their neighbours.

A convolution is marked where a neighbour on the same images can be computed with it. So its bits are the same however
the plan is run: node by node, or in a chain; see `program/image_chains.py`.
"""

from aioflow.devices import onednn
from aioflow.kernels.nn import image_chain
from aioflow.kernels.nn.fused_convolution import fused_conv2d
from aioflow.plan.passes.flow import Flow, Node, rewrite


def mark_blocked(flow: Flow) -> Flow:
    """Return the flow with such convolutions marked."""
    if not any(node.definition is fused_conv2d for node in flow.nodes) or not onednn.available():
        return flow
    joins = {node for node in flow.nodes if _joins(node)}
    chosen = {each.name for node in joins for each in (node, *_sources(node)) if _is_beside(each, node, joins)}
    return rewrite(flow, lambda node: _blocked(node) if node.name in chosen else node) if chosen else flow


def _joins(node: Node) -> bool:
    name = node.definition.name
    return not node.controls and (image_chain.convolves(name, node, True) or image_chain.follows(name, node, True))


def _sources(node: Node) -> list[Node]:
    """The nodes that make its images."""
    return [node.inputs[place].node for place in image_chain.images_of(node.definition.name, node)]


def _is_beside(each: Node, node: Node, joins: set[Node]) -> bool:
    """Whether `each` is a convolution with a neighbour: `node`, or a source of `node` if they are the same."""
    if each.definition is not fused_conv2d or each not in joins:
        return False
    return each is not node or not joins.isdisjoint(_sources(node))


def _blocked(node: Node) -> Node:
    if node.definition is not fused_conv2d:
        return node
    attrs = {**node.attrs, "blocked": True}
    return Node(node.operation, fused_conv2d, node.name, node.inputs, node.controls, attrs, node.output_specs)
