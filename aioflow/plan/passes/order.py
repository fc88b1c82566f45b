"""Orders the operations of one variable, table or stack: reads and updates run in the order they were built.

An operation inside a branch or loop counts as one of the whole branch or loop. Inside, the same order holds.
"""

from collections.abc import Hashable, Mapping
from typing import Final

from aioflow.graph.effects import STATES
from aioflow.plan.passes.flow import Block, Flow, Node, Value, blocks_within, sweep
from aioflow.tensors.dtypes import ResourceSpec

_ORDERED: Final = STATES | {"stack_v2"}
"""The ops whose handles have ordered operations."""
_WAYS_IN: Final = frozenset({"enter", "switch"})
"""How handles get into loops and branches that are primitives already."""
Keys = Mapping[Node, Hashable]
"""The keys of the handles among the arguments of a block."""


def order(flow: Flow, keys: Keys | None = None) -> Flow:
    """Add control edges: an update waits for the operations built before it, and later reads wait for the update."""
    known = keys or {}
    things_of = {node: touched(node, known) for node in flow.nodes}
    if not any(any(things.values()) for things in things_of.values()):
        return flow
    moved: dict[Node, Node] = {}
    last_update: dict[Hashable, Node] = {}
    reads: dict[Hashable, list[Node]] = {}
    for node in flow.nodes:
        inputs = tuple([Value(moved[source], index) for source, index in node.inputs])
        before = [moved[control] for control in node.controls]
        things = things_of[node]
        for key, changes in things.items():
            if changes:
                before += reads.pop(key, []) or ([last_update[key]] if key in last_update else [])
            else:
                before += [last_update[key]] if key in last_update else []
        controls = tuple(dict.fromkeys(before))
        changed = inputs != node.inputs or controls != node.controls
        made = node.with_edges(inputs, controls) if changed else node
        if node.blocks and any(things.values()):
            made = made.with_blocks(_ordered(node, known))
        moved[node] = made
        for key, changes in things.items():
            if changes:
                last_update[key] = made
            else:
                reads.setdefault(key, []).append(made)
    fetches = tuple([Value(moved[node], index) for node, index in flow.fetches])
    feeds = tuple([moved[node] for node in flow.feeds])
    return sweep(feeds, fetches, tuple([moved[node] for node in flow.targets]))


def _ordered(node: Node, keys: Keys) -> list[Block]:
    blocks = []
    for block in node.blocks:
        blocks.append(Block(order(block.flow, inside(node, block, keys)), block.takes))  # noqa: PERF401 (one call less)
    return blocks


def touched(node: Node, keys: Keys) -> dict[Hashable, bool]:
    """The variables, tables and stacks it works on, and whether it may change them."""
    if node.blocks:
        return _by_blocks(node, keys)
    changes = not node.definition.observes
    return {key: changes for value in node.inputs if (key := _key(value, keys)) is not None}


def _by_blocks(node: Node, keys: Keys) -> dict[Hashable, bool]:
    if any(block.touches is None for block in node.blocks):
        for _, block in reversed(blocks_within([node])):  # inner ones first
            block.touches = _touches(block)
    found: dict[Hashable, bool] = {}
    for block in node.blocks:
        assert block.touches is not None
        arguments = {argument: place for place, argument in block.arguments.items()}
        for thing, changes in block.touches.items():
            place = arguments.get(thing) if isinstance(thing, Node) else None
            key = thing if place is None else _key(node.inputs[place], keys)
            if key is not None:
                found[key] = found.get(key, False) or changes
    return found


def _touches(block: Block) -> dict[Hashable, bool]:
    """The variables, tables, stacks and arguments that nodes of a block use, each with whether they may change it."""
    own = {argument: argument for argument in block.flow.feeds if isinstance(argument.output_specs[0], ResourceSpec)}
    found: dict[Hashable, bool] = {}
    for node in block.flow.nodes:
        for thing, changes in touched(node, own).items():
            found[thing] = found.get(thing, False) or changes
    return found


def inside(node: Node, block: Block, keys: Keys) -> Keys:
    """Return the keys of the handles among the arguments of a block."""
    return {argument: key for place, argument in block.arguments.items()
            if (key := _key(node.inputs[place], keys)) is not None}  # fmt: skip


def _key(value: Value, keys: Keys) -> Hashable:
    """Return the key of a handle, equal for all handles to one object; None for other values."""
    source, index = value
    while source.definition.name in _WAYS_IN:
        source, index = source.inputs[0]
    if source in keys:
        return keys[source]
    if source.definition.name not in _ORDERED or not isinstance(source.output_specs[index], ResourceSpec):
        return None
    if source.definition.name in STATES:
        return source.definition.name, source.attrs["container"], source.attrs["shared_name"] or source.name
    return source.operation
