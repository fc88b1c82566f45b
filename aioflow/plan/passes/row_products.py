"""Finds the products of one row in loops whose matrices exceed a cache, so that each iteration reads them from memory.

The generation of a text, one token in each iteration, is such a loop. See `row_product`.
"""

from typing import Final

from aioflow.kernels.linalg.row_product import row_product
from aioflow.plan.passes.flow import Block, Flow, Node, rewrite
from aioflow.tensors.dtypes import float32

LEAST: Final = 1 << 17
"""The numbers of a matrix from which two threads read it faster than one."""
CACHE: Final = 1 << 19
"""The numbers that the second cache of a processor holds."""
_FLAGS: Final = ("transpose_a", "transpose_b", "adjoint_a", "adjoint_b")


def mark_row_products(flow: Flow) -> Flow:
    """Return the flow with such products marked: those of its loops, not of loops in these."""
    if not any(_is_large(node) for node in flow.nodes):
        return flow
    return rewrite(flow, lambda node: node.with_blocks(map(_marked, node.blocks)) if _is_large(node) else node)


def _is_large(node: Node) -> bool:
    """Whether it is a loop whose products of one row have more numbers than a cache holds."""
    if node.definition.name != "while_loop":
        return False
    return sum(_weights(inner) for block in node.blocks for inner in block.flow.nodes) > CACHE


def _weights(node: Node) -> int:
    """The numbers of the matrix if it is a product of one row; else 0."""
    if node.definition.name != "matmul" or any(node.attrs[flag] for flag in _FLAGS):
        return 0
    a, b = node.input_specs
    if a.dtype is not float32 or b.rank != 2 or a.sizes is None or a.sizes[:-1] != (1,):
        return 0
    return b.shape.num_elements() or 0


def _marked(block: Block) -> Block:
    return Block(rewrite(block.flow, lambda node: _product(node) if _weights(node) > LEAST else node), block.takes)


def _product(node: Node) -> Node:
    return Node(node.operation, row_product, node.name, node.inputs, node.controls, {}, node.output_specs)
