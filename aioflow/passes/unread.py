"""A TensorArray's slot is cleared by the read that runs, not by one that was only built.

Reading a slot builds two operations: the read, and a `tensor_array_clear` whose list all later reads get. If a step
does not need what the read gives, later reads would still find the slot cleared. So without its read such an operation
hands on the list as it is.
"""

from collections.abc import Container
from typing import Final

from aioflow.kernels.constants import identity
from aioflow.passes.flow import Block, Flow, Node, Value, rewrite, rewrite_blocks

_CLEAR: Final = "tensor_array_clear"
_READS: Final = frozenset({"tensor_array_read", "tensor_array_gather", "tensor_array_concat"})


def keep_unread(flow: Flow) -> Flow:
    """The Flow in which slots that no read of this step reads are not cleared."""
    if not any(inner.definition.name == _CLEAR for node in flow.nodes for inner in node.everything()):
        return flow
    flow = rewrite_blocks(flow, lambda node, block: Block(keep_unread(block.flow), block.takes))
    read = {node.inputs[:2] for node in flow.nodes if node.definition.name in _READS}
    idle = {node.operation for node in flow.nodes if node.definition.name == _CLEAR and not _is_read(node, read)}
    return rewrite(flow, lambda node: _handed_on(node) if node.operation in idle else node) if idle else flow


def _is_read(clear: Node, read: Container[tuple[Value, ...]]) -> bool:
    """Whether the slots it clears are read: these, or all of the list."""
    return clear.inputs in read or clear.inputs[:1] in read


def _handed_on(clear: Node) -> Node:
    return Node(clear.operation, identity, clear.name, clear.inputs[:1], clear.controls, {}, clear.output_specs)


__all__ = ["keep_unread"]
