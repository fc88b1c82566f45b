"""Lets a read of a TensorArray's slot clear the slot only if the read runs.

Reading a slot builds two operations: the read, and a `tensor_array_clear` that gives the list for later reads. If a
step prunes the read but runs later reads, these would find the slot cleared. So a `tensor_array_clear` without its read
becomes an identity.
"""

from collections.abc import Container
from typing import Final

from aioflow.kernels.array.constants import identity
from aioflow.plan.passes.flow import Block, Flow, Node, Value, rewrite, rewrite_blocks

_CLEAR: Final = "tensor_array_clear"
_READS: Final = frozenset({"tensor_array_read", "tensor_array_gather", "tensor_array_concat"})


def keep_unread(flow: Flow) -> Flow:
    """The Flow that clears a slot only if this step reads it."""
    if not any(inner.definition.name == _CLEAR for node in flow.nodes for inner in node.everything()):
        return flow
    flow = rewrite_blocks(flow, lambda node, block: Block(keep_unread(block.flow), block.takes))
    read = {node.inputs[:2] for node in flow.nodes if node.definition.name in _READS}
    idle = {node.operation for node in flow.nodes if node.definition.name == _CLEAR and not _is_read(node, read)}
    return rewrite(flow, lambda node: _handed_on(node) if node.operation in idle else node) if idle else flow


def _is_read(clear: Node, read: Container[tuple[Value, ...]]) -> bool:
    """Whether a read uses the slots that it clears, or the whole list."""
    return clear.inputs in read or clear.inputs[:1] in read


def _handed_on(clear: Node) -> Node:
    return Node(clear.operation, identity, clear.name, clear.inputs[:1], clear.controls, {}, clear.output_specs)
